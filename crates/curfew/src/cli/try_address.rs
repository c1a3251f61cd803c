//! `try address`: whether an address is accepted at the door, and in which form it leaves.

use curfew_domain::address;
use serde_json::{Value, json};

use super::try_lines::Fields;

/// Answers one line. An absent address is an empty one: refused.
///
/// # Errors
/// Where the field is no text.
pub fn answer(fields: &Fields) -> Result<Value, String> {
    let given = fields.text("address")?.unwrap_or_default();
    Ok(match address::check(&given) {
        Ok(a) => json!({"accepted": true, "reason": null, "ascii": a.ascii(), "needs_smtputf8": a.needs_smtputf8()}),
        Err(fault) => json!({"accepted": false, "reason": fault.word(), "ascii": null, "needs_smtputf8": fault.needs_smtputf8()}),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::try_lines::tests::{lines, rows, said};
    use crate::exit::Exit;

    #[test]
    fn every_raw_row_of_the_addresses_is_judged_as_the_table_says() {
        let rows: Vec<_> = rows(include_str!("../../../../tests/cases/addresses.csv")).into_iter().filter(|r| r["encoding"] == "raw").collect();
        let (answers, exit) = said(&lines(&rows), answer);
        assert_eq!((answers.len(), exit), (rows.len(), Exit::Done));
        for (row, said) in rows.iter().zip(&answers) {
            assert_eq!(said["accepted"], row["expect"] == "accept", "{row:?}");
            assert_eq!(said["needs_smtputf8"], row["needs_smtputf8"] == "yes", "{row:?}");
            assert_eq!(said["reason"].is_null(), row["expect"] == "accept", "{row:?}");
        }
    }

    #[test]
    fn an_internationalised_domain_leaves_in_a_labels() {
        let (answers, _) = said("{\"address\":\"ada@bücher.example\"}\n{\"address\":\"\"}\n", answer);
        assert_eq!(answers[0]["ascii"], "ada@xn--bcher-kva.example");
        assert_eq!(answers[1], json!({"accepted": false, "reason": "empty", "ascii": null, "needs_smtputf8": false}));
    }
}
