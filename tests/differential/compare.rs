//! When two answers are equal: byte for byte, except for the entries of [`EXEMPTIONS`].
//!
//! Object ids of a database's own tables and types are compared by the order of their first appearance, so a wrong one
//! still shows.

use std::collections::HashMap;

use weir_pgclient::Frame;
use weir_pgwire::{backend, tag::back};

use crate::catalog::STATEMENTS;

/// The first object id that a database assigns itself (`FirstNormalObjectId` of PostgreSQL).
const FIRST_OWN_OID: u32 = 16_384;

/// A permitted difference, and its reason.
pub(crate) struct Exemption {
    pub(crate) what: &'static str,
    pub(crate) why: &'static str,
    applies: fn(&Frame, &Frame) -> bool,
}

/// All permitted differences between an answer of PostgreSQL and the same answer through Weir.
pub(crate) const EXEMPTIONS: [Exemption; 9] = [
    Exemption {
        what: "the process id and key of BackendKeyData",
        why: "Weir generates its clients' keys",
        applies: |direct, weir| both(direct, weir, back::BACKEND_KEY_DATA) && direct.body.len() == weir.body.len(),
    },
    Exemption {
        what: "the process id of NotificationResponse",
        why: "it is that of another server process",
        applies: |direct, weir| both(direct, weir, back::NOTIFICATION) && direct.body[4..] == weir.body[4..],
    },
    Exemption {
        what: "the version in NegotiateProtocolVersion",
        why: "Weir supports 3.2, whatever the server does",
        applies: |direct, weir| both(direct, weir, back::NEGOTIATE) && direct.body[4..] == weir.body[4..],
    },
    Exemption {
        what: "which of a client's names for one text an error gives",
        why: "they are one statement on servers (docs/pooling.md)",
        applies: |direct, weir| {
            both(direct, weir, back::ERROR)
                && unnamed(&direct.body).is_some_and(|message| Some(message) == unnamed(&weir.body))
        },
    },
    Exemption {
        what: "which fault is named within a failed transaction, or by which of the server's functions",
        why: "a statement that this server does not have can't be prepared there (docs/pooling.md): 25P02",
        applies: |direct, weir| {
            both(direct, weir, back::ERROR)
                && [&direct.body, &weir.body].iter().any(|body| sqlstate(body).as_deref() == Some(b"25P02"))
                && (sqlstate(&direct.body) != sqlstate(&weir.body) || message(&direct.body) == message(&weir.body))
        },
    },
    Exemption {
        what: "the place in PostgreSQL's source of \"cached plan must not change result type\"",
        why: "Weir reports it where a server has prepared the statement after the change",
        applies: |direct, weir| {
            both(direct, weir, back::ERROR)
                && sqlstate(&direct.body).as_deref() == Some(b"0A000")
                && sqlstate(&weir.body).as_deref() == Some(b"0A000")
                && message(&direct.body) == message(&weir.body)
        },
    },
    Exemption {
        what: "whether a role may not use the schema, or not the table in it",
        why: "a statement may have been analysed for another role, which shares it",
        applies: |direct, weir| {
            both(direct, weir, back::ERROR)
                && [&direct.body, &weir.body].iter().all(|body| sqlstate(body).as_deref() == Some(b"42501"))
        },
    },
    Exemption {
        what: "whether the CONTEXT of an error or a notice names a function with its schema",
        why: "a server keeps the name that it had at its first call there, by the search_path of that time",
        applies: |direct, weir| {
            (both(direct, weir, back::ERROR) || both(direct, weir, back::NOTICE))
                && without_schema(&direct.body) == without_schema(&weir.body)
        },
    },
    Exemption {
        what: "which error a statement gets that has changed, and can't be used as it was described",
        why: "Weir has prepared it again: it can be used by who describes it again",
        applies: |direct, weir| {
            both(direct, weir, back::ERROR)
                && sqlstate(&direct.body).is_some_and(|code| code.starts_with(b"42"))
                && sqlstate(&weir.body).as_deref() == Some(b"0A000")
                && message(&weir.body).as_deref() == Some(b"cached plan must not change result type")
        },
    },
];

fn both(direct: &Frame, weir: &Frame, tag: u8) -> bool {
    direct.tag == tag && weir.tag == tag
}

/// The text of an error about the parameters of a Bind, without the statement's name.
fn unnamed(body: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let view = backend::error_fields(body).ok()?;
    let (before, rest) = split(view.message()?, b" but prepared statement \"")?;
    let (name, after) = split(rest, b"\" requires ")?;
    (!is_weirs_own(name)).then(|| (before.to_vec(), after.to_vec()))
}

/// Whether Weir generated this statement name: no client here could have chosen it.
fn is_weirs_own(name: &[u8]) -> bool {
    let given = STATEMENTS.iter().any(|given| given.as_bytes() == name);
    !given && name.strip_prefix(b"weir_").is_some_and(|digits| digits.len() == 32)
}

/// The fields of an error without the schemas of the functions in its CONTEXT.
fn without_schema(body: &[u8]) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut rest = body;
    while let Some((before, after)) = split(rest, b"PL/pgSQL function ") {
        parts.extend_from_slice(before);
        let name = after.split(|byte| *byte == b'(').next().unwrap_or_default();
        rest = split(name, b".").map_or(after, |(schema, _)| &after[schema.len() + 1..]);
    }
    [&parts, rest].concat()
}

fn split<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let begin = text.windows(at.len()).position(|window| window == at)?;
    Some((&text[..begin], &text[begin + at.len()..]))
}

fn message(body: &[u8]) -> Option<Vec<u8>> {
    backend::error_fields(body).ok()?.message().map(<[u8]>::to_vec)
}

fn sqlstate(body: &[u8]) -> Option<Vec<u8>> {
    backend::error_fields(body).ok()?.sqlstate().map(<[u8]>::to_vec)
}

/// Whether two answers are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Alike,
    /// The answers count as equal, because of this entry of [`EXEMPTIONS`].
    Exempt(usize),
    Differ,
}

/// One side's object ids, numbered in the order of their appearance.
#[derive(Debug, Default)]
pub(crate) struct Oids(HashMap<u32, u32>);

impl Oids {
    fn number(&mut self, bytes: &mut [u8]) {
        let Ok(four) = <[u8; 4]>::try_from(&*bytes) else { return };
        let oid = u32::from_be_bytes(four);
        if oid >= FIRST_OWN_OID {
            let next = FIRST_OWN_OID + self.0.len() as u32;
            bytes.copy_from_slice(&self.0.entry(oid).or_insert(next).to_be_bytes());
        }
    }

    /// A frame with numbers in place of the ids. Their positions: PostgreSQL's documentation, "Message Formats",
    /// RowDescription and ParameterDescription.
    pub(crate) fn numbered(&mut self, frame: &Frame) -> Frame {
        let mut frame = frame.clone();
        match frame.tag {
            back::ROW_DESCRIPTION => {
                let mut at = 2;
                while let Some(end) = frame.body.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == 0)) {
                    let (table, kind) = (at + end + 1, at + end + 7);
                    frame.body.get_mut(table..table + 4).into_iter().for_each(|bytes| self.number(bytes));
                    frame.body.get_mut(kind..kind + 4).into_iter().for_each(|bytes| self.number(bytes));
                    at = table + 18;
                }
            }
            back::PARAMETER_DESCRIPTION => {
                let types = frame.body.get_mut(2..).into_iter().flat_map(|types| types.chunks_exact_mut(4));
                types.for_each(|bytes| self.number(bytes));
            }
            _ => {}
        }
        frame
    }
}

/// Compares two answers.
pub(crate) fn compare(direct: &Frame, weir: &Frame) -> Comparison {
    if direct == weir {
        return Comparison::Alike;
    }
    let entry = EXEMPTIONS.iter().position(|exemption| (exemption.applies)(direct, weir));
    entry.map_or(Comparison::Differ, Comparison::Exempt)
}

#[cfg(test)]
mod tests {
    use weir_pgwire::{ErrorFields, put_back};

    use super::*;

    fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Frame {
        let mut bytes = Vec::new();
        write(&mut bytes);
        Frame { tag: bytes[0], body: bytes[5..].to_vec() }
    }

    fn error(sqlstate: &str, message: &str) -> Frame {
        let fields = ErrorFields { severity: "ERROR", sqlstate, message, detail: None, hint: None };
        frame(|buffer| put_back::error(buffer, &fields))
    }

    #[test]
    fn another_row_another_error_and_another_state_are_differences() {
        let row = |text: &[u8]| frame(|buffer| put_back::data_row(buffer, &[Some(text)]));
        let ready = |state| frame(|buffer| put_back::ready(buffer, state));
        assert_eq!(compare(&row(b"1"), &row(b"1")), Comparison::Alike);
        assert_eq!(compare(&row(b"1"), &row(b"2")), Comparison::Differ);
        assert_eq!(compare(&ready(b'I'), &ready(b'T')), Comparison::Differ);
        assert_eq!(compare(&error("22012", "a"), &error("22012", "b")), Comparison::Differ);
        assert_eq!(compare(&error("22012", "a"), &error("26000", "a")), Comparison::Differ);
        assert_eq!(compare(&error("25P02", "a"), &error("25P02", "b")), Comparison::Differ);
        assert_eq!(compare(&error("26000", "a"), &error("25P02", "b")), Comparison::Exempt(4));
    }

    #[test]
    fn a_name_of_the_clients_may_stand_for_another_and_a_name_of_weirs_for_none() {
        let bound = |name: &str| {
            error("08P01", &format!("bind message supplies 1 parameters, but prepared statement \"{name}\" requires 0"))
        };
        assert_eq!(compare(&bound("a"), &bound("weir_gone")), Comparison::Exempt(3));
        assert_eq!(compare(&bound("a"), &bound("weir_00000000000000000000000000000000")), Comparison::Differ);
    }

    #[test]
    fn object_ids_are_alike_if_they_appear_in_the_same_order() {
        let types = |oids: [u32; 3]| Frame {
            tag: back::PARAMETER_DESCRIPTION,
            body: [vec![0, 3], oids.iter().flat_map(|oid| oid.to_be_bytes()).collect()].concat(),
        };
        let (mut one, mut other) = (Oids::default(), Oids::default());
        assert_eq!(one.numbered(&types([23, 20_000, 30_000])), other.numbered(&types([23, 40_000, 16_999])));
        assert_eq!(one.numbered(&types([20_000, 20_000, 23])), other.numbered(&types([40_000, 40_000, 23])));
        assert_ne!(one.numbered(&types([20_000, 0, 0])), other.numbered(&types([16_999, 0, 0])));
        assert_ne!(one.numbered(&types([23, 0, 0])), other.numbered(&types([25, 0, 0])));
    }
}
