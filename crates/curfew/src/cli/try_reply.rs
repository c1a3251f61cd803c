//! `try reply`: how a mail server's reply, or what happened instead, is read.

use curfew_domain::outcome::Stage;
use curfew_transport::classify::{Heard, classify};
use serde_json::{Value, json};

use super::try_lines::{Fields, whole};

/// Answers one line.
///
/// # Errors
/// The field that can't be read, and what is allowed.
pub fn answer(fields: &Fields) -> Result<Value, String> {
    const STAGES: &str = "connect tls greeting ehlo starttls auth mail rcpt data content dot noop quit rset";
    let stage = fields.read("stage", STAGES, |t| Stage::from_word(&t.to_ascii_lowercase()))?.ok_or("stage: is missing")?;
    let code = fields.read("code", "a reply code", whole::<u16>)?;
    let enhanced = fields.text("enhanced")?;
    let text = fields.text("text")?.unwrap_or_default();
    let judged = classify(&Heard::described(stage, code, enhanced.as_deref(), &text));
    Ok(json!({"class": judged.verdict.word(), "reason": judged.reason.map(|r| r.word()), "rule": judged.rule}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_a_number_however_a_reader_gives_it() {
        let (answers, exit) =
            said(&[r#""250""#, "250", "250.0", r#"" 250.0 ""#].map(|code| format!("{{\"stage\":\"dot\",\"code\":{code}}}\n")).concat(), answer);
        assert!(answers.iter().all(|a| a["class"] == "accepted") && exit == Exit::Done, "{answers:?}");
        let (answers, exit) = said("{\"stage\":\"dot\",\"code\":250.5}\n{\"stage\":\"dot\",\"code\":-1}\n", answer);
        assert!(answers.iter().all(|a| a["error"] == "code: allowed: a reply code") && exit == Exit::Refused, "{answers:?}");
    }
    use crate::cli::try_lines::tests::{lines, rows, said};
    use crate::exit::Exit;

    #[test]
    fn every_row_of_the_smtp_cases_is_read_as_the_tables_say() {
        for (csv, column) in [
            (include_str!("../../../../tests/cases/smtp_cases.csv"), "expected_class"),
            (include_str!("../../../../tests/cases/smtp_nonfailures.csv"), "expected_handling"),
        ] {
            let rows = rows(csv);
            let (answers, exit) = said(&lines(&rows), answer);
            assert_eq!((answers.len(), exit), (rows.len(), Exit::Done));
            for (row, said) in rows.iter().zip(&answers) {
                assert_eq!(said["class"], row[column], "{row:?} by {}", said["rule"]);
            }
        }
    }
}
