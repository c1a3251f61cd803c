//! A secret: no `Display`, a redacted `Debug`, and one way to see it.

use std::fmt;

/// A password, a token's hash, a URL with a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A URL as it may be shown: the password between `:` and the last `@` of its authority is masked, and so is its query.
pub fn without_password(url: &str) -> String {
    let url = url.split_once('?').map_or(url.to_owned(), |(head, _)| format!("{head}?********"));
    let Some((scheme, rest)) = url.split_once("://") else { return url };
    // A password may hold a slash that nobody encoded: the last `@` ends it.
    let Some((userinfo, host)) = rest.rsplit_once('@') else { return url };
    let user = userinfo.split(':').next().unwrap_or_default();
    format!("{scheme}://{user}:********@{host}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_its_password() {
        assert_eq!(without_password("amqp://guest:gu/e@st@127.0.0.1:5672/%2f"), "amqp://guest:********@127.0.0.1:5672/%2f");
        assert_eq!(without_password("redis://127.0.0.1:6379/0"), "redis://127.0.0.1:6379/0");
        assert_eq!(without_password("postgres://h/db?password=x"), "postgres://h/db?********");
        assert_eq!(format!("{:?}", Secret::new("x")), "Secret");
    }
}
