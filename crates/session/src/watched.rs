//! Which statement each request runs, and what its replies amount to: for the statistics of statements.
//!
//! Owns the statement of each portal of a server, and of each name that only the server knows. What a text counts as is decided
//! by a [`StatementWatch`]; without one nothing here is touched, and no text is read for it.

use std::collections::HashMap;

use weir_pgwire::tag::{back, front};
use weir_pgwire::{HEAD, Head, frontend, sql};

use crate::expected::Expected;
use crate::link::Link;
use crate::server::Server;

/// The most names of statements, and of portals, that are remembered of a server; when it is reached, all are forgotten.
const MAX_NAMES: usize = 1024;
/// The longest of them, in bytes.
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
    /// Its statement.
    pub statement: StatementId,
    /// Whether the server answered with an error.
    pub failed: bool,
    /// Rows that were returned or changed, as the command tags say.
    pub rows: u64,
    /// Bytes that the server sent for it.
    pub bytes: u64,
}

/// Counts statements.
pub trait StatementWatch {
    /// What a text counts as. Called for each query, and for each Bind of a statement.
    fn id_of(&mut self, text: &[u8]) -> StatementId;
    /// A request was answered.
    fn executed(&mut self, what: Executed);
}

/// What is known of a server's statements and portals, and of the request under way.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// That of the unnamed statement, where its text is not held by its client.
    unnamed: StatementId,
    /// That of the unnamed portal.
    portal: StatementId,
    names: Option<Box<Names>>,
    /// The limit of rows in the last Execute; 0: none.
    row_limit: u32,
    /// Rows so far, and whether it has failed.
    rows: u64,
    failed: bool,
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
    fn prepare(&mut self, name: &[u8], id: StatementId) {
        match name {
            [] => self.unnamed = id,
            _ => keep(&mut self.names.get_or_insert_default().statements, name, id),
        }
    }

    /// The statement that the server knows by this name.
    fn prepared(&self, name: &[u8]) -> StatementId {
        match name {
            [] => self.unnamed,
            _ => self.names.as_ref().and_then(|names| names.statements.get(name)).copied().unwrap_or_default(),
        }
    }

    fn bind(&mut self, portal: &[u8], id: StatementId) {
        match portal {
            [] => self.portal = id,
            _ => keep(&mut self.names.get_or_insert_default().portals, portal, id),
        }
    }

    fn bound(&self, portal: &[u8]) -> StatementId {
        match portal {
            [] => self.portal,
            _ => self.names.as_ref().and_then(|names| names.portals.get(portal)).copied().unwrap_or_default(),
        }
    }

    /// So many bytes of the server were read, up to the end of its input.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// The request under way is answered, up to this byte of the input.
    fn end(&mut self, statement: StatementId, at: usize) -> Executed {
        let end = self.received + at as u64;
        let bytes = end.saturating_sub(std::mem::replace(&mut self.begun_at, end));
        Executed { statement, failed: std::mem::take(&mut self.failed), rows: std::mem::take(&mut self.rows), bytes }
    }
}

/// The requests of a client.
impl Link<'_, '_> {
    /// The newest request, which `message` is, runs this statement. Called after it was decided, where statements are watched.
    /// `by_server`: the client's names are the server's.
    #[inline(never)]
    pub(crate) fn watch(&mut self, message: &[u8], head: Head, by_server: bool) {
        let body = message.get(HEAD..).unwrap_or_default();
        let id = match head.tag {
            front::QUERY => self.watch_query(body),
            front::PARSE => self.watch_parse(body, by_server),
            front::BIND => self.watch_bind(body, by_server),
            front::EXECUTE => self.watch_execute(body),
            _ => return,
        };
        if id != StatementId::NONE {
            self.server.pending.set_newest_statement(id);
        }
    }

    fn id_of(&mut self, text: &[u8]) -> StatementId {
        self.ctx.watch.as_deref_mut().map_or(StatementId::NONE, |watch| watch.id_of(text))
    }

    /// A simple query; EXECUTE counts as what PREPARE has given the name to, on this server.
    fn watch_query(&mut self, body: &[u8]) -> StatementId {
        let text = body.strip_suffix(&[0]).unwrap_or(body);
        match sql::prepared(text) {
            Some(sql::Prepared::Prepare(name, statement)) => {
                let id = self.id_of(statement);
                self.server.watched.prepare(&name, id);
            }
            Some(sql::Prepared::Execute(name)) => {
                let known = self.server.watched.prepared(&name);
                if known != StatementId::NONE {
                    return known;
                }
            }
            None => {}
        }
        self.id_of(text)
    }

    fn watch_parse(&mut self, body: &[u8], by_server: bool) -> StatementId {
        let mut parts = body.splitn(3, |byte| *byte == 0);
        let (name, text) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let id = self.id_of(text);
        if by_server || name.is_empty() {
            self.server.watched.prepare(name, id);
        }
        id
    }

    fn watch_bind(&mut self, body: &[u8], by_server: bool) -> StatementId {
        let Ok(Some(bind)) = frontend::bind_head(body) else { return StatementId::NONE };
        let id = match self.client.text_of(bind.statement) {
            Some(text) if !by_server => self.ctx.watch.as_deref_mut().map_or(StatementId::NONE, |w| w.id_of(text)),
            _ => self.server.watched.prepared(bind.statement),
        };
        self.server.watched.bind(bind.portal, id);
        id
    }

    fn watch_execute(&mut self, body: &[u8]) -> StatementId {
        let mut parts = body.splitn(2, |byte| *byte == 0);
        let portal = parts.next().unwrap_or_default();
        let limit = parts.next().and_then(|limit| limit.first_chunk::<4>());
        self.server.watched.row_limit = limit.map_or(0, |limit| u32::from_be_bytes(*limit));
        self.server.watched.bound(portal)
    }
}

/// The replies of a server.
impl Server {
    /// A reply other than an error comes, whose body this is, and which ends at this byte of the input. What was executed with
    /// it. Called before the reply is matched with its request.
    #[inline(never)]
    pub(crate) fn watch_reply(&mut self, tag: u8, body: &[u8], at: usize) -> Option<Executed> {
        let (asked, statement) = self.pending.head_watched()?;
        let simple = matches!(asked, Expected::Query | Expected::QueryLogged);
        let watched = &mut self.watched;
        match tag {
            back::COMMAND_COMPLETE => watched.rows += rows_of(body),
            back::PORTAL_SUSPENDED => watched.rows += u64::from(watched.row_limit),
            back::EMPTY_QUERY | back::READY => {}
            _ => return None,
        }
        let ends = if simple { tag == back::READY } else { asked == Expected::Execute };
        if ends && statement != StatementId::NONE {
            return Some(watched.end(statement, at));
        }
        if tag == back::READY {
            // What was sent so far belongs to no request that is counted.
            watched.end(statement, at);
        }
        None
    }

    /// An error answers the oldest request. What was executed with it: a simple query ends with its ReadyForQuery, which does
    /// not come if the error is `fatal`.
    #[cold]
    pub(crate) fn watch_error(&mut self, fatal: bool, at: usize) -> Option<Executed> {
        let (asked, statement) = self.pending.head_watched()?;
        self.watched.failed = true;
        if statement == StatementId::NONE || (asked.ends_with_ready() && !fatal) {
            return None;
        }
        Some(self.watched.end(statement, at))
    }
}

/// The count of rows in a command tag: its last word, if that is a number.
fn rows_of(tag: &[u8]) -> u64 {
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
