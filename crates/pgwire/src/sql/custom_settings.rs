//! The settings with names of two parts (`my.own`) that a text may set, so that a server can be asked for their values:
//! it lists no such setting.
//!
//! Owns the search for the places that set one: SET, and calls of `set_config`, wherever they are written. The search does
//! not distinguish code from literals and comments, as a block's body is a literal. So more names are found than are set,
//! and none that is set is missed. In doubt the text does not tell.
//!
//! A text does not tell if a name is an expression, a parameter, or no plain one, and a block not if it may run a
//! command that its text does not show as such: EXECUTE, escapes, a string in pieces, another language than PL/pgSQL. What
//! the functions do that a text calls is not seen.
//!
//! Bounded: texts of [`MAX_TEXT`] bytes, [`MAX_PLACES`] places, of each [`MAX_PLACE`] bytes.
//!
//! Source: PostgreSQL's documentation, "SET", "Configuration Settings Functions", "Customized Options", "String Constants".

use super::Dirty;
use super::mentions::{Mentions, is_name, updates_settings};
use super::scan::Scan;
use super::steps::count;

/// The longest text that is read.
const MAX_TEXT: usize = 64 << 10;

/// The most places that may set something.
const MAX_PLACES: usize = 64;

/// How much of a text is read at each place.
const MAX_PLACE: usize = 256;

/// The longest name, as parts and points.
const MAX_NAME: usize = 63;

const SET: &[u8] = b"set";
const SET_CONFIG: &[u8] = b"set_config";

/// The names of two parts, in lower case, that a whole text may set; `None` where it does not tell. Cost: a few passes.
pub fn custom_settings(text: &[u8]) -> Option<Vec<Box<str>>> {
    let may_hide = text.len() > MAX_TEXT || holds(text, b"u&\"") || updates_settings(text);
    if may_hide || (Mentions::of(text).contains(Dirty::ALL) && !shows_commands(text)) {
        return None;
    }
    count(text.len());
    let mut names = Vec::new();
    let places =
        (0..text.len()).filter(|at| matches!(text[*at], b's' | b'S')).filter_map(|at| Some((at, set_at(text, at)?)));
    for (number, (at, what)) in places.enumerate() {
        if number == MAX_PLACES {
            return None;
        }
        let rest = &text[at..];
        let name = match what {
            Place::Set => name_behind_set(cut(rest.get(SET.len()..)?))?,
            Place::Call => name_of_call(rest.get(SET_CONFIG.len()..)?)?,
            Place::Unclear => return None,
        };
        if let Some(name) = name.filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    Some(names)
}

/// What begins at a place.
enum Place {
    /// The word SET.
    Set,
    /// The name `set_config`.
    Call,
    /// The name `set_config`, in another spelling.
    Unclear,
}

fn set_at(text: &[u8], at: usize) -> Option<Place> {
    let rest = &text[at..];
    if rest.get(..SET_CONFIG.len()).is_some_and(|word| word.eq_ignore_ascii_case(SET_CONFIG)) {
        return Some(Place::Call);
    }
    if is_name(rest, SET_CONFIG) {
        return Some(Place::Unclear);
    }
    let continues = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0x80..);
    let word = rest.get(..SET.len()).is_some_and(|word| word.eq_ignore_ascii_case(SET))
        && rest.get(SET.len()).is_some_and(|next| !continues(next) && *next != b'$');
    // A `$` may end the quote in front of a block's body.
    (word && !at.checked_sub(1).is_some_and(|before| continues(&text[before]))).then_some(Place::Set)
}

/// So much of a text as is read at a place.
fn cut(rest: &[u8]) -> Scan<'_> {
    match rest.get(..MAX_PLACE) {
        Some(beginning) if beginning.len() < rest.len() => Scan::prefix(beginning),
        _ => Scan::whole(rest),
    }
}

/// The name behind SET, if it has two parts; `None`: that is not clear.
fn name_behind_set(mut scan: Scan<'_>) -> Option<Option<Box<str>>> {
    scan.blank();
    let Some(mut first) = scan.name() else { return is_read(&scan, None) };
    // `session` and `local` may also begin a setting's name.
    if matches!(&*first, b"session" | b"local")
        && let Some(name) = scan.name()
    {
        first = name;
    }
    let mut name = first.into_owned();
    while scan.symbol(b'.') {
        name.push(b'.');
        name.extend_from_slice(&scan.name()?);
    }
    is_read(&scan, if name.contains(&b'.') { Some(plain(&name)?) } else { None })
}

/// The name, unless more might follow that was not read.
fn is_read(scan: &Scan<'_>, name: Option<Box<str>>) -> Option<Option<Box<str>>> {
    (!scan.left().is_empty() || !scan.is_cut()).then_some(name)
}

/// The name in the first argument of the call that follows, if it has two parts; `None`: it is no call, or that is not clear.
fn name_of_call(rest: &[u8]) -> Option<Option<Box<str>>> {
    let mut scan = cut(rest.strip_prefix(b"\"").unwrap_or(rest));
    scan.blank();
    if !scan.symbol(b'(') {
        return None;
    }
    // Within a block's body that is a literal itself, quotes are doubled.
    let literal = scan.left();
    let quotes = literal.iter().take_while(|byte| **byte == b'\'').count();
    let inside = literal.get(quotes..).filter(|_| matches!(quotes, 1 | 2))?;
    let length = inside.iter().position(|byte| *byte == b'\'')?;
    let (name, end) = inside.split_at(length);
    let mut behind = cut(end.strip_prefix(&b"''"[..quotes])?);
    behind.blank();
    if !behind.symbol(b',') {
        return None;
    }
    Some(if name.contains(&b'.') { Some(plain(name)?) } else { None })
}

/// A name that means the same wherever it is written.
fn plain(name: &[u8]) -> Option<Box<str>> {
    let is_word = |word: &[u8]| {
        word.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
            && word.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$'))
    };
    let fits = name.len() <= MAX_NAME && name.split(|byte| *byte == b'.').all(is_word);
    let name = String::from_utf8(name.to_ascii_lowercase()).ok().filter(|_| fits)?;
    Some(name.into())
}

/// Whether the commands that the blocks of a text run are in it as they are written elsewhere, but for functions.
fn shows_commands(text: &[u8]) -> bool {
    let hides = text.contains(&b'\\') || holds(text, b"execute") || holds(text, b"u&'");
    !hides && !has_string_in_pieces(text) && has_only_plpgsql(text)
}

/// Whether a string may continue behind its quote: in the next line, with comments in between.
fn has_string_in_pieces(text: &[u8]) -> bool {
    count(text.len());
    let mut behind_quote = None;
    for (at, byte) in text.iter().enumerate() {
        match (byte, behind_quote) {
            (b'\'', Some(quote)) if at > quote + 1 => return true,
            (b'-', Some(_)) if text.get(at + 1) == Some(&b'-') => return true,
            (b'\'', _) => behind_quote = Some(at),
            (byte, Some(_)) if byte.is_ascii_whitespace() || *byte == 0x0b => {}
            _ => behind_quote = None,
        }
    }
    false
}

/// Whether each language that is named is PL/pgSQL.
fn has_only_plpgsql(text: &[u8]) -> bool {
    let (word, language) = (&b"language"[..], &b"plpgsql"[..]);
    count(text.len());
    let places =
        (0..text.len()).filter(|at| text.get(*at..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word)));
    places.map(|at| &text[at + word.len()..]).all(|rest| {
        let name = rest.trim_ascii_start();
        let name = name.strip_prefix(b"'").or_else(|| name.strip_prefix(b"\"")).unwrap_or(name);
        name.get(..language.len()).is_some_and(|it| it.eq_ignore_ascii_case(language))
            && name
                .get(language.len())
                .is_none_or(|next| !next.is_ascii_alphanumeric() && !matches!(next, b'_' | b'$' | 0x80..))
    })
}

/// Whether a word, in lower case, is anywhere in a text.
fn holds(text: &[u8], word: &[u8]) -> bool {
    count(text.len());
    text.windows(word.len()).any(|at| at.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_two_parts_that_a_text_may_set_is_found_or_the_text_does_not_tell() {
        for (text, want) in [
            ("set my.own = '1'", Some("my.own")),
            ("SET SESSION My.Own TO 'x'", Some("my.own")),
            ("set local my.own to default", Some("my.own")),
            ("set/* a */local--\nmy . /**/ own=1", Some("my.own")),
            ("set \"my\".\"own\" = 1", Some("my.own")),
            ("set \"my.own\" = 1", Some("my.own")),
            ("set session.own = 1", Some("session.own")),
            ("set local.own = 1", Some("local.own")),
            ("set my.own.more = 1", Some("my.own.more")),
            ("set\"my\".own = 1", Some("my.own")),
            ("begin;set my.a = 1;set my.b = 2;commit", Some("my.a my.b")),
            ("begin; set local statement_timeout = '1.5s'; select t.a from t", Some("")),
            ("insert into t values (1.5); update t set a = 1.5, b = (t.c).d", Some("")),
            ("set session characteristics as transaction read only; select 1.5", Some("")),
            ("set time zone 1.5", Some("")),
            ("update t set a.b = 1; select 1", Some("a.b")),
            ("update t set (a, b) = (1, 2.5); alter table t alter a set not null", Some("")),
            ("alter table t set (fillfactor = 7.5); select offset_, sets, asset.x, settle", Some("")),
            ("select set_config('my.own', $1, false)", Some("my.own")),
            (
                "select pg_catalog.\"set_config\" /* a */ ( 'My.own' , 'x', true), SET_CONFIG('work_mem', '1', true)",
                Some("my.own"),
            ),
            ("do $$begin set my.own = '1'; perform set_config('my.b', 'x', true); end$$", Some("my.own my.b")),
            ("do $a$begin perform 1.5; end$a$", Some("")),
            ("do 'begin set my.own to ''a''; perform set_config(''my.b'', ''x'', false); end'", Some("my.own my.b")),
            ("do language plpgsql $$set my.own = 1$$", Some("my.own")),
            ("do $$set my.own = 1$$ language 'plpgsql'", Some("my.own")),
            ("select 'set my.literal', 1 -- set my.comment = 1", Some("my.literal my.comment")),
            ("prepare a as select set_config('my.own', $1, false)", Some("my.own")),
            ("set my.own$1 = 1", Some("my.own$1")),
            // What does not tell.
            ("select set_config($1, 'x', false)", None),
            ("select set_config('my.' || 'own', 'x', false)", None),
            ("select set_config('my.own'\n'more', 'x', false)", None),
            ("select set_config('my.own''more', 'x', false)", None),
            ("select set_config(E'my.own', 'x', false)", None),
            ("select set_config(U&'my.own', 'x', false)", None),
            ("select set_config(is_local => false, setting_name => 'my.own', new_value => 'x')", None),
            ("select set_config/* a", None),
            ("select 'set_config'", None),
            ("select SET_CONFİG('my.own', '1', false)", None),
            ("update pg_settings set setting = 'x' where name = 'my.own'", None),
            ("set \"my.öwn\" = 1", None),
            ("set mü.own = 1", None),
            ("set \"my. own\" = 1", None),
            ("set \"my.own\"\".x\" = 1", None),
            ("set U&\"my.own\" = 1", None),
            ("set my. = 1", None),
            ("do $$begin execute 'set my.own = 1'; end$$", None),
            ("do 'begin s\\145t my.own = 1; end'", None),
            ("do U&'begin s!0065t my.own = 1; end' uescape '!'", None),
            ("do 'begin se'\n't my.own = 1; end'", None),
            ("do 'begin se'-- a\n't my.own = 1; end'", None),
            ("do 'begin se' -- a\n't my.own = 1; end'", None),
            ("do 'begin se'\n -- a\n't my.own = 1; end'", None),
            ("do language plperl $$spi_exec_query('s' . 'et my.own = 1')$$", None),
            ("do $$x$$ language plpgsql_x", None),
        ] {
            let names = custom_settings(text.as_bytes()).map(|names| names.join(" "));
            assert_eq!(names.as_deref(), want, "{text}");
        }
        assert_eq!(custom_settings(format!("set my.{} = 1", "x".repeat(61)).as_bytes()), None, "too long a name");
        assert_eq!(custom_settings(format!("set my.own{}= 1", " ".repeat(300)).as_bytes()), None, "cut");
        assert_eq!(custom_settings("set my.own = 1;".repeat(65).as_bytes()), None, "too many places");
        assert_eq!(custom_settings(&[b' '; MAX_TEXT + 1]), None);
    }
}
