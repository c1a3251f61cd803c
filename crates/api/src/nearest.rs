//! The nearest known name to one that isn't known.

/// The known name with the fewest edits, where it is near enough to be a slip.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > 64 {
        return None;
    }
    let wanted = name.to_ascii_lowercase();
    known.into_iter().map(|k| (edits(&wanted, &k.to_ascii_lowercase()), k)).filter(|(d, k)| *d <= 1 + k.len() / 3).min().map(|(_, k)| k)
}

/// `; the nearest is …`, or nothing.
pub fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|n| format!("; the nearest is `{n}`")).unwrap_or_default()
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_a_stranger_none() {
        let known = ["deadline_at", "release_at", "tenant"];
        assert_eq!(nearest("dedline_at", known), Some("deadline_at"));
        assert_eq!(nearest("Release", known), Some("release_at"));
        assert_eq!(nearest("colour", known), None);
    }
}
