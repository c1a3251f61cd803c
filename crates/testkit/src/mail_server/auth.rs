//! AUTH PLAIN, LOGIN and XOAUTH2, their challenges and their answers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::config::Mechanism;
use super::session::Session;
use super::wire::Gone;

/// How an exchange ended, before the script has its say.
pub(super) enum Answer {
    User(String),
    Refused((u16, &'static str, &'static str)),
}

const MALFORMED: Answer = Answer::Refused((501, "5.5.2", "Cannot decode the answer"));
const CANCELLED: Answer = Answer::Refused((501, "5.7.0", "Authentication cancelled"));
const WRONG: Answer = Answer::Refused((535, "5.7.8", "Authentication credentials invalid"));

impl Mechanism {
    /// Its name on the wire.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Login => "LOGIN",
            Mechanism::XOAuth2 => "XOAUTH2",
        }
    }
}

impl Session {
    /// Goes through the challenges of one mechanism. `arguments` may hold an initial response behind the mechanism's name.
    pub(super) async fn exchange(&mut self, name: &str, arguments: &str) -> Result<Answer, Gone> {
        let offered = self.offered().auth;
        let Some(mechanism) = offered.into_iter().find(|mechanism| mechanism.word() == name) else {
            return Ok(Answer::Refused((504, "5.5.4", "Mechanism not offered")));
        };
        let initial = arguments.split_once(' ').map(|(_, initial)| initial.to_owned());
        let challenge = if mechanism == Mechanism::Login { STANDARD.encode("Username:") } else { String::new() };
        let first = match initial {
            Some(initial) => initial,
            None => self.challenge(&challenge).await?,
        };
        if first == "*" {
            return Ok(CANCELLED);
        }
        let Some(first) = decode(&first) else {
            return Ok(MALFORMED);
        };
        let pair = match mechanism {
            Mechanism::Plain => plain(&first),
            Mechanism::XOAuth2 => bearer(&first),
            Mechanism::Login => {
                let second = self.challenge(&STANDARD.encode("Password:")).await?;
                if second == "*" {
                    return Ok(CANCELLED);
                }
                decode(&second).map(|secret| (first, secret))
            }
        };
        let Some((user, secret)) = pair else {
            return Ok(MALFORMED);
        };
        if self.knows(&user, &secret) {
            return Ok(Answer::User(user));
        }
        if mechanism == Mechanism::XOAuth2 {
            // The error comes as a challenge, which the client answers with an empty line before it gets its 535.
            self.challenge(&STANDARD.encode(r#"{"status":"401","schemes":"bearer"}"#)).await?;
        }
        Ok(WRONG)
    }

    async fn challenge(&mut self, text: &str) -> Result<String, Gone> {
        self.wire.write(format!("334 {text}\r\n").as_bytes());
        let line = self.wire.line().await?;
        Ok(String::from_utf8_lossy(line.trim_ascii_end()).into_owned())
    }

    fn knows(&self, user: &str, secret: &str) -> bool {
        match &self.shared.config.credentials {
            Some(known) => known.iter().any(|one| one.user == user && one.secret == secret),
            None => true,
        }
    }
}

/// `=` is an empty initial response (RFC 4954 §4).
fn decode(text: &str) -> Option<String> {
    let bytes = if text == "=" { Vec::new() } else { STANDARD.decode(text).ok()? };
    String::from_utf8(bytes).ok()
}

fn plain(answer: &str) -> Option<(String, String)> {
    let mut parts = answer.split('\0');
    let (_authority, user, secret) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then(|| (user.to_owned(), secret.to_owned()))
}

fn bearer(answer: &str) -> Option<(String, String)> {
    let rest = answer.strip_prefix("user=")?.strip_suffix("\u{1}\u{1}")?;
    let (user, token) = rest.split_once("\u{1}auth=Bearer ")?;
    Some((user.to_owned(), token.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(plain("\0me\0secret"), Some(("me".into(), "secret".into())));
        assert_eq!(plain("me\0secret"), None);
        assert_eq!(bearer("user=me\u{1}auth=Bearer token\u{1}\u{1}"), Some(("me".into(), "token".into())));
        assert_eq!(decode("=").as_deref(), Some(""));
        assert_eq!(decode("%"), None);
    }
}
