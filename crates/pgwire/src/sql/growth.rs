//! The steps of each function grow with its text, whatever words are in the text and however often.

use super::*;

/// Every word that a function of this module looks for, and pieces by which PostgreSQL reads a text.
const PIECES: [&str; 72] = [
    "execute",
    "crosstab(",
    "query_to_xml('a', 1)",
    "prepare",
    "deallocate",
    "deallocate prepare",
    "discard all",
    "discard",
    "explain",
    "explain (",
    "explain execute",
    "create",
    "create table",
    "create temp",
    "create table a as execute",
    "as",
    "into",
    "insert into",
    "set",
    "set local a = 1",
    "set session",
    "set_config",
    "set_config(",
    "set_config('a', 'b', true)",
    "set_config((",
    "set_conf\u{130}g",
    "advisory_lock",
    "adv\u{130}\u{130}",
    "pg_settings",
    "pg_sett",
    "update",
    "weir_",
    "we\u{130}",
    "do",
    "do $$",
    "declare a cursor with hold for",
    "declare a no scroll no scroll",
    "reset",
    "reset a",
    "reset a.",
    "set a = default",
    "set local a to default",
    "listen",
    "unlisten",
    "language",
    "pg_advisory_lock(",
    "pg_advisory_unlock",
    "with hold",
    "on commit drop",
    "null",
    "values (1), (1)",
    "u&\"",
    "u&\"a\" uescape '!'",
    "\"",
    "\"\"",
    "'",
    "''",
    "'\\",
    "e'\\'",
    "'a'\n",
    "$",
    "$1",
    "$a",
    "$a$",
    "$$",
    "(",
    ")",
    ";",
    "/*",
    "*/",
    "--",
    "-- a\n",
];

/// A function of a text.
type Reader = fn(&[u8]);

const READERS: [(&str, Reader); 13] = [
    ("head", |text| drop(head(text))),
    ("judgement", |text| _ = Judgement::of(text, &head(text))),
    ("judgement of a prefix", |text| _ = Judgement::of_prefix(&text[..text.len().min(512)], text)),
    ("judgement of a long text", |text| _ = Judgement::of_long(text, &Mentions::begin(text))),
    ("mentions in pieces", |text| {
        let mut mentions = Mentions::begin(&text[..text.len().min(100)]);
        text.chunks(100).skip(1).for_each(|piece| mentions.feed(piece));
    }),
    ("kept", |text| _ = kept(text, |_| false)),
    ("names", |text| drop(names(text, false, true, usize::MAX))),
    ("names where backslashes escape", |text| drop(names(text, true, false, usize::MAX))),
    ("prepared", |text| drop(prepared(text))),
    ("custom settings", |text| drop(custom_settings(text))),
    ("clock", |text| _ = reads_clock(text)),
    ("texts that functions run", |text| _ = runs_text(text)),
    ("fingerprint", |text| drop(fingerprint(text, 2000))),
];

/// Texts of about this size: after each beginning, a piece again and again.
fn texts(size: usize) -> impl Iterator<Item = (String, Vec<u8>)> {
    let beginnings =
        ["", "select 1 -- ", "select 1 ", "select '", "/* ", "set local a = ", "prepare a as ", "select set_config("];
    beginnings.into_iter().flat_map(move |beginning| {
        PIECES.into_iter().flat_map(move |piece| {
            ["", " ", ", ", ";"].into_iter().map(move |between| {
                let unit = format!("{piece}{between}");
                let text = format!("{beginning}{}", unit.repeat(size / unit.len() + 1));
                (format!("{beginning:?} and {unit:?}"), text.into_bytes())
            })
        })
    })
}

#[test]
fn twice_the_text_takes_about_twice_the_steps() {
    for ((name, once), (_, twice)) in texts(1 << 10).zip(texts(2 << 10)) {
        for (reader, read) in READERS {
            let (one, two) = (steps::of(|| read(&once)), steps::of(|| read(&twice)));
            assert!(two * 2 <= one * 5 + 200, "{reader} of {name}: {one} steps, then {two}");
            assert!(two <= 40 * twice.len() as u64, "{reader} of {name}: {two} steps");
        }
    }
}

#[test]
fn a_search_for_each_word_would_be_noticed() {
    let quadratic: Reader = |text| (0..text.len()).for_each(|at| steps::count(text.len() - at));
    let (one, two) = (steps::of(|| quadratic(&[b'a'; 1000])), steps::of(|| quadratic(&[b'a'; 2000])));
    assert!(two * 2 > one * 5 + 200);
}
