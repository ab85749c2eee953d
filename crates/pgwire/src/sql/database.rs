//! Commands that PostgreSQL refuses while others are connected to a database: DROP DATABASE, ALTER DATABASE … RENAME,
//! and CREATE DATABASE with a template.
//!
//! Source: PostgreSQL's documentation, the pages of these commands.

use std::borrow::Cow;

use super::scan::{Scan, Token};

/// The database to which no others may be connected while a text runs, whose first statement is such a command. Cost:
/// the statement is read once.
pub fn needed_alone(text: &[u8]) -> Option<Cow<'_, [u8]>> {
    let mut scan = Scan::whole(text);
    scan.statement();
    let is_word = |token: &Token<'_>, wanted: &[u8]| matches!(token, Token::Word(word) if **word == *wanted);
    let mut next = || scan.token();
    let verb = next();
    if !is_word(&next(), b"database") {
        return None;
    }
    let first = next();
    if is_word(&verb, b"drop") {
        if !is_word(&first, b"if") {
            return name(first);
        }
        return if is_word(&next(), b"exists") { name(next()) } else { None };
    }
    if is_word(&verb, b"alter") {
        return if is_word(&next(), b"rename") { name(first) } else { None };
    }
    if !is_word(&verb, b"create") {
        return None;
    }
    loop {
        match next() {
            Token::End | Token::Semicolon | Token::Unclear => return None,
            token if is_word(&token, b"template") => {
                let value = next();
                return name(if value == Token::Other(b'=') { next() } else { value });
            }
            _ => {}
        }
    }
}

fn name(token: Token<'_>) -> Option<Cow<'_, [u8]>> {
    match token {
        Token::Word(name) | Token::Quoted(name) => Some(name),
        Token::Literal(name) => Some(Cow::Borrowed(name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_that_must_be_free_is_read() {
        for (text, expected) in [
            ("DROP DATABASE App", Some("app")),
            ("/* a */ drop database if exists \"App\" with (force);", Some("App")),
            ("alter database a rename to b", Some("a")),
            ("alter database a set work_mem = '1MB'", None),
            ("create database b", None),
            ("create database b owner ann template a", Some("a")),
            ("CREATE DATABASE b WITH TEMPLATE = 'a' ENCODING 'UTF8'", Some("a")),
            ("create table database (a int)", None),
            ("drop table a", None),
            ("select 'drop database a'", None),
            ("", None),
        ] {
            assert_eq!(needed_alone(text.as_bytes()).as_deref(), expected.map(str::as_bytes), "{text}");
        }
    }
}
