//! A stream of bytes becomes batches of numbered lines, of bounded size whatever the lines hold.

use crate::limits::{BATCH_BYTES_MAX, BATCH_JOBS_MAX, BODY_BYTES_MAX};

/// Lines that are judged together. One buffer, no allocation per line.
#[derive(Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    /// Number, start, end; `None` as the end: the line was too long and is not kept.
    lines: Vec<(u64, usize, Option<usize>)>,
}

impl Batch {
    /// The lines by number; `None` where one was too long.
    pub fn lines(&self) -> impl Iterator<Item = (u64, Option<&[u8]>)> {
        self.lines.iter().map(|(number, start, end)| (*number, end.map(|end| &self.bytes[*start..end])))
    }
}

/// Cuts lines.
pub(super) struct Cutter {
    batch: Batch,
    /// Where the line under way begins.
    start: usize,
    too_long: bool,
    number: u64,
    first: bool,
}

impl Cutter {
    pub fn new(first_line: u64) -> Self {
        Self { batch: Batch::default(), start: 0, too_long: false, number: first_line, first: true }
    }

    /// Takes a piece of the stream; the batches that it completes.
    pub fn push(&mut self, mut piece: &[u8]) -> Vec<Batch> {
        let mut whole = Vec::new();
        while let Some(end) = piece.iter().position(|b| *b == b'\n') {
            self.keep(&piece[..end]);
            piece = &piece[end + 1..];
            whole.extend(self.end_line());
        }
        self.keep(piece);
        whole
    }

    /// The end of the stream, with or without a last newline.
    pub fn finish(mut self) -> Option<Batch> {
        let last = self.end_line();
        last.or_else(|| (!self.batch.lines.is_empty()).then_some(self.batch))
    }

    fn keep(&mut self, part: &[u8]) {
        if self.too_long || self.batch.bytes.len() - self.start + part.len() > BODY_BYTES_MAX {
            self.too_long = true;
            self.batch.bytes.truncate(self.start);
        } else {
            self.batch.bytes.extend_from_slice(part);
        }
    }

    fn end_line(&mut self) -> Option<Batch> {
        let number = self.number;
        self.number += 1;
        if std::mem::take(&mut self.first) && self.batch.bytes[self.start..].starts_with(b"\xef\xbb\xbf") {
            self.start += 3;
        }
        let end = self.batch.bytes.len();
        if std::mem::take(&mut self.too_long) {
            self.batch.lines.push((number, self.start, None));
        } else if !self.batch.bytes[self.start..].trim_ascii().is_empty() {
            self.batch.lines.push((number, self.start, Some(end)));
        }
        self.start = end;
        let full = self.batch.lines.len() >= BATCH_JOBS_MAX || end >= BATCH_BYTES_MAX;
        full.then(|| {
            self.start = 0;
            std::mem::take(&mut self.batch)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]], first: u64) -> Vec<(u64, Option<Vec<u8>>)> {
        let mut cutter = Cutter::new(first);
        let mut batches: Vec<Batch> = pieces.iter().flat_map(|p| cutter.push(p)).collect();
        batches.extend(cutter.finish());
        batches.iter().flat_map(|b| b.lines().map(|(n, l)| (n, l.map(<[u8]>::to_vec))).collect::<Vec<_>>()).collect()
    }

    #[test]
    fn lines_are_numbered_across_pieces_and_blank_ones_count() {
        let found = cut(&[b"\xef\xbb\xbfon", b"e\r\n\n  \ntw", b"", b"o\nthree"], 5);
        assert_eq!(found, vec![(5, Some(b"one\r".to_vec())), (8, Some(b"two".to_vec())), (9, Some(b"three".to_vec()))]);
        assert_eq!(cut(&[b"one\n"], 1), vec![(1, Some(b"one".to_vec()))]);
        assert_eq!(cut(&[], 1), vec![]);
    }

    #[test]
    fn a_line_too_long_is_named_and_the_next_one_is_read() {
        let long = vec![b'x'; BODY_BYTES_MAX];
        let found = cut(&[&long, b"y", b"y\nnext\n", &long, b"\n"], 1);
        assert_eq!(
            found.iter().map(|(n, l)| (*n, l.as_ref().map(Vec::len))).collect::<Vec<_>>(),
            vec![(1, None), (2, Some(4)), (3, Some(BODY_BYTES_MAX))]
        );
    }

    #[test]
    fn a_batch_ends_at_its_bounds() {
        let mut cutter = Cutter::new(1);
        let batches = cutter.push("{}\n".repeat(1_200).as_bytes());
        assert_eq!(batches.iter().map(|b| b.lines.len()).collect::<Vec<_>>(), vec![500, 500]);
        assert_eq!(cutter.finish().map(|b| b.lines.len()), Some(200));
    }
}
