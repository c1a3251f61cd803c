//! RFC 2047: text in headers. Either every character stands as it is and can be folded, or all of it is encoded; a mix of both loses or
//! invents spaces in real readers.

/// RFC 2047, 2: an encoded-word has at most 75 characters.
const PREFIX: &str = "=?utf-8?b?";
const SUFFIX: &str = "?=";
/// Octets of text in one encoded-word: 45 octets give 60 of base64, 72 with the frame.
const CHUNK_OCTETS: usize = 45;
/// RFC 5322, 2.1.1: a line should have at most 78 characters.
const LINE: usize = 78;
/// Longer words are encoded, since a fold needs a space.
const WORD_MAX: usize = 60;

/// A header's value under construction: knows how long its last line is.
pub(super) struct Value {
    text: String,
    line: usize,
}

impl Value {
    /// For a header of this name.
    pub(super) fn of(header: &str) -> Self {
        Self { text: String::new(), line: header.len() + ": ".len() }
    }

    /// One token that is not broken; goes to a new line where it doesn't fit. Tokens are set apart by one space.
    pub(super) fn token(&mut self, token: &str) {
        if !self.text.is_empty() {
            if self.line + 1 + token.len() > LINE {
                self.text.push_str("\r\n");
                self.line = 0;
            }
            self.text.push(' ');
            self.line += 1;
        }
        self.text.push_str(token);
        self.line += token.len();
    }

    /// Free text, as in a subject.
    pub(super) fn unstructured(&mut self, text: &str) {
        if plain(text) {
            text.split(' ').for_each(|word| self.token(word));
        } else {
            self.encoded(text);
        }
    }

    /// A display name: atoms, a quoted string, or encoded-words (RFC 5322, 3.2.5).
    pub(super) fn phrase(&mut self, name: &str) {
        let atoms = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '-' | '_');
        if plain(name) && name.chars().all(atoms) {
            name.split(' ').for_each(|word| self.token(word));
        } else if plain(name) && name.len() <= WORD_MAX {
            self.token(&format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")));
        } else {
            self.encoded(name);
        }
    }

    /// The folded value.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Encoded-words, each of whole characters; readers join them without the space between.
    fn encoded(&mut self, mut text: &str) {
        use base64::Engine;
        while !text.is_empty() {
            // The first word shares its line with the header's name.
            let room = if self.text.is_empty() { LINE.saturating_sub(self.line + PREFIX.len() + SUFFIX.len()) / 4 * 3 } else { CHUNK_OCTETS };
            let mut cut = room.clamp(12, CHUNK_OCTETS).min(text.len());
            while !text.is_char_boundary(cut) {
                cut -= 1;
            }
            let (chunk, rest) = text.split_at(cut);
            self.token(&format!("{PREFIX}{}{SUFFIX}", base64::engine::general_purpose::STANDARD.encode(chunk)));
            text = rest;
        }
    }
}

/// Whether a text survives as it stands: printable ASCII, single spaces inside, words short enough to fold, no look-alike of an encoded-word.
fn plain(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
        && !text.contains("=?")
        && text.split(' ').all(|word| (1..=WORD_MAX).contains(&word.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(text: &str) -> String {
        let mut value = Value::of("Subject");
        value.unstructured(text);
        value.finish()
    }

    #[test]
    fn plain_text_stands_as_it_is_and_folds_at_spaces() {
        assert_eq!(subject("Your plan renews soon"), "Your plan renews soon");
        let folded = subject("word ".repeat(40).trim_end());
        assert!(folded.lines().all(|l| l.len() <= LINE) && folded.contains("\r\n word"));
    }

    #[test]
    fn what_would_not_survive_is_encoded_whole() {
        for text in ["Grüße", " lead", "trail ", "two  spaces", "=?utf-8?q?x?=", &"x".repeat(80), "a\tb", "a\r\nBcc: b"] {
            let encoded = subject(text);
            assert!(encoded.is_ascii() && encoded.starts_with(PREFIX), "{text}: {encoded}");
            assert!(encoded.lines().all(|l| l.trim().len() <= 75), "{encoded}");
        }
    }
}
