//! T3 and T4: a line is a line, in order, without addresses.

use std::io::Write;
use std::sync::{Arc, Mutex};

use curfew_domain::Moment;
use curfew_telemetry::logs::{Format, Lines};
use tracing_subscriber::layer::SubscriberExt;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn logged(format: Format, run: impl FnOnce()) -> String {
    let kept = Kept::default();
    let writer = kept.clone();
    let layer = Lines::new(format, move || writer.clone(), || Moment::from_millis(1_796_114_100_250));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), run);
    String::from_utf8(kept.0.lock().expect("not poisoned").clone()).expect("UTF-8")
}

fn one_delivery() {
    let span = tracing::info_span!("delivery", key = "acme/renewal/R-1/2026-12-01", role = "worker", shard = 3, attempt = tracing::field::Empty);
    let _inside = span.enter();
    span.record("attempt", 2);
    tracing::info!(outcome = "permanent", said = "550 <ada@example.com>\r\n unknown\u{1b}[2J", took_s = 0.5, "refused by the server");
}

#[test]
fn an_event_is_one_json_line_with_the_contracts_fields_first() {
    let line = logged(Format::Json, one_delivery);
    assert_eq!(
        line,
        "{\"ts\":\"2026-12-01T08:35:00.250Z\",\"level\":\"info\",\"role\":\"worker\",\"shard\":3,\"key\":\"acme/renewal/R-1/2026-12-01\",\"attempt\":2,\
         \"outcome\":\"permanent\",\"msg\":\"refused by the server\",\"target\":\"logs\",\
         \"said\":\"550 <•@•>\\r\\n unknown\\u001b[2J\",\"took_s\":0.5}\n"
    );
    assert!(line.parse::<serde_json::Value>().is_ok());
}

#[test]
fn on_a_terminal_nobody_elses_words_move_the_cursor() {
    let line = logged(Format::Text, one_delivery);
    assert!(line.starts_with("08:35:00 info  refused by the server role=worker shard=3 "), "{line}");
    assert_eq!(line.chars().filter(|c| c.is_control()).count(), 1, "the line feed alone: {line}");
    assert!(!line.contains("ada"));
}
