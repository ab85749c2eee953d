//! What statistics of statements need to know of a server: the statement of each of its portals, and of each name that
//! only the server knows; and what the request under way has amounted to so far.
//!
//! What a text counts as is decided by a [`StatementWatch`]; without one nothing here is touched. Must not know
//! messages, which [`crate::watching`] reads.

use std::collections::HashMap;

/// The most names of statements, and of portals, that are remembered of a server; when it is reached, all are
/// forgotten.
const MAX_NAMES: usize = 1024;
/// The longest name that is remembered, in bytes.
const MAX_NAME: usize = 64;

/// What a text counts as; given out by a [`StatementWatch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatementId(pub u32);

impl StatementId {
    /// Nothing that is counted.
    pub const NONE: StatementId = StatementId(0);
}

/// A request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Executed {
    /// The request's statement.
    pub statement: StatementId,
    /// Whether the server answered with an error.
    pub failed: bool,
    /// Rows that were returned or changed, as the command tags say.
    pub rows: u64,
    /// Bytes that the server sent for it.
    pub bytes: u64,
    /// Whether its last command was a ROLLBACK, or a COMMIT of a failed transaction.
    pub rolled_back: bool,
}

/// Counts statements.
pub trait StatementWatch {
    /// What a text counts as. Called for each query, and for each Bind of a statement.
    fn id_of(&mut self, text: &[u8]) -> StatementId;
    /// An EXECUTE of this text is sent, which counts as the statement that PREPARE has given its name to.
    fn executes(&mut self, text: &[u8], prepared: StatementId);
    /// A request was answered.
    fn executed(&mut self, what: Executed);
}

/// What is known of a server's statements and portals, and of the request under way.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// What the unnamed statement counts as, where its text is not held by its client.
    unnamed: StatementId,
    /// What the unnamed portal's statement counts as.
    portal: StatementId,
    names: Option<Box<Names>>,
    /// The limit of rows in the last Execute; 0: none.
    pub(crate) row_limit: u32,
    /// Rows so far, and whether it has failed.
    pub(crate) rows: u64,
    pub(crate) failed: bool,
    /// Whether its last command was a ROLLBACK.
    pub(crate) rolled_back: bool,
    /// Bytes that the server has sent, before this input, and before this request.
    received: u64,
    begun_at: u64,
}

/// By name: statements that the server knows by the client's name, and portals.
#[derive(Debug, Default)]
struct Names {
    statements: HashMap<Box<[u8]>, StatementId>,
    portals: HashMap<Box<[u8]>, StatementId>,
}

fn keep(names: &mut HashMap<Box<[u8]>, StatementId>, name: &[u8], id: StatementId) {
    if let Some(known) = names.get_mut(name) {
        *known = id;
    } else if name.len() <= MAX_NAME {
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(name.into(), id);
    }
}

impl Watched {
    pub(crate) fn prepare(&mut self, name: &[u8], id: StatementId) {
        match name {
            [] => self.unnamed = id,
            _ => keep(&mut self.names.get_or_insert_default().statements, name, id),
        }
    }

    /// The statement that the server knows by this name.
    pub(crate) fn prepared(&self, name: &[u8]) -> StatementId {
        match name {
            [] => self.unnamed,
            _ => self.names.as_ref().and_then(|names| names.statements.get(name)).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn bind(&mut self, portal: &[u8], id: StatementId) {
        match portal {
            [] => self.portal = id,
            _ => keep(&mut self.names.get_or_insert_default().portals, portal, id),
        }
    }

    pub(crate) fn bound(&self, portal: &[u8]) -> StatementId {
        match portal {
            [] => self.portal,
            _ => self.names.as_ref().and_then(|names| names.portals.get(portal)).copied().unwrap_or_default(),
        }
    }

    /// This many bytes of the server were read, up to the end of its input.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// The request under way is answered, up to this byte of the input.
    pub(crate) fn end(&mut self, statement: StatementId, at: usize) -> Executed {
        let end = self.received + at as u64;
        let bytes = end.saturating_sub(std::mem::replace(&mut self.begun_at, end));
        Executed {
            statement,
            failed: std::mem::take(&mut self.failed),
            rows: std::mem::take(&mut self.rows),
            bytes,
            rolled_back: std::mem::take(&mut self.rolled_back),
        }
    }
}

/// The count of rows in a command tag: its last word, if that is a number.
pub(crate) fn rows_of(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(&[0]).unwrap_or(tag);
    let (mut rows, mut unit) = (0_u64, 1_u64);
    for byte in tag.iter().rev() {
        match byte {
            b'0'..=b'9' => rows = rows.saturating_add(u64::from(byte - b'0').saturating_mul(unit)),
            b' ' => return rows,
            _ => return 0,
        }
        unit = unit.saturating_mul(10);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_command_are_the_number_at_the_end_of_its_tag() {
        for (tag, rows) in [
            ("SELECT 12", 12),
            ("INSERT 0 3", 3),
            ("UPDATE 0", 0),
            ("CREATE TABLE", 0),
            ("BEGIN", 0),
            ("", 0),
            ("COPY 18446744073709551615", u64::MAX),
            ("COPY 99999999999999999999999", u64::MAX),
        ] {
            assert_eq!(rows_of(tag.as_bytes()), rows, "{tag}");
        }
    }
}
