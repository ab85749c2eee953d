//! Which statement each request of a client runs, and which reply ends it: for the statistics of statements.
//!
//! Owns no state: what is remembered is a server's [`crate::watched::Watched`]. Called only where statements are
//! counted.

use weir_pgwire::tag::{back, front};
use weir_pgwire::{HEAD, Head, frontend, sql};

use crate::expected::Expected;
use crate::link::Link;
use crate::server::Server;
use crate::watched::{Executed, StatementId, rows_of};

/// The requests of a client.
impl Link<'_, '_> {
    /// The newest request, which `message` is, runs this statement. Called after it was decided, where statements are
    /// watched. `by_server`: the client's names are the server's.
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
                    self.ctx.watch.as_deref_mut().into_iter().for_each(|watch| watch.executes(text, known));
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
    /// A reply other than an error comes, whose body this is, and which ends at this byte of the input. What was
    /// executed with it. Called before the reply is matched with its request.
    #[inline]
    pub(crate) fn watch_reply(&mut self, tag: u8, body: &[u8], at: usize) -> Option<Executed> {
        match tag {
            back::COMMAND_COMPLETE | back::PORTAL_SUSPENDED | back::EMPTY_QUERY | back::READY => {
                self.watch_end(tag, body, at)
            }
            _ => None,
        }
    }

    /// A reply that may end a request.
    #[inline(never)]
    fn watch_end(&mut self, tag: u8, body: &[u8], at: usize) -> Option<Executed> {
        let (asked, statement) = self.pending.head_watched()?;
        let simple = matches!(asked, Expected::Query | Expected::QueryLogged);
        let watched = &mut self.watched;
        match tag {
            back::COMMAND_COMPLETE => {
                watched.rows += rows_of(body);
                watched.rolled_back = body == b"ROLLBACK\0";
            }
            back::PORTAL_SUSPENDED => watched.rows += u64::from(watched.row_limit),
            _ => {}
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

    /// An error answers the oldest request. What was executed with it: a simple query ends with its ReadyForQuery,
    /// which does not come if the error is `fatal`.
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
