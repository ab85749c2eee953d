//! SASLprep (RFC 4013) with PostgreSQL's fall-back: what can't be prepared is used as it is.
//!
//! Client and server must derive the same bytes from a password, so the authority is not the RFC but what PostgreSQL
//! does with it: the tables of forbidden and unassigned characters are applied before normalisation. Every character
//! that passes is in Unicode 3.2, whose normal form no longer changes, so the result does not depend on a library's
//! version.

use std::borrow::Cow;

use stringprep::tables;

/// The bytes that are hashed for `password`.
pub(crate) fn prepare(password: &[u8]) -> Cow<'_, [u8]> {
    // Also an optimisation: for ASCII, control characters included, nothing changes.
    if password.is_ascii() {
        return Cow::Borrowed(password);
    }
    let Ok(text) = std::str::from_utf8(password) else { return Cow::Borrowed(password) };
    if text.chars().filter(|&c| !is_mapped(c)).any(is_refused) {
        return Cow::Borrowed(password);
    }
    match stringprep::saslprep(text) {
        Ok(prepared) if !prepared.is_empty() => Cow::Owned(prepared.into_owned().into_bytes()),
        _ => Cow::Borrowed(password),
    }
}

/// Whether the mapping step (RFC 4013, section 2.1) removes the character or turns it into a space.
fn is_mapped(c: char) -> bool {
    tables::non_ascii_space_character(c) || tables::commonly_mapped_to_nothing(c)
}

/// RFC 4013, sections 2.3 and 2.5.
fn is_refused(c: char) -> bool {
    tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(text: &str) -> String {
        String::from_utf8(prepare(text.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn the_examples_of_rfc_4013_come_out_as_it_says() {
        assert_eq!(prepared("I\u{AD}X"), "IX");
        assert_eq!(prepared("user"), "user");
        assert_eq!(prepared("USER"), "USER");
        assert_eq!(prepared("\u{AA}"), "a");
        assert_eq!(prepared("\u{2168}"), "IX");
    }

    #[test]
    fn what_rfc_4013_refuses_is_used_as_it_is() {
        // A control character, a broken bidirectional text, a character newer than Unicode 3.2 that would normalise.
        for raw in ["\u{7}", "\u{627}1", "\u{1F130}", "\u{1F980}"] {
            assert_eq!(prepared(raw), raw);
        }
    }

    #[test]
    fn a_password_that_would_vanish_is_used_as_it_is() {
        assert_eq!(prepared("\u{AD}"), "\u{AD}");
    }

    #[test]
    fn bytes_that_are_not_utf_8_are_used_as_they_are() {
        assert_eq!(&*prepare(b"caf\xe9"), b"caf\xe9");
    }
}
