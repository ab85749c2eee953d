//! What a person who wrote a broken line most likely meant: the parser reports only what it expected.
//!
//! Judges one line by itself, and knows neither the parser nor settings. Messages have no values, which may be secrets.

use crate::wording::plain;

/// The most likely cause of an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    /// The key or section is repeated.
    Twice,
    /// A quote or bracket of this line is not closed where the parser expects it.
    Open,
    /// The line's value begins with a quote, and its closing one is missing.
    Unquoted,
    /// The line's value is text without quotes.
    Bare,
    /// The line's value is in quotes of a word processor.
    Typographic,
    /// A backslash in double quotes begins no escape that TOML has.
    Escape,
    /// Something follows the closing quote of the line's value.
    AfterQuote,
    /// The line's value is another word for true or false.
    Switch,
    /// A comma or a semicolon follows the line's value.
    Trailing,
    /// The line's value is a whole number beyond 64 bits.
    TooLarge,
    /// The line's value is a whole number that begins with 0.
    LeadingZero,
    /// Nothing follows the `=`.
    Empty,
    /// The line has no `=`.
    NoValue,
    /// The name before the `=` has characters that need quotes.
    Name,
    /// The section's name has no closing bracket.
    OpenSection,
    /// The section's name has characters that need quotes.
    SectionName,
    /// The line begins as a comment of another format.
    Comment,
    /// The text is JSON.
    Json,
    /// A comma is missing in a list of several lines.
    Comma,
    /// A list within its line is none of TOML.
    List,
    /// Another cause.
    Other,
}

impl Cause {
    /// What is wrong with a line that is not TOML. `message` is the parser's.
    pub(super) fn of_line(line: &str, message: &str, is_valid: impl Fn(&str) -> bool) -> Cause {
        let line = line.trim();
        if line.starts_with('[') {
            let is_closed = line.split('#').next().is_some_and(|name| name.contains(']'));
            return if is_closed { Cause::SectionName } else { Cause::OpenSection };
        }
        if line.starts_with('{') {
            return Cause::Json;
        }
        if [";", "//", "--", "/*"].iter().any(|begin| line.starts_with(begin)) {
            return Cause::Comment;
        }
        let Some((_, value)) = line.split_once('=') else {
            return match line.chars().next() {
                Some(first) if first.is_ascii_alphabetic() => Cause::NoValue,
                _ if message.starts_with("missing comma") => Cause::Comma,
                _ => Cause::Other,
            };
        };
        if line.strip_suffix([',', ';']).is_some_and(&is_valid) {
            return Cause::Trailing;
        }
        // Where the value is sound, the name is not.
        if is_valid(&format!("name = {value}")) { Cause::Name } else { of_value(value.trim()) }
    }

    /// What is wrong, about the line where it begins. `None`: the parser's message has to do.
    pub(super) fn message(self, line: &str) -> Option<String> {
        let line = line.trim();
        let (key, value) = line.split_once('=').unwrap_or((line, ""));
        let (key, value) = (plain(key.trim()), value.trim());
        let section = || line.rfind(']').map_or(line, |end| &line[..=end]);
        Some(match self {
            Cause::Twice if line.starts_with('[') => format!("the section {} is there twice", plain(section())),
            Cause::Twice => format!("\"{key}\" is there twice"),
            // A line within a list or a text, which may be a secret.
            Cause::Open if !line.contains('=') => return None,
            Cause::Open if value.starts_with('[') => format!("the list of \"{key}\" is not closed, or lacks a comma"),
            Cause::Open if value.starts_with('{') => format!("the braces of \"{key}\" are not closed, or lack a comma"),
            Cause::Open => format!("the text of \"{key}\" is not closed"),
            Cause::Unquoted => format!("the text of \"{key}\" has no closing quote"),
            Cause::Bare => format!("the value of \"{key}\" has no quotes, and is no number and not true or false"),
            Cause::Typographic => format!("the value of \"{key}\" is in typographic quotes"),
            Cause::Escape => format!("the text of \"{key}\" has a backslash, which begins an escape in double quotes"),
            Cause::AfterQuote => format!("something follows the closing quote of \"{key}\""),
            Cause::Switch => format!("\"{key}\" is a switch: TOML knows only true and false"),
            Cause::Trailing => format!("a comma or semicolon follows the value of \"{key}\""),
            Cause::TooLarge => format!("the number of \"{key}\" is too large"),
            Cause::LeadingZero => format!("the number of \"{key}\" begins with 0"),
            Cause::Empty => format!("\"{key}\" has no value"),
            // The line's text is not shown: it may be the rest of a secret.
            Cause::NoValue => "the line has no \"=\"".to_owned(),
            Cause::Name => "the name before the \"=\" has a character that needs quotes".to_owned(),
            Cause::OpenSection => "the section's name has no closing bracket".to_owned(),
            Cause::SectionName => format!("the section {} has a name that needs quotes", plain(section())),
            Cause::Comment => "this is no comment of TOML".to_owned(),
            Cause::Json => "this is JSON, and the file must be TOML".to_owned(),
            Cause::Comma => "a comma is missing before this value".to_owned(),
            Cause::List => format!("the list of \"{key}\" has a value without quotes, or lacks a comma"),
            Cause::Other => return None,
        })
    }

    /// What to do about it.
    pub(crate) fn hint(self) -> &'static str {
        match self {
            Cause::Twice => "keep one of them",
            Cause::Open => "what begins in this line must be closed, as in [\"a\", \"b\"]",
            Cause::Unquoted => "add the closing quote",
            Cause::Bare => "quote it, as in name = \"value\"",
            Cause::Typographic => "write straight ones, as in name = \"value\"",
            Cause::Escape => "write the backslash twice, or the text in single quotes, as in name = 'a\\b'",
            Cause::AfterQuote => "write a quote within as \\\", or the text in single quotes, as in name = 'a\"b'",
            Cause::Switch => "write true or false",
            Cause::Trailing => "remove it",
            Cause::TooLarge => "write a smaller number",
            Cause::LeadingZero => "remove the 0, or quote what is no number",
            Cause::Empty => "write name = value, or remove the line",
            Cause::NoValue => "write name = value",
            Cause::Name => "names of settings have letters, digits and _ only; of pools and users, \"a b\" = value",
            Cause::OpenSection => "write it as in [listen]",
            Cause::SectionName => "quote the part with spaces or signs, as in [pools.\"my app\"] or [pools.\"*\"]",
            Cause::Comment => "begin it with #",
            Cause::Json => "write sections, as in [listen], with lines of name = value below",
            Cause::Comma | Cause::List => "write it as in [\"a\", \"b\"]",
            Cause::Other => "a file has sections, as in [listen], with lines of name = \"text\", 5 or true below",
        }
    }
}

/// What is wrong with a value that is not TOML.
fn of_value(value: &str) -> Cause {
    let word = value.split('#').next().unwrap_or_default().trim();
    match value.chars().next() {
        None | Some('#') => Cause::Empty,
        Some('“' | '”' | '„' | '‘' | '’' | '‚' | '«' | '»') => Cause::Typographic,
        Some('"') if value.starts_with("\"\"\"") => Cause::Other,
        Some('\'') if value.starts_with("'''") => Cause::Other,
        Some(quote @ ('"' | '\'')) => of_text(&value[1..], quote),
        Some('[') if value.contains(']') => Cause::List,
        Some('[' | '{') => Cause::Open,
        Some('=') => Cause::Other,
        _ if is_switch(word) => Cause::Switch,
        _ => of_number(word).unwrap_or(Cause::Bare),
    }
}

/// What is wrong with a text behind its opening quote.
fn of_text(text: &str, quote: char) -> Cause {
    let mut backslashes = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\\' && quote == '"' {
            backslashes = true;
            // An escape may be of the quote.
            if chars.next().is_none_or(|escape| !"btnfre\"\\uUx".contains(escape)) {
                return Cause::Escape;
            }
        } else if c == quote {
            let rest = chars.as_str().trim_start();
            return match rest.is_empty() || rest.starts_with('#') {
                // As with too few digits.
                true if backslashes => Cause::Escape,
                true => Cause::Other,
                false => Cause::AfterQuote,
            };
        }
    }
    Cause::Unquoted
}

/// What is wrong with a whole number, if it is one.
fn of_number(word: &str) -> Option<Cause> {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(if digits.starts_with('0') { Cause::LeadingZero } else { Cause::TooLarge })
}

/// Whether a word is one that other formats have for true or false.
fn is_switch(word: &str) -> bool {
    ["yes", "no", "on", "off", "True", "False", "TRUE", "FALSE"].contains(&word)
}
