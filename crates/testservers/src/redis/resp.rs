//! A client of one command: enough of RESP2 to set up and to ask a test's servers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resp {
    /// `+OK`
    Text(String),
    /// `-ERR …`
    Error(String),
    /// `:1`
    Number(i64),
    /// `$…`, or nothing.
    Bulk(Option<Vec<u8>>),
    /// `*…`
    List(Vec<Resp>),
}

impl Resp {
    /// The text of a text, an error or a bulk string; digits of a number; else nothing.
    pub fn text(&self) -> String {
        match self {
            Resp::Text(text) | Resp::Error(text) => text.clone(),
            Resp::Number(number) => number.to_string(),
            Resp::Bulk(bytes) => String::from_utf8_lossy(bytes.as_deref().unwrap_or_default()).into_owned(),
            Resp::List(_) => String::new(),
        }
    }

    /// The parts of a list; none of anything else.
    pub fn list(self) -> Vec<Resp> {
        match self {
            Resp::List(parts) => parts,
            Resp::Text(_) | Resp::Error(_) | Resp::Number(_) | Resp::Bulk(_) => Vec::new(),
        }
    }
}

/// Connects, sends one command, and reads its answer.
///
/// # Errors
/// Where there is no answer within 5 s.
pub async fn ask(addr: SocketAddr, command: &[&str]) -> io::Result<Resp> {
    let asked = async {
        let mut stream = BufReader::new(TcpStream::connect(addr).await?);
        let mut request = format!("*{}\r\n", command.len()).into_bytes();
        for word in command {
            request.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
        stream.write_all(&request).await?;
        read(&mut stream).await
    };
    tokio::time::timeout(ANSWER_WITHIN, asked).await.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn read(stream: &mut BufReader<TcpStream>) -> io::Result<Resp> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let garbage = || io::Error::from(io::ErrorKind::InvalidData);
    let (kind, rest) = line.trim_end().split_at_checked(1).ok_or_else(garbage)?;
    let number = || rest.parse::<i64>().map_err(|_misfit| garbage());
    match kind {
        "+" => Ok(Resp::Text(rest.to_owned())),
        "-" => Ok(Resp::Error(rest.to_owned())),
        ":" => Ok(Resp::Number(number()?)),
        "$" => match usize::try_from(number()?) {
            Err(_nil) => Ok(Resp::Bulk(None)),
            Ok(length) => {
                let mut bytes = vec![0; length + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(length);
                Ok(Resp::Bulk(Some(bytes)))
            }
        },
        "*" => {
            let mut parts = Vec::new();
            for _ in 0..number()?.max(0) {
                parts.push(Box::pin(read(stream)).await?);
            }
            Ok(Resp::List(parts))
        }
        _unknown => Err(garbage()),
    }
}
