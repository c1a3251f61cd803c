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
    /// Live records by state.
    pub states: Vec<(String, u64)>,
    /// Open review items.
    pub items: Vec<ItemBody>,
    /// The newest jobs.
    pub jobs: Vec<JobBody>,
}

/// The first page.
pub fn page(page: &Page) -> String {
    let states = rows(page.states.iter().map(|(state, n)| vec![Cell::Text(state), Cell::Owned(n.to_string())]));
    let items = rows(page.items.iter().map(|i| {
        let link = format!("/v1/review/{}", i.id);
        vec![
            Cell::Link(link, i.key.as_deref().unwrap_or(&i.id)),
            Cell::Text(&i.reason),
            Cell::Text(i.recipient_masked.as_deref().unwrap_or_default()),
            Cell::Text(i.owner.as_deref().unwrap_or_default()),
            Cell::Text(&i.created_at),
        ]
    }));
    let jobs = rows(page.jobs.iter().map(|j| {
        let link = format!("/v1/jobs/{}", j.id);
        vec![Cell::Link(link, &j.key), Cell::Text(&j.state), Cell::Text(&j.recipient_masked), Cell::Text(&j.explanation)]
    }));
    // One pass per place; values hold no place's name, for braces in them are escaped.
    PAGE.replace("{{now}}", &escaped(&page.now)).replace("{{states}}", &states).replace("{{items}}", &items).replace("{{jobs}}", &jobs)
}

enum Cell<'a> {
    Text(&'a str),
    Owned(String),
    Link(String, &'a str),
}

fn rows<'a>(all: impl Iterator<Item = Vec<Cell<'a>>>) -> String {
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
    if html.is_empty() { "<tr><td>none</td></tr>\n".to_owned() } else { html }
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
        let html = page(&Page { now: "<b>".into(), states: vec![("scheduled".into(), 3)], items: vec![], jobs: vec![] });
        assert!(html.contains("&lt;b&gt;") && html.contains("<td>3</td>") && !html.contains("{{"));
        assert!(!html.contains("<script") && !html.contains("style="));
    }
}
