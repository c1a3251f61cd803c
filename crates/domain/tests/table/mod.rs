//! Tables of text that are exhaustive by construction: every combination of the columns' values has exactly one row.
//!
//! A cell is `any`, a value, several (`a, b`), all others (`not a, b`), or the name of a group of values.

/// A column: its name, and every value that it can have.
pub type Column<'a> = (&'a str, &'a [&'a str]);

/// One combination of a table's values.
pub struct Case<'a>(&'a [Column<'a>], Vec<&'a str>);

impl Case<'_> {
    pub fn is(&self, column: &str, value: &str) -> bool {
        self.get(column) == value
    }

    pub fn get(&self, column: &str) -> &str {
        let place = self.0.iter().position(|(name, _)| *name == column).expect("a column of the table");
        self.1[place]
    }
}

/// Fails on a row that lies, a combination without a row or with two, and a row that fits nothing.
pub fn check(columns: &[Column<'_>], groups: &[Column<'_>], found: impl Fn(&Case<'_>) -> String, table: &str) {
    let mut lines = table.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
    let head = lines.next().expect("a head");
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).chain(["answer"]).collect();
    assert_eq!(head, names, "the table's head");
    let rows: Vec<Vec<&str>> = lines.collect();
    let mut used = vec![false; rows.len()];
    let cases = columns.iter().fold(vec![Vec::new()], |cases: Vec<Vec<&str>>, (_, values)| {
        cases.iter().flat_map(|case| values.iter().map(move |v| [case.as_slice(), &[*v]].concat())).collect()
    });
    for case in cases {
        let fitting: Vec<usize> = (0..rows.len()).filter(|n| case.iter().zip(&rows[*n]).all(|(value, cell)| fits(groups, cell, value))).collect();
        let case = Case(columns, case);
        let answer = found(&case);
        assert_eq!(fitting.len(), 1, "{:?} has the rows {fitting:?} and finds {answer:?}", case.1);
        used[fitting[0]] = true;
        assert_eq!(answer, rows[fitting[0]][columns.len()], "{:?}", case.1);
    }
    assert_eq!(used.iter().position(|u| !u).map(|n| &rows[n]), None, "a row that fits nothing");
}

fn fits(groups: &[Column<'_>], cell: &str, value: &str) -> bool {
    if let Some(excluded) = cell.strip_prefix("not ") {
        return !fits(groups, excluded, value);
    }
    let in_group = |one: &str| groups.iter().any(|(name, values)| *name == one && values.contains(&value));
    cell == "any" || cell.split(',').map(str::trim).any(|one| one == value || in_group(one))
}
