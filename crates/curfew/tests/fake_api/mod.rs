//! An HTTP server as small as a test: it keeps what was asked and answers what the test says.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Method and target, for instance `GET /v1/jobs?limit=2`.
    pub line: String,
    /// The authorization header.
    pub authorization: Option<String>,
    /// The body.
    pub body: String,
}

/// A server that lives as long as the test.
pub struct FakeApi {
    /// Its URL.
    pub url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

type Answer = Arc<dyn Fn(&Asked) -> (u16, String) + Send + Sync>;

impl FakeApi {
    /// Answers by this function.
    pub fn start(answer: impl Fn(&Asked) -> (u16, String) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (answer, kept): (Answer, _) = (Arc::new(answer), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream, &answer, &kept));
            }
        });
        Self { url, asked }
    }

    /// What was asked until now.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").clone()
    }

    /// Runs the binary against it.
    pub fn curfew(&self, args: &[&str]) -> Output {
        curfew(&self.url, args)
    }
}

/// Runs the binary against a URL, without this process's settings.
pub fn curfew(api: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_curfew"));
    for (name, _) in std::env::vars_os().filter(|(k, _)| k.to_string_lossy().starts_with("CURFEW_")) {
        command.env_remove(name);
    }
    command.env("CURFEW_TOKEN", "sesame").stdin(Stdio::null()).args(["--api", api]).args(args).output().expect("it runs")
}

fn serve(stream: TcpStream, answer: &Answer, kept: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a clone"));
    let mut writer = stream;
    while let Some(asked) = request(&mut reader) {
        let (status, body) = answer(&asked);
        kept.lock().expect("not poisoned").push(asked);
        let head = format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(body.as_bytes())).is_err() {
            return;
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    let (mut length, mut authorization) = (0_usize, None);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => authorization = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
    Some(Asked { line, authorization, body: String::from_utf8(body).ok()? })
}
