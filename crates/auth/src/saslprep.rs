//! SASLprep (RFC 4013) with PostgreSQL's fallback: a password that can't be prepared is used unchanged.
//!
//! Client and server must derive the same bytes from a password, so this follows PostgreSQL's behaviour rather than the
//! RFC: the rules for forbidden, unassigned and bidirectional characters are applied before normalisation.
//! Every character that passes is in Unicode 3.2, whose normal form no longer changes, so the result does not depend on
//! a library's version. Compared with PostgreSQL 15 for each character of the blocks that matter and for thousands of
//! random texts.

use std::borrow::Cow;

use stringprep::tables;
use unicode_normalization::UnicodeNormalization;

/// The bytes that are hashed for `password`.
pub(crate) fn prepare(password: &[u8]) -> Cow<'_, [u8]> {
    // Not only for speed: PostgreSQL prohibits nothing in ASCII text, not even control characters.
    if password.is_ascii() {
        return Cow::Borrowed(password);
    }
    match std::str::from_utf8(password).ok().and_then(normalise) {
        Some(prepared) => Cow::Owned(prepared.into_bytes()),
        None => Cow::Borrowed(password),
    }
}

/// The prepared form of a text; `None` if it has none.
fn normalise(text: &str) -> Option<String> {
    // In this order: U+200B counts as a space, not as nothing.
    let mapped: String = text.chars().map(map_space).filter(|&c| !tables::commonly_mapped_to_nothing(c)).collect();
    if mapped.is_empty() || mapped.contains(is_forbidden) || !is_one_direction(&mapped) {
        return None;
    }
    Some(mapped.nfkc().collect())
}

/// RFC 4013, section 2.1: every space is the same space.
fn map_space(c: char) -> char {
    if tables::non_ascii_space_character(c) { ' ' } else { c }
}

/// RFC 4013, sections 2.3 and 2.5.
fn is_forbidden(c: char) -> bool {
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

/// RFC 3454, section 6: a text with right-to-left characters begins and ends with them, and has no left-to-right ones.
fn is_one_direction(text: &str) -> bool {
    !text.contains(tables::bidi_r_or_al)
        || (text.starts_with(tables::bidi_r_or_al)
            && text.ends_with(tables::bidi_r_or_al)
            && !text.contains(tables::bidi_l))
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
    fn direction_is_checked_before_normalisation_as_in_postgresql() {
        // Normalised, the first would end in a mark without direction, and the second would contain Latin letters.
        assert_eq!(prepared("\u{FB1D}"), "\u{5D9}\u{5B4}");
        assert_eq!(prepared("\u{5D3}\u{2121}\u{5D3}"), "\u{5D3}TEL\u{5D3}");
    }

    #[test]
    fn a_zero_width_space_is_a_space() {
        assert_eq!(prepared("a\u{200B}b"), "a b");
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
