//! What a server reported about itself, as the messages that clients are told it by.

use std::sync::Arc;

use weir_pgwire::put_back;
use weir_session::{ParamTable, Params};

/// What clients of a pool are told at their login.
#[derive(Clone, Debug)]
pub(crate) struct Welcome {
    pub(crate) told: Arc<Told>,
    pub(crate) params: Arc<Params>,
}

/// What a server reported at its login, as the messages that clients are told it by: made once, for most clients of a pool
/// are told the same.
#[derive(Debug)]
pub(crate) struct Told {
    messages: Vec<u8>,
    parts: Vec<Part>,
}

/// One parameter of it.
#[derive(Debug)]
struct Part {
    name: String,
    value: String,
    /// Its place among the tracked ones.
    place: Option<usize>,
    /// Where its message ends.
    end: usize,
}

impl Told {
    pub(crate) fn new(table: &ParamTable, reported: Vec<(String, String)>) -> Told {
        let (mut messages, mut parts) = (Vec::new(), Vec::new());
        for (name, value) in reported {
            put_back::parameter_status(&mut messages, &name, &value);
            parts.push(Part { place: table.place(&name), name, value, end: messages.len() });
        }
        Told { messages, parts }
    }

    /// Appends what a client with these values is told: the same, but where it has a value of its own.
    pub(crate) fn write(&self, buffer: &mut Vec<u8>, params: &Params) {
        let mut begin = 0;
        for part in &self.parts {
            match part.place.and_then(|place| params.at(place)).filter(|own| *own != part.value) {
                Some(own) => put_back::parameter_status(buffer, &part.name, own),
                None => buffer.extend_from_slice(&self.messages[begin..part.end]),
            }
            begin = part.end;
        }
    }
}
