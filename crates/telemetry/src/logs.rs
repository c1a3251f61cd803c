//! Logs: one event, one line, as JSON or as text on a terminal.
//!
//! Fields of the contract come first and in its order; a span's fields stand in each of its events. What an operator reads aloud
//! holds no address: every text is redacted on its way out, even where it came inside somebody else's words.
//!
//! Not promised: that a line is on disk. Read `line.rs` next.

mod line;
mod redact;

use std::io::{IsTerminal, Write};

use curfew_domain::Moment;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt::MakeWriter};

pub use line::{FIELDS, Fields, Value};
pub use redact::redacted;

/// The form of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// One JSON object.
    Json,
    /// For eyes.
    Text,
}

impl Format {
    /// Text on a terminal, JSON elsewhere: by what stderr is.
    pub fn of_stderr() -> Self {
        if std::io::stderr().is_terminal() { Format::Text } else { Format::Json }
    }
}

/// Sends this process's events to stderr, filtered as `filter` says (`info`, `curfew_worker=debug,info`); unreadable parts are skipped.
///
/// A second call changes nothing.
pub fn init(format: Format, filter: &str) {
    let layer = Lines::new(format, std::io::stderr, system_clock);
    let _second_call = Registry::default().with(EnvFilter::builder().parse_lossy(filter)).with(layer).try_init();
}

fn system_clock() -> Moment {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The layer that writes the lines.
pub struct Lines<W> {
    format: Format,
    writer: W,
    now: fn() -> Moment,
}

impl<W> Lines<W> {
    /// Lines of a format into a writer, by a clock.
    pub fn new(format: Format, writer: W, now: fn() -> Moment) -> Self {
        Self { format, writer, now }
    }
}

impl<S, W> Layer<S> for Lines<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut collected = Collected::default();
        attributes.record(&mut collected);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(collected);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(collected) = span.extensions_mut().get_mut::<Collected>()
        {
            values.record(collected);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut all = Collected::default();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(outer) = span.extensions().get::<Collected>() {
                outer.0.iter().for_each(|(name, value)| all.0.put(name, value.clone()));
            }
        }
        event.record(&mut all);
        let meta = event.metadata();
        let text = match self.format {
            Format::Json => line::json((self.now)(), meta.level(), meta.target(), &all.0),
            Format::Text => line::text((self.now)(), meta.level(), meta.target(), &all.0),
        };
        // A closed stderr must not stop a delivery.
        let _unwritable = self.writer.make_writer_for(meta).write_all(text.as_bytes());
    }
}

/// Fields of a span or an event, on their way.
#[derive(Default)]
struct Collected(Fields);

impl Visit for Collected {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.put(field.name(), Value::Integer(i128::from(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.put(field.name(), Value::Integer(i128::from(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.put(field.name(), Value::Real(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.put(field.name(), Value::Truth(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.put(field.name(), Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.put(field.name(), Value::Text(format!("{value:?}")));
    }
}
