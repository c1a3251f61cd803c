//! The console's pages: HTML from a template file, every value escaped, no script, no address.

use std::fmt::Write;

use crate::view::{ItemBody, JobBody};

/// The pages' style sheet.
pub const STYLE: &str = include_str!("console.css");

const PAGE: &str = include_str!("page.html");

/// What the first page shows.
pub struct Page {
    /// The ledger's clock.
    pub now: String,
    /// What holds jobs back now.
    pub holds: Vec<Held>,
    /// Live records by state.
    pub states: Vec<(String, u64)>,
    /// Open review items.
    pub items: Vec<ItemBody>,
    /// The newest jobs.
    pub jobs: Vec<JobBody>,
}

/// A hold in force.
pub struct Held {
    /// `transport`, `tenant`, `shard` or `fleet`.
    pub kind: String,
    /// Empty for the fleet.
    pub name: String,
    /// `pause`, `cool_down` or `circuit`.
    pub by: String,
    /// Its end; none where somebody or a probe must lift it.
    pub until: Option<String>,
    /// Why, in somebody's words.
    pub reason: String,
    /// Since when; none where the ledger alone knows it.
    pub since: Option<String>,
}

/// The first page.
pub fn page(page: &Page) -> String {
    let holds = rows(
        "Nothing is held",
        page.holds.iter().map(|h| {
            vec![
                Cell::Text(&h.kind),
                Cell::Text(&h.name),
                Cell::Text(&h.by),
                Cell::Text(h.until.as_deref().unwrap_or("lifted")),
                Cell::Text(&h.reason),
                Cell::Text(h.since.as_deref().unwrap_or_default()),
            ]
        }),
    );
    let states = rows("none", page.states.iter().map(|(state, n)| vec![Cell::Text(state), Cell::Owned(n.to_string())]));
    let items = rows(
        "none",
        page.items.iter().map(|i| {
            let link = format!("/v1/review/{}", i.id);
            vec![
                Cell::Link(link, i.key.as_deref().unwrap_or(&i.id)),
                Cell::Text(&i.reason),
                Cell::Text(i.recipient_masked.as_deref().unwrap_or_default()),
                Cell::Text(i.owner.as_deref().unwrap_or_default()),
                Cell::Text(&i.created_at),
            ]
        }),
    );
    let jobs = rows(
        "none",
        page.jobs.iter().map(|j| {
            let link = format!("/v1/jobs/{}", j.id);
            vec![Cell::Link(link, &j.key), Cell::Text(&j.state), Cell::Text(&j.recipient_masked), Cell::Text(&j.explanation)]
        }),
    );
    // One pass per place; values hold no place's name, for braces in them are escaped.
    PAGE.replace("{{now}}", &escaped(&page.now))
        .replace("{{holds}}", &holds)
        .replace("{{states}}", &states)
        .replace("{{items}}", &items)
        .replace("{{jobs}}", &jobs)
}

enum Cell<'a> {
    Text(&'a str),
    Owned(String),
    Link(String, &'a str),
}

fn rows<'a>(none: &str, all: impl Iterator<Item = Vec<Cell<'a>>>) -> String {
    let mut html = String::new();
    for cells in all {
        html.push_str("<tr>");
        for cell in cells {
            let inner = match cell {
                Cell::Text(text) => escaped(text),
                Cell::Owned(text) => escaped(&text),
                Cell::Link(to, text) => format!("<a href=\"{}\">{}</a>", escaped(&to), escaped(text)),
            };
            write!(html, "<td>{inner}</td>").expect("a string takes everything");
        }
        html.push_str("</tr>\n");
    }
    if html.is_empty() { format!("<tr><td>{none}</td></tr>\n") } else { html }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '{' => out.push_str("&#123;"),
            '}' => out.push_str("&#125;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_value_holds_stays_text() {
        assert_eq!(escaped("<script>'\"&{{jobs}}"), "&lt;script&gt;&#39;&quot;&amp;&#123;&#123;jobs&#125;&#125;");
        let html = page(&Page { now: "<b>".into(), holds: vec![], states: vec![("scheduled".into(), 3)], items: vec![], jobs: vec![] });
        assert!(html.contains("&lt;b&gt;") && html.contains("<td>3</td>") && !html.contains("{{"));
        assert!(!html.contains("<script") && !html.contains("style="));
    }

    #[test]
    fn what_is_held_stands_first_and_an_empty_list_says_so() {
        let of = |holds| page(&Page { now: String::new(), holds, states: vec![], items: vec![], jobs: vec![] });
        let paused = Held {
            kind: "transport".into(),
            name: "default".into(),
            by: "pause".into(),
            until: None,
            reason: "<maintenance>".into(),
            since: Some("2026-12-01T09:00:00.000Z".into()),
        };
        let html = of(vec![paused]);
        let row = "<td>transport</td><td>default</td><td>pause</td><td>lifted</td><td>&lt;maintenance&gt;</td><td>2026-12-01T09:00:00.000Z</td>";
        assert!(html.contains(row) && !html.contains("Nothing is held"), "{html}");
        assert!(html.find("<h2>Held").expect("a section") < html.find("<h2>Live jobs").expect("a section"));
        assert!(of(vec![]).contains("<td>Nothing is held</td>"));
    }
}
