//! A collector of OpenTelemetry traces, as small as one can be: it takes OTLP over HTTP and keeps the spans.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use prost::Message as _;

/// It serves until the test ends.
pub struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Default)]
struct Taken {
    spans: Vec<Span>,
    authorization: Vec<Option<String>>,
}

/// A span as it came.
#[derive(Clone, Debug)]
pub struct Span {
    /// `delivery`, `release`, `attempt`, `accept`.
    pub name: String,
    /// The trace's id, hex.
    pub trace: String,
    /// Its own id, hex.
    pub id: String,
    /// Its parent's, hex; empty for none.
    pub parent: String,
    /// From and to, in nanoseconds since the epoch.
    pub times: (u64, u64),
    /// What it says, each as text.
    pub says: Vec<(String, String)>,
    /// Its events: name, and what each says.
    pub events: Vec<(String, Vec<(String, String)>)>,
}

impl Span {
    /// What it says under a name; empty for nothing.
    pub fn says(&self, name: &str) -> &str {
        self.says.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

impl Collector {
    /// Listens on a free port of this machine.
    ///
    /// # Panics
    /// Where it can't.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has an address");
        let taken = Arc::new(Mutex::new(Taken::default()));
        let keeps = Arc::clone(&taken);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let keeps = Arc::clone(&keeps);
                thread::spawn(move || serve(&stream, &keeps));
            }
        });
        Self { address, taken }
    }

    /// Where spans are sent.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1/traces", self.address)
    }

    /// The spans so far.
    ///
    /// # Panics
    /// Where a connection's thread did.
    pub fn spans(&self) -> Vec<Span> {
        self.taken.lock().expect("no holder panics").spans.clone()
    }

    /// The `Authorization` of each request so far.
    ///
    /// # Panics
    /// Where a connection's thread did.
    pub fn authorizations(&self) -> Vec<Option<String>> {
        self.taken.lock().expect("no holder panics").authorization.clone()
    }
}

/// Requests of one connection, one after the other.
fn serve(stream: &TcpStream, keeps: &Mutex<Taken>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut authorization, mut lines) = (0, None, 0);
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            lines += 1;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.parse().expect("a length is a number"),
                "authorization" => authorization = Some(value.to_owned()),
                _other => {}
            }
        }
        assert!(lines > 1, "a request has headers");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body is as long as it says");
        let request = ExportTraceServiceRequest::decode(&body[..]).expect("the body is OTLP");
        {
            let mut taken = keeps.lock().expect("no holder panics");
            taken.authorization.push(authorization);
            let scopes = request.resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
            taken.spans.extend(scopes.flat_map(|scope| scope.spans).map(|span| Span {
                name: span.name,
                trace: hex::encode(span.trace_id),
                id: hex::encode(span.span_id),
                parent: hex::encode(span.parent_span_id),
                times: (span.start_time_unix_nano, span.end_time_unix_nano),
                says: texts(span.attributes),
                events: span.events.into_iter().map(|event| (event.name, texts(event.attributes))).collect(),
            }));
        }
        let mut writer = stream;
        if writer.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

fn texts(all: Vec<KeyValue>) -> Vec<(String, String)> {
    let text = |value: Option<any_value::Value>| match value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    all.into_iter().map(|pair| (pair.key, text(pair.value.and_then(|value| value.value)))).collect()
}
