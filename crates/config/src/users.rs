//! The users and their secrets, as in PgBouncer's `auth_file`. Secrets are kept as written (plain, `md5…` or
//! `SCRAM-SHA-256$…`) and never printed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use weir_auth::{Mocks, Secret};

/// A file with this many bad lines is not a list of users.
const MOST_ERRORS: usize = 1_000;

/// The users who may log in, by name, each with its secret as written.
#[derive(Clone, Default)]
pub struct Users {
    secrets: BTreeMap<String, Box<str>>,
    repeated: Vec<(String, usize)>,
    /// Counted when first asked for; a list that changes has none.
    mocks: OnceLock<Arc<Mocks>>,
}

/// An invalid line of a userlist.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserlistError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with the line.
    pub message: String,
}

impl Users {
    /// Reads a userlist: lines of `"user" "secret"`, a quote within is doubled, text after the secret is ignored;
    /// empty lines and lines that begin with `;` or `#` are skipped. The last line of a repeated user counts.
    ///
    /// # Errors
    ///
    /// The invalid lines, up to a limit.
    pub fn parse(text: &str) -> Result<Users, Vec<UserlistError>> {
        let (mut users, mut errors) = (Users::default(), Vec::new());
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with([';', '#']) {
                continue;
            }
            match entry(line) {
                Ok((name, secret, _)) => users.insert(name, secret, index + 1),
                Err(message) => errors.push(UserlistError { line: index + 1, message: message.to_owned() }),
            }
            if errors.len() == MOST_ERRORS {
                break;
            }
        }
        if errors.is_empty() { Ok(users) } else { Err(errors) }
    }

    /// Adds the user of a line.
    pub(crate) fn insert(&mut self, name: String, secret: String, line: usize) {
        self.mocks = OnceLock::new();
        if self.secrets.insert(name.clone(), secret.into_boxed_str()).is_some() {
            self.repeated.push((name, line));
        }
    }

    /// The users after changes of their secrets; none: the user is removed.
    pub fn with(mut self, secrets: &BTreeMap<String, Option<String>>) -> Users {
        secrets.iter().for_each(|(name, secret)| self.set(name.clone(), secret.clone()));
        self
    }

    /// Sets a user's secret, or removes the user.
    pub(crate) fn set(&mut self, name: String, secret: Option<String>) {
        self.mocks = OnceLock::new();
        match secret {
            Some(secret) => drop(self.secrets.insert(name, secret.into_boxed_str())),
            None => drop(self.secrets.remove(&name)),
        }
    }

    /// The secret of a user, as written.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.secrets.get(name).map(AsRef::as_ref)
    }

    /// The password of a user whose secret is one; none if the secret is empty or a hash.
    pub fn password(&self, name: &str) -> Option<&str> {
        let is_password = |secret: &&str| matches!(Secret::parse(secret), Ok(Secret::Plain(_)));
        self.get(name).filter(|secret| !secret.is_empty()).filter(is_password)
    }

    /// All users with their secrets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.secrets.iter().map(|(name, secret)| (name.as_str(), secret.as_ref()))
    }

    /// The kinds of the secrets, from which an unknown user's is made up. Reads all secrets the first time.
    pub fn mocks(&self) -> &Arc<Mocks> {
        self.mocks.get_or_init(|| {
            let mut mocks = Mocks::default();
            self.iter().filter_map(|(_, text)| Secret::parse(text).ok()).for_each(|secret| mocks.count(&secret));
            Arc::new(mocks)
        })
    }

    /// The number of users.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// Whether no user is listed.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// Repeated users, with the later line.
    pub(crate) fn repeated(&self) -> &[(String, usize)] {
        &self.repeated
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Users {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Users {
        let secrets = pairs.into_iter().map(|(name, secret)| (name.to_owned(), secret.into())).collect();
        Users { secrets, ..Users::default() }
    }
}

impl PartialEq for Users {
    fn eq(&self, other: &Users) -> bool {
        self.secrets == other.secrets
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.secrets.len())
    }
}

/// The text of a userlist with secrets set or, where there is none, with users removed. Other lines stay as they are;
/// of a repeated user only the last line stays, which is the one that counts.
///
/// # Errors
///
/// A name or a secret that has no line: the sentence's end, for "the user …".
pub fn rewrite_userlist(text: &str, secrets: &BTreeMap<String, Option<String>>) -> Result<String, &'static str> {
    if secrets.iter().any(|(name, secret)| has_control(name) || secret.as_deref().is_some_and(has_control)) {
        return Err("has a control character in its name or password, which a list of users can't have");
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let named = |line: &str| entry(line.trim_start_matches('\u{feff}').trim()).ok().map(|(name, ..)| name);
    let names: Vec<Option<String>> = text.lines().map(named).collect();
    let last = |name: &str| names.iter().rposition(|known| known.as_deref() == Some(name));
    let mut written = String::new();
    for (at, (line, name)) in text.split_inclusive('\n').zip(&names).enumerate() {
        match name.as_ref().and_then(|name| Some((name, secrets.get(name)?))) {
            None => written.push_str(line),
            Some((name, Some(secret))) if last(name) == Some(at) => {
                let rest = entry(line.trim_start_matches('\u{feff}').trim()).map_or(String::new(), |(.., rest)| rest);
                written.push_str(&format!("{}{rest}{end}", entry_line(name, secret)));
            }
            Some(_) => {}
        }
    }
    for (name, secret) in secrets {
        let Some(secret) = secret.as_ref().filter(|_| last(name).is_none()) else { continue };
        if !written.is_empty() && !written.ends_with('\n') {
            written.push_str(end);
        }
        written.push_str(&format!("{}{end}", entry_line(name, secret)));
    }
    Ok(written)
}

fn has_control(text: &str) -> bool {
    text.contains(char::is_control)
}

fn entry_line(name: &str, secret: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    format!("{} {}", quoted(name), quoted(secret))
}

/// The user of a line, the secret, and what follows it.
fn entry(line: &str) -> Result<(String, String, String), &'static str> {
    let (name, rest) = quoted(line, "a user must be in double quotes", "the user's closing quote is missing")?;
    let (secret, rest) =
        quoted(rest, "the secret must follow the user in double quotes", "the secret's closing quote is missing")?;
    if name.is_empty() {
        return Err("the user's name is empty");
    }
    Ok((name, secret, rest.to_owned()))
}

/// Splits one quoted field off the front.
fn quoted<'a>(
    text: &'a str,
    unopened: &'static str,
    unclosed: &'static str,
) -> Result<(String, &'a str), &'static str> {
    let mut rest = text.trim_start().strip_prefix('"').ok_or(unopened)?;
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"').ok_or(unclosed)?;
        field.push_str(part);
        let Some(doubled) = after.strip_prefix('"') else {
            return Ok((field, after));
        };
        field.push('"');
        rest = doubled;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> (usize, String) {
        let error = Users::parse(text).unwrap_err().remove(0);
        (error.line, error.message)
    }

    #[test]
    fn users_and_secrets_are_read_as_pgbouncer_reads_them() {
        let text = "\u{feff}; a comment\n# another\n\n\"app\" \"md5abc\"\r\n".to_owned()
            + "  \"o\"\"neil\"\t\"a\"\"b\" ignored\n\"empty\" \"\"\n";
        let users = Users::parse(&text).unwrap();
        assert_eq!(users.iter().collect::<Vec<_>>(), [("app", "md5abc"), ("empty", ""), ("o\"neil", "a\"b")]);
        assert_eq!((users.len(), users.is_empty(), users.get("nobody")), (3, false, None));
    }

    #[test]
    fn a_broken_line_is_named() {
        assert_eq!(error("\n\napp secret"), (3, "a user must be in double quotes".into()));
        assert_eq!(error("\"app"), (1, "the user's closing quote is missing".into()));
        assert_eq!(error("\"app\" x"), (1, "the secret must follow the user in double quotes".into()));
        assert_eq!(error("\"app\""), (1, "the secret must follow the user in double quotes".into()));
        assert_eq!(error("\"app\" \"x\"\""), (1, "the secret's closing quote is missing".into()));
        assert_eq!(error("\"\" \"x\""), (1, "the user's name is empty".into()));
    }

    #[test]
    fn every_broken_line_is_named_but_not_beyond_number() {
        let lines = |text: &str| Users::parse(text).unwrap_err().iter().map(|error| error.line).collect::<Vec<_>>();
        assert_eq!(lines("app secret\n\"ann\" \"hush\"\n\"app\"\n"), [1, 3]);
        assert_eq!(lines(&"x\n".repeat(2 * MOST_ERRORS)).len(), MOST_ERRORS);
    }

    #[test]
    fn of_a_repeated_user_the_last_line_counts() {
        let users = Users::parse("\"a\" \"1\"\n\"a\" \"2\"").unwrap();
        assert_eq!(users.get("a"), Some("2"));
        assert_eq!(users.repeated(), [("a".to_owned(), 2)]);
    }

    #[test]
    fn a_list_is_rewritten_line_by_line() {
        let text = "; ours\n\"app\" \"old\"  ; of the shop\n\n\"bob\" \"1\"\n\"app\" \"older\" rest\n\"eve\" \"2\"";
        let edit = |text: &str, name: &str, secret: Option<&str>| {
            rewrite_userlist(text, &[(name.to_owned(), secret.map(str::to_owned))].into())
        };
        assert_eq!(
            edit(text, "app", Some("n\"ew")).unwrap(),
            "; ours\n\n\"bob\" \"1\"\n\"app\" \"n\"\"ew\" rest\n\"eve\" \"2\""
        );
        assert_eq!(edit(text, "app", None).unwrap(), "; ours\n\n\"bob\" \"1\"\n\"eve\" \"2\"");
        assert_eq!(edit(text, "new", Some("x")).unwrap(), format!("{text}\n\"new\" \"x\"\n"));
        assert_eq!(edit(text, "nobody", None).unwrap(), text);
        assert_eq!(edit("\"a\" \"1\"\r\n", "b", Some("2")).unwrap(), "\"a\" \"1\"\r\n\"b\" \"2\"\r\n");
        assert_eq!(edit("", "a", Some("1")).unwrap(), "\"a\" \"1\"\n");
        assert_eq!(edit("\u{feff}\"a\" \"1\"\n", "a", None).unwrap(), "");
        assert!(edit("", "a\nb", Some("1")).is_err() && edit("", "a", Some("1\n2")).is_err());
    }

    #[test]
    fn debug_output_shows_no_secret() {
        assert_eq!(format!("{:?}", Users::from_iter([("app", "hush")])), "Users(1)");
    }
}
