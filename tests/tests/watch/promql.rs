//! Names in a PromQL query: its selectors with their matchers, and the labels that it groups or joins by.
//!
//! No parser: `promtool` judges the grammar. This finds what stands where a metric or a label can stand, and what it takes for a metric is every name
//! with our prefix.

use std::collections::BTreeSet;

/// A metric with what it is chosen by.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<Matcher>,
}

/// `label="word"` has one word, `label=~"a|b"` several; an expression that is no list of words has it whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Matcher {
    pub label: String,
    pub words: Vec<String>,
}

/// What a query names.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Names {
    pub selectors: BTreeSet<Selector>,
    /// After `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`.
    pub grouping: BTreeSet<String>,
}

#[derive(PartialEq, Debug)]
enum Token {
    Word(String),
    Text(String),
    Sign(char),
}

/// Everything that `query` names.
pub fn names(query: &str) -> Names {
    let tokens = tokens(query);
    let mut found = Names::default();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let Token::Word(word) = token else { continue };
        let opens = |sign| tokens.get(at) == Some(&Token::Sign(sign));
        if ["by", "without", "on", "ignoring", "group_left", "group_right"].contains(&word.as_str()) && opens('(') {
            let inside = tokens[at + 1..].iter().take_while(|token| **token != Token::Sign(')'));
            found.grouping.extend(inside.filter_map(|token| if let Token::Word(label) = token { Some(label.clone()) } else { None }));
        } else if word.starts_with("curfew") {
            let matchers = if opens('{') { matchers(&tokens[at + 1..]) } else { Vec::new() };
            found.selectors.insert(Selector { metric: word.clone(), matchers });
        }
    }
    found
}

fn matchers(tokens: &[Token]) -> Vec<Matcher> {
    let mut found = Vec::new();
    let mut label = String::new();
    for token in tokens.iter().take_while(|token| **token != Token::Sign('}')) {
        match token {
            Token::Word(word) => label.clone_from(word),
            Token::Text(text) => found.push(Matcher { label: std::mem::take(&mut label), words: text.split('|').map(str::to_owned).collect() }),
            Token::Sign(_) => {}
        }
    }
    found.sort(); // Prometheus prints them in an order of its own
    found
}

fn tokens(query: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut chars = query.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '"' || c == '\'' {
            tokens.push(Token::Text(chars.by_ref().take_while(|next| *next != c).collect()));
        } else if c.is_ascii_alphabetic() || c == '_' {
            let mut word = c.to_string();
            while let Some(next) = chars.next_if(|next| next.is_ascii_alphanumeric() || *next == '_' || *next == ':') {
                word.push(next);
            }
            tokens.push(Token::Word(word));
        } else if !c.is_whitespace() {
            tokens.push(Token::Sign(c));
        }
    }
    tokens
}

#[test]
fn names_are_found_where_they_stand() {
    let found = names(r#"sum by (reason, le) (rate(curfew_a_total{met="x",where=~"door|claim"}[5m])) / on(role) curfew:b:rate5m > 3 and curfew_c"#);
    let matcher = |label: &str, words: &[&str]| Matcher { label: label.to_owned(), words: words.iter().map(|word| (*word).to_owned()).collect() };
    let selector = |metric: &str, matchers: Vec<Matcher>| Selector { metric: metric.to_owned(), matchers };
    let expected = [
        selector("curfew_a_total", vec![matcher("met", &["x"]), matcher("where", &["door", "claim"])]),
        selector("curfew:b:rate5m", vec![]),
        selector("curfew_c", vec![]),
    ];
    assert_eq!(found.selectors, BTreeSet::from(expected));
    assert_eq!(found.grouping, BTreeSet::from(["reason", "le", "role"].map(str::to_owned)));
}
