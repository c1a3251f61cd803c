//! W3C trace context (Trace Context, Level 1): who asked for a job, in the asker's own tracing; and the names of a job's own spans, which
//! every process computes alike, so that an attempt knows its delivery's before that span is written.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{JobId, Record};

/// A trace, the span under which ours stand, and whether anybody wants to see them. Stored as its `traceparent`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceContext {
    /// The trace's id, never zero.
    pub trace: [u8; 16],
    /// The asker's span; zero where nobody asked.
    pub parent: [u8; 8],
    /// Whether the asker's own spans are kept (section 3.2.2.5).
    pub sampled: bool,
}

/// The id of a span.
pub type SpanId = [u8; 8];

impl TraceContext {
    /// Reads a `traceparent` (section 3.2). A later version is read as far as this one goes; `None`: it isn't one, and is to be ignored (section 4.3).
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim_matches([' ', '\t']).split('-');
        let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace, parent, [flags]) = (bytes::<16>(trace)?, bytes::<8>(parent)?, bytes::<1>(flags)?);
        (trace != [0; 16] && parent != [0; 8]).then_some(Self { trace, parent, sampled: flags & 1 == 1 })
    }

    /// The trace of a job that nobody asked for in one: the job's id is the trace's.
    #[must_use]
    pub fn of_job(id: JobId) -> Self {
        Self { trace: *id.0.as_bytes(), parent: [0; 8], sampled: true }
    }

    /// The `traceparent` under which a provider's spans would stand, with one of our own as their parent.
    #[must_use]
    pub fn header(&self, span: SpanId) -> String {
        let mut text = String::with_capacity(55);
        text.push_str("00-");
        push_hex(&mut text, &self.trace);
        text.push('-');
        push_hex(&mut text, &span);
        text.push_str(if self.sampled { "-01" } else { "-00" });
        text
    }
}

/// The span of a generation's delivery.
#[must_use]
pub fn delivery_span(id: JobId, generation: u32) -> SpanId {
    span(id, generation, 0)
}

/// The span of the attempt that a claim began, by the version that the claim wrote; or of any other step that wrote one.
#[must_use]
pub fn step_span(record: &Record, version: u64) -> SpanId {
    span(record.id, record.generation, version.max(1))
}

/// Sixty-four bits that two steps of all jobs hardly ever share: splitmix64's finaliser over the id's random half and the step's numbers.
fn span(id: JobId, generation: u32, step: u64) -> SpanId {
    let [.., a, b, c, d, e, f, g, h] = *id.0.as_bytes();
    let step = (u64::from(generation) << 40).wrapping_add(step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut mixed = u64::from_be_bytes([a, b, c, d, e, f, g, h]) ^ step;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)).max(1).to_be_bytes()
}

fn push_hex(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _infallible = write!(text, "{byte:02x}");
    }
}

/// Lower-case hex alone (section 3.2.2).
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _other => None,
    };
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut all = [0; N];
    for (byte, pair) in all.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(all)
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        context.header(context.parent)
    }
}

impl TryFrom<String> for TraceContext {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("no traceparent")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_reads_back() {
        let context = TraceContext::parse(GIVEN).expect("the example of the specification");
        assert_eq!((context.header(context.parent).as_str(), context.sampled), (GIVEN, true));
        assert_eq!(crate::form::encode(&context).len(), 57);
        let unsampled = TraceContext::parse(&GIVEN.replace("-01", "-02")).expect("a flag that we don't know says nothing");
        assert!(!unsampled.sampled);
        let later = TraceContext::parse(&format!("cc{}-what-comes", &GIVEN[2..])).expect("a later version is read as far as ours goes");
        assert_eq!(later, context);
    }

    #[test]
    fn what_is_no_traceparent_is_ignored() {
        let zero_trace = GIVEN.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_parent = GIVEN.replace("00f067aa0ba902b7", &"0".repeat(16));
        let upper = GIVEN.replace("4bf", "4BF");
        for text in ["", "00", &GIVEN[..54], &format!("{GIVEN}-more"), &GIVEN.replacen("00", "ff", 1), &zero_trace, &zero_parent, &upper, "00-é-é-é"]
        {
            assert_eq!(TraceContext::parse(text), None, "{text}");
        }
    }

    #[test]
    fn spans_of_all_steps_differ() {
        let ids = (0..200_u128).map(|n| JobId(uuid::Uuid::from_u128(0x0193_8000_0000_7000_8000_0000_0000_0000 + n)));
        let spans: std::collections::BTreeSet<_> = ids.flat_map(|id| (1..4).flat_map(move |g| (0..40).map(move |step| span(id, g, step)))).collect();
        assert_eq!(spans.len(), 200 * 3 * 40);
    }
}
