//! Requests of clients, and invalid messages of either side.

use weir_pgwire::{Of, put_back, put_front};

use crate::tape::Tape;

const NAMES: [&str; 5] = ["", "a", "b", "c", "weir_00000000000000000000000000000000"];

#[rustfmt::skip]
const TEXTS: [&str; 16] = [
    "select 1", "select 2", "bad", "copy t from stdin", "deallocate a", "DEALLOCATE ALL", "DISCARD ALL", "set timezone = 'CET'",
    "set local a = 1", "begin", "create temp table t (a int)", "", "listen x", "declare c cursor for select 1",
    "deallocate \"b\"", "prepare p as select 1",
];

/// One request of a client. Its texts end with a comment that names the client.
pub(crate) fn request(tape: &mut Tape<'_>, mark: &str, sent: &mut Vec<u8>) {
    match tape.below(16) {
        0..=2 => put_front::query(sent, text(tape, mark)),
        3 | 4 => put_front::parse_text(sent, tape.one(&NAMES).as_bytes(), text(tape, mark), &[]),
        5 | 6 => put_front::bind(sent, b"", tape.one(&NAMES).as_bytes(), &[Some(b"value"), None]),
        7 => put_front::describe(sent, tape.one(&[Of::Statement, Of::Portal]), tape.one(&NAMES).as_bytes()),
        8 => put_front::close(sent, tape.one(&[Of::Statement, Of::Portal]), tape.one(&NAMES).as_bytes()),
        9 | 10 => put_front::execute(sent, b"", i32::from(tape.byte())),
        11 | 12 => put_front::sync(sent),
        13 => tape.one(&[put_front::flush, put_front::copy_done, put_front::sync])(sent),
        14 => put_front::copy_data(sent, tape.some()),
        _ => tape.one(&[call, give_up])(sent),
    }
}

/// A query text of a client; a mark is appended as a comment.
fn text(tape: &mut Tape<'_>, mark: &str) -> String {
    let text = tape.one(&TEXTS);
    // Now and then, a text longer than the part of a query that is examined.
    let space = if tape.below(16) == 15 { 600 } else { 0 };
    if mark.is_empty() { format!("{text}{:space$}", "") } else { format!("{text} --{mark}{:space$}", "") }
}

fn call(sent: &mut Vec<u8>) {
    put_front::function_call(sent, 1, &[]);
}

fn give_up(sent: &mut Vec<u8>) {
    put_front::copy_fail(sent, "no more");
}

/// A message of any of these tags, with any body.
pub(crate) fn any_message(tape: &mut Tape<'_>, tags: &[u8], sent: &mut Vec<u8>) {
    let tag = tape.one(tags);
    put_back::raw(sent, tag, tape.some());
}
