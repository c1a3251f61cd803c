//! Traces: a job's spans, sent to an OpenTelemetry collector (OTLP over HTTP) where the configuration names one.
//!
//! A `delivery` is a generation of a job from its acceptance to its end, written when its story reaches book or review; its events are the
//! history. Under it stand `release` (a wake-up, by the scheduler) and `attempt` (from the claim to the decision, by a worker). Each process
//! computes the ids of all of them, so nothing is handed around but the job. Whoever submitted the job with a `traceparent` finds them in
//! that trace; else the job's id is the trace's.
//!
//! Promises
//! - Without a collector every function does next to nothing; with one that is slow or away, spans are dropped, never waited for.
//! - No address and no content: keys, states, reasons, rules and redacted words.
//!
//! Not promised: that every span arrives. What must be known stands in the ledger and the book.

use std::sync::OnceLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use curfew_domain::history::HistoryEntry;
use curfew_domain::trace::{SpanId, TraceContext, delivery_span, step_span};
use curfew_domain::{Moment, Outcome, Reason, Record, State};
use opentelemetry::trace::{Event, SpanContext, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, SpanId as OtelSpan, TraceId};
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};

use crate::logs::redacted;
use crate::post::Post;

/// Spans that wait for the collector; more are dropped.
const WAITING_MAX: usize = 8_192;
/// How long spans wait for others before they leave.
const GATHER: Duration = Duration::from_secs(1);
/// How long one batch may take.
const SEND_MAX: Duration = Duration::from_secs(10);
/// How long a process that ends waits for its last spans.
const LAST_MAX: Duration = Duration::from_secs(3);

static EXPORTER: OnceLock<Exporter> = OnceLock::new();

/// Where the spans go.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The whole URL, for instance `http://127.0.0.1:4318/v1/traces`.
    pub endpoint: String,
    /// The `Authorization` header's value.
    pub authorization: Option<String>,
    /// Of a hundred traces that nobody else began, how many are sent. One that came with a job is sent as its own flag says.
    pub sample_percent: u8,
    /// The roles of this process.
    pub roles: String,
}

struct Exporter {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
    sample_percent: u8,
}

/// Begins to export; a second call changes nothing.
///
/// # Errors
/// The endpoint's fault, in words.
pub fn init(collector: &Collector) -> Result<(), String> {
    let client = Post::new(SEND_MAX, collector.authorization.clone());
    let exporter = opentelemetry_otlp::SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(&collector.endpoint)
        .with_timeout(SEND_MAX)
        .build()
        .map_err(|error| error.to_string())?;
    let batches = BatchConfigBuilder::default().with_max_queue_size(WAITING_MAX).with_scheduled_delay(GATHER).build();
    let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
    let version = env!("CARGO_PKG_VERSION");
    let about = [KeyValue::new("service.version", version), KeyValue::new("curfew.roles", collector.roles.clone())];
    processor.set_resource(&Resource::builder_empty().with_service_name("curfew").with_attributes(about).build());
    let scope = InstrumentationScope::builder("curfew").with_version(version).build();
    let _second_call = EXPORTER.set(Exporter { processor, scope, sample_percent: collector.sample_percent.min(100) });
    Ok(())
}

/// Sends what waits, for at most some seconds. Blocks; the process's last act.
pub fn flush() {
    if let Some(exporter) = EXPORTER.get() {
        let _away = exporter.processor.shutdown_with_timeout(LAST_MAX);
    }
}

/// Whether spans are sent at all: for callers that would have to keep something for them.
pub fn are_sent() -> bool {
    EXPORTER.get().is_some()
}

/// A job was accepted at the door, in the trace of whoever submitted it.
pub fn accepted(job: &curfew_domain::job::Job, took: Duration) {
    let Some(asked) = job.trace else { return };
    let Some(exporter) = exporter(&asked) else { return };
    let mut attributes = vec![KeyValue::new("curfew.job_id", job.id.to_string()), KeyValue::new("curfew.key", job.key.to_string())];
    attributes.push(KeyValue::new("curfew.tenant", job.tenant.clone()));
    let span = Span { name: "accept", kind: SpanKind::Server, id: delivery_span(job.id, 0), parent: asked.parent };
    let from = time(job.accepted_at);
    exporter.send(span, &asked, (from, from + took), attributes, Vec::new(), Status::Unset);
}

/// The scheduler's wake-up was confirmed by the broker; `record` is the version that it released.
pub fn released(record: &Record, from: Moment, to: Moment) {
    let asked = context(record);
    let Some(exporter) = exporter(&asked) else { return };
    let mut attributes = about(record);
    attributes.push(KeyValue::new("curfew.due", record.due().rfc3339()));
    let span = Span { name: "release", kind: SpanKind::Producer, id: step_span(record, record.version), parent: delivery(record) };
    exporter.send(span, &asked, (time(from), time(to)), attributes, Vec::new(), Status::Unset);
}

/// One attempt, as the worker that made it knows it.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// The version that the claim wrote.
    pub claimed: u64,
    /// When it did.
    pub from: Moment,
    /// When the intent was written, where one was.
    pub intent: Option<Moment>,
    /// What it came to.
    pub outcome: &'a Outcome,
    /// Its number, from 1.
    pub number: u32,
}

/// An attempt ended; `after` is the record with the decision in it.
pub fn attempted(attempt: &Attempt<'_>, after: &Record, to: Moment) {
    let asked = context(after);
    let Some(exporter) = exporter(&asked) else { return };
    let outcome = attempt.outcome;
    let mut attributes = about(after);
    attributes.push(KeyValue::new("curfew.attempt", i64::from(attempt.number)));
    attributes.push(KeyValue::new("curfew.transport", after.transport.clone()));
    attributes.push(KeyValue::new("curfew.outcome", outcome.class.word()));
    attributes.push(KeyValue::new("curfew.rule", outcome.rule));
    attributes.push(KeyValue::new("curfew.stage", outcome.stage.word()));
    attributes.push(KeyValue::new("curfew.decision", after.state.word()));
    attributes.extend(after.reason.map(|reason| KeyValue::new("curfew.reason", reason.word())));
    if after.state == State::Scheduled {
        attributes.push(KeyValue::new("curfew.next_attempt_at", after.next_attempt_at.rfc3339()));
    }
    let intent = attempt.intent.map(|at| Event::new("intent", time(at), Vec::new(), 0));
    let status = match after.state {
        State::Sent => Status::Ok,
        _other => Status::error(redacted(&outcome.diagnostic)),
    };
    let span = Span { name: "attempt", kind: SpanKind::Client, id: step_span(after, attempt.claimed), parent: delivery(after) };
    exporter.send(span, &asked, (time(attempt.from), time(to)), attributes, intent.into_iter().collect(), status);
}

/// A generation's story reached book or review: its delivery, with its history as events.
pub fn ended(record: &Record, history: &[HistoryEntry]) {
    let asked = context(record);
    let Some(exporter) = exporter(&asked) else { return };
    let of_it: Vec<&HistoryEntry> = history.iter().filter(|entry| entry.generation == record.generation).collect();
    let (Some(first), Some(last)) = (of_it.first(), of_it.last()) else { return };
    let mut attributes = about(record);
    attributes.push(KeyValue::new("curfew.state", record.state.word()));
    attributes.push(KeyValue::new("curfew.attempts", i64::from(record.attempts)));
    attributes.push(KeyValue::new("curfew.release_at", record.release_at.rfc3339()));
    attributes.push(KeyValue::new("curfew.deadline_at", record.deadline_at.rfc3339()));
    attributes.extend(record.reason.map(|reason| KeyValue::new("curfew.reason", reason.word())));
    let status = match record.state {
        State::Sent => Status::Ok,
        State::DeadLetter => Status::error(record.reason.map_or("dead letter", Reason::word)),
        _decided => Status::Unset,
    };
    let span = Span { name: "delivery", kind: SpanKind::Internal, id: delivery(record), parent: asked.parent };
    let events = of_it.iter().map(|entry| event(entry)).collect();
    exporter.send(span, &asked, (time(first.at), time(last.at)), attributes, events, status);
}

fn event(entry: &HistoryEntry) -> Event {
    let mut says = vec![KeyValue::new("curfew.actor", redacted(&entry.actor))];
    says.extend(entry.from.map(|from| KeyValue::new("curfew.from", from.word())));
    says.extend(entry.reason.map(|reason| KeyValue::new("curfew.reason", reason.word())));
    if entry.attempt > 0 {
        says.push(KeyValue::new("curfew.attempt", i64::from(entry.attempt)));
    }
    says.push(KeyValue::new("curfew.detail", redacted(&entry.detail)));
    Event::new(entry.to.word(), time(entry.at), says, 0)
}

struct Span {
    name: &'static str,
    kind: SpanKind,
    id: SpanId,
    parent: SpanId,
}

impl Exporter {
    fn send(
        &self,
        span: Span,
        asked: &TraceContext,
        (start_time, end_time): (SystemTime, SystemTime),
        attributes: Vec<KeyValue>,
        events: Vec<Event>,
        status: Status,
    ) {
        let (trace, id) = (TraceId::from_bytes(asked.trace), OtelSpan::from_bytes(span.id));
        let mut all = SpanEvents::default();
        all.events = events;
        self.processor.on_end(SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: OtelSpan::from_bytes(span.parent),
            parent_span_is_remote: span.parent == asked.parent,
            span_kind: span.kind,
            name: span.name.into(),
            start_time,
            end_time: end_time.max(start_time),
            attributes,
            dropped_attributes_count: 0,
            events: all,
            links: SpanLinks::default(),
            status,
            instrumentation_scope: self.scope.clone(),
        });
    }
}

/// The exporter, where this trace is to be sent.
fn exporter(asked: &TraceContext) -> Option<&'static Exporter> {
    let exporter = EXPORTER.get()?;
    let wanted = match asked.parent {
        [0, 0, 0, 0, 0, 0, 0, 0] => falls_in(asked.trace, exporter.sample_percent),
        _somebodys => asked.sampled,
    };
    wanted.then_some(exporter)
}

/// By the trace's last bytes, so that every process decides alike (Trace Context, Level 2: they are random).
fn falls_in(trace: [u8; 16], percent: u8) -> bool {
    let [.., a, b, c, d] = trace;
    u64::from(u32::from_be_bytes([a, b, c, d])) * 100 < u64::from(percent) << 32
}

fn context(record: &Record) -> TraceContext {
    record.trace.unwrap_or_else(|| TraceContext::of_job(record.id))
}

fn delivery(record: &Record) -> SpanId {
    delivery_span(record.id, record.generation)
}

/// What every span says of its job.
fn about(record: &Record) -> Vec<KeyValue> {
    vec![
        KeyValue::new("curfew.job_id", record.id.to_string()),
        KeyValue::new("curfew.key", record.key.to_string()),
        KeyValue::new("curfew.tenant", record.tenant().to_owned()),
        KeyValue::new("curfew.business_date", record.business_date.clone()),
        KeyValue::new("curfew.generation", i64::from(record.generation)),
        KeyValue::new("curfew.version", i64::try_from(record.version).unwrap_or(i64::MAX)),
        KeyValue::new("curfew.shard", i64::from(record.shard.0)),
    ]
}

fn time(at: Moment) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(at.as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_traces_is_a_share() {
        let traces: Vec<[u8; 16]> = (0..10_000_u32).map(|n| u128::from(n.wrapping_mul(2_654_435_761)).to_be_bytes()).collect();
        for percent in [0, 1, 25, 100] {
            let sent = traces.iter().filter(|trace| falls_in(**trace, percent)).count();
            assert!(sent.abs_diff(usize::from(percent) * 100) <= 20, "{percent}: {sent}");
        }
    }

    #[test]
    fn without_a_collector_nothing_is_sent() {
        assert!(exporter(&TraceContext { trace: [1; 16], parent: [1; 8], sampled: true }).is_none());
    }
}
