//! The tokens of a transcript's line: bare words, and texts in quotes with escapes.

use std::iter::Peekable;
use std::str::Bytes;

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Without quotes.
    Word(String),
    /// In quotes: any bytes.
    Text(Vec<u8>),
}

/// A text in quotes; bytes other than printable ASCII are escaped.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii().to_string().replace("\\'", "'"))
}

/// Splits a line. `"…"*9` is a text nine times; `#` begins a comment.
///
/// # Errors
/// The mistake in the line.
pub(crate) fn tokens(line: &str) -> Result<Vec<Token>, String> {
    let mut bytes = line.bytes().peekable();
    let mut tokens = Vec::new();
    while let Some(&byte) = bytes.peek() {
        match byte {
            b' ' | b'\t' => drop(bytes.next()),
            b'#' => break,
            b'"' => {
                bytes.next();
                let text = text(&mut bytes)?;
                let times = if bytes.peek() == Some(&b'*') { word(&mut bytes)[1..].parse().ok() } else { Some(1) };
                tokens.push(Token::Text(text.repeat(times.ok_or("a number belongs behind *")?)));
            }
            _ => tokens.push(Token::Word(word(&mut bytes))),
        }
    }
    Ok(tokens)
}

fn word(bytes: &mut Peekable<Bytes<'_>>) -> String {
    let mut word = Vec::new();
    while let Some(byte) = bytes.next_if(|byte| !b" \t".contains(byte)) {
        word.push(byte);
    }
    String::from_utf8_lossy(&word).into_owned()
}

fn text(bytes: &mut Peekable<Bytes<'_>>) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    loop {
        match bytes.next().ok_or("a quote is not closed")? {
            b'"' => return Ok(text),
            b'\\' => text.push(match bytes.next() {
                Some(b'n') => b'\n',
                Some(b't') => b'\t',
                Some(b'r') => b'\r',
                Some(b'x') => {
                    let digits = [bytes.next().unwrap_or(b'?'), bytes.next().unwrap_or(b'?')];
                    let digits = String::from_utf8_lossy(&digits).into_owned();
                    u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is no byte"))?
                }
                Some(other @ (b'"' | b'\\')) => other,
                other => return Err(format!("an unknown escape: {other:?}")),
            }),
            byte => text.push(byte),
        }
    }
}

#[test]
fn a_text_in_quotes_comes_back_as_it_was() {
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(tokens(&quoted(&all)), Ok(vec![Token::Text(all)]));
    let several = tokens("Bind \"a b\"  NULL \"ab\"*3 # repeated").unwrap();
    let word = |word: &str| Token::Word(word.into());
    let text = |text: &str| Token::Text(text.into());
    assert_eq!(several, [word("Bind"), text("a b"), word("NULL"), text("ababab")]);
    assert!(tokens("\"open").is_err() && tokens("\"\\q\"").is_err());
}
