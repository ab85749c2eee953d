//! PgBouncer's auth_query: the secret of a user, from a server.
//!
//! Owns the exchange in the extended protocol: the user's name is bound as a parameter and never becomes a part of the
//! query's text. Must not know who sends the query, or check a secret.
//!
//! Bounded: one row is requested, and neither it nor its description may be longer than [`MAX_MESSAGE`].
//! Source of the messages: PostgreSQL documentation, "Message Flow", Extended Query.

use std::sync::Arc;

use weir_pgwire::tag::back;
use weir_pgwire::{HEAD, Head, Of, TxStatus, backend, put_front};

use crate::expected::Expected;
use crate::out::Out;
use crate::own_exchange::{self, take_report};
use crate::params::ParamTable;
use crate::server::{ProtocolViolation, Server};
use crate::server_error::{ErrorRead, ServerError, read_error};

/// The longest message that an answer may contain.
const MAX_MESSAGE: usize = 80 << 10;

/// A server's information about a user.
#[derive(Clone, PartialEq, Eq)]
pub struct UserSecret {
    /// The user that the answer is about: its first column.
    pub user: String,
    /// The secret: its second column; `None` for NULL.
    pub secret: Option<Arc<str>>,
}

/// A query under way on one server, from [`AuthQuery::begin`] to its answer.
pub struct AuthQuery {
    row: Row,
    error: Option<ServerError>,
    over: bool,
}

enum Row {
    None,
    UserSecret(UserSecret),
    Bad(&'static str),
}

/// The answer: a user, no such user, or an error.
pub type AuthQueryResult = Result<Option<UserSecret>, ServerError>;

impl AuthQuery {
    /// Sends the query to a server with no pending replies. It leaves only an unnamed statement there.
    pub fn begin(server: &mut Server, query: &str, user: &str, scratch: &mut Vec<u8>, out: &mut impl Out) -> AuthQuery {
        scratch.clear();
        put_front::parse_text(scratch, b"", query, &[]);
        put_front::bind(scratch, b"", b"", &[Some(user.as_bytes())]);
        put_front::describe(scratch, Of::Portal, b"");
        put_front::execute(scratch, b"", 1);
        put_front::sync(scratch);
        server.unnamed = None;
        server.pending.request(Expected::OwnQuery);
        out.server(scratch);
        AuthQuery { row: Row::None, error: None, over: false }
    }

    /// Processes what the server sent; returns the answer once the server is ready again.
    ///
    /// # Errors
    /// When the server can't be trusted any more.
    pub fn feed(
        &mut self,
        server: &mut Server,
        input: &[u8],
        table: &ParamTable,
    ) -> Result<Option<AuthQueryResult>, ProtocolViolation> {
        own_exchange::messages(server, input, need, |server, here, head| self.message(server, here, head, table))?;
        Ok(self.over.then(|| self.answer()))
    }

    /// One message, of which this is here.
    fn message(
        &mut self,
        server: &mut Server,
        here: &[u8],
        head: Head,
        table: &ParamTable,
    ) -> Result<(), ProtocolViolation> {
        let body = &here[HEAD..];
        let whole = here.len() == head.total() && head.total() <= MAX_MESSAGE;
        match head.tag {
            back::NOTICE | back::NOTIFICATION => {}
            // Where a value is not known, the server's next client would not know it.
            back::PARAMETER_STATUS => {
                server.unusable |= !(whole && take_report(server, body, table).is_ok_and(|readable| readable));
            }
            back::ERROR => self.error(server, body),
            _ if self.over => return Err(ProtocolViolation("a reply that no request explains")),
            back::PARSE_COMPLETE | back::BIND_COMPLETE | back::COMMAND_COMPLETE | back::PORTAL_SUSPENDED => {}
            back::NO_DATA => self.bad("it returns no columns"),
            back::ROW_DESCRIPTION => self.columns(body, whole),
            back::DATA_ROW => self.data_row(body, whole),
            back::READY => self.ready(server, body)?,
            _ => return Err(ProtocolViolation("a reply that auth_query may not have")),
        }
        Ok(())
    }

    fn error(&mut self, server: &mut Server, body: &[u8]) {
        let ErrorRead { error, fatal, .. } = read_error(body);
        server.unusable |= fatal || self.over;
        if !self.over {
            self.error.get_or_insert(error);
        }
    }

    fn columns(&mut self, body: &[u8], whole: bool) {
        match backend::row_description(body) {
            Ok(columns) if columns.count() >= 2 => {}
            Ok(_) => self.bad("it must return two columns: the user and the secret"),
            Err(_) if whole => self.bad("its columns can't be read"),
            Err(_) => self.bad("its columns are too many"),
        }
    }

    fn data_row(&mut self, body: &[u8], whole: bool) {
        if !matches!(self.row, Row::None) {
            return;
        }
        let values = whole.then(|| backend::data_row(body).ok()).flatten();
        let Some(mut values) = values else { return self.bad("its row is too long") };
        let (user, secret) = (values.next().flatten(), values.next().flatten());
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        match (user.map(text), secret.map(text)) {
            // A function without SETOF, as in PgBouncer's documentation, returns this for an unknown user.
            (None, _) => {}
            (Some(None), _) | (_, Some(None)) => self.bad("it returned a text that is not UTF-8"),
            (Some(Some(user)), secret) => {
                let secret = secret.flatten().map(Arc::from);
                self.row = Row::UserSecret(UserSecret { user, secret });
            }
        }
    }

    fn bad(&mut self, why: &'static str) {
        self.row = Row::Bad(why);
    }

    fn ready(&mut self, server: &mut Server, body: &[u8]) -> Result<(), ProtocolViolation> {
        let status = backend::ready(body).map_err(|malformed| ProtocolViolation(malformed.0))?;
        server.pending.reply(back::READY).map_err(|_| ProtocolViolation("a ReadyForQuery that no request explains"))?;
        server.status = status;
        server.unusable |= status != TxStatus::Idle;
        self.over = true;
        Ok(())
    }

    fn answer(&mut self) -> AuthQueryResult {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        match std::mem::replace(&mut self.row, Row::None) {
            Row::None => Ok(None),
            Row::UserSecret(found) => Ok(Some(found)),
            Row::Bad(why) => Err(ServerError { sqlstate: "42P10".into(), message: why.to_owned() }),
        }
    }
}

/// How many bytes of a message must be present before it is read.
fn need(head: Head) -> usize {
    match head.tag {
        back::ROW_DESCRIPTION | back::DATA_ROW | back::ERROR | back::PARAMETER_STATUS | back::READY => {
            head.total().min(MAX_MESSAGE)
        }
        _ => HEAD,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;
    use weir_pgwire::{ErrorFields, ResultColumn, ResultColumnType, put_back};

    use super::*;
    use crate::CancelKey;

    #[derive(Default)]
    struct Wire(Vec<u8>);

    impl Out for Wire {
        fn client_range(&mut self, _: Range<usize>) {
            panic!("no client receives it");
        }
        fn client(&mut self, _: &[u8]) {
            panic!("no client receives it");
        }
        fn server_range(&mut self, _: Range<usize>) {
            panic!("nothing is passed on");
        }
        fn server(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
    }

    fn begin(user: &str) -> (AuthQuery, Server, ParamTable, Vec<u8>) {
        let table = ParamTable::new([]);
        let mut server = Server::new(Arc::new(table.unknown()), CancelKey::default());
        let mut wire = Wire::default();
        let lookup = AuthQuery::begin(&mut server, "SELECT $1", user, &mut Vec::new(), &mut wire);
        (lookup, server, table, wire.0)
    }

    fn columns(count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_back::parse_complete(&mut bytes);
        put_back::bind_complete(&mut bytes);
        let columns: Vec<ResultColumn<'_>> =
            (0..count).map(|_| ResultColumn { name: "c", kind: ResultColumnType::Text }).collect();
        put_back::row_description(&mut bytes, &columns);
        bytes
    }

    fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        put_back::data_row(&mut bytes, values);
        bytes
    }

    fn end() -> Vec<u8> {
        let mut bytes = Vec::new();
        put_back::command_complete(&mut bytes, "SELECT 1");
        put_back::ready(&mut bytes, b'I');
        bytes
    }

    /// The result of these bytes, in one piece, and whether the server is clean afterwards.
    fn outcome(bytes: &[u8]) -> (AuthQueryResult, bool) {
        let (mut lookup, mut server, table, _) = begin("ann");
        assert!(!server.is_quiet(), "an answer is owed");
        let answer = lookup.feed(&mut server, bytes, &table).expect("it can be trusted").expect("it is over");
        (answer, server.prove_clean().is_some())
    }

    fn found(user: &str, secret: Option<&str>) -> AuthQueryResult {
        Ok(Some(UserSecret { user: user.into(), secret: secret.map(Arc::from) }))
    }

    #[test]
    fn the_user_is_bound_and_never_becomes_a_part_of_the_query() {
        let (.., sent) = begin("'; DROP TABLE users; --");
        let mut parse = Vec::new();
        put_front::parse_text(&mut parse, b"", "SELECT $1", &[]);
        assert!(sent.starts_with(&parse));
        assert_eq!(sent[parse.len()], b'B');
    }

    #[test]
    fn a_row_names_the_user_and_the_secret() {
        let bytes = [columns(2), row(&[Some(b"ann"), Some(b"md5x")]), end()].concat();
        assert_eq!(outcome(&bytes), (found("ann", Some("md5x")), true));
        let bytes = [columns(3), row(&[Some(b"ann"), None, Some(b"x")]), end()].concat();
        assert_eq!(outcome(&bytes), (found("ann", None), true));
        assert_eq!(outcome(&[columns(2), end()].concat()), (Ok(None), true));
    }

    #[test]
    fn of_several_rows_the_first_one_counts() {
        let rows = [row(&[Some(b"ann"), Some(b"1")]), row(&[Some(b"ann"), Some(b"2")])].concat();
        assert_eq!(outcome(&[columns(2), rows, end()].concat()).0, found("ann", Some("1")));
    }

    #[test]
    fn a_null_user_is_no_user() {
        for secret in [None, Some(&b"x"[..])] {
            assert_eq!(outcome(&[columns(2), row(&[None, secret]), end()].concat()), (Ok(None), true));
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_an_error_and_the_server_stays_clean() {
        let long = vec![b'x'; 2 * MAX_MESSAGE];
        for rows in [
            columns(1),
            [columns(2), row(&[Some(b"ann"), Some(b"\xff")])].concat(),
            [columns(2), row(&[Some(b"ann"), Some(&long)])].concat(),
        ] {
            let (answer, clean) = outcome(&[rows, end()].concat());
            assert!(answer.is_err() && clean, "{answer:?}");
        }
    }

    #[test]
    fn an_error_of_the_query_is_reported_and_the_server_stays_clean() {
        let mut bytes = Vec::new();
        let fields = ErrorFields {
            severity: "ERROR",
            sqlstate: "42501",
            message: "permission denied for table pg_authid",
            detail: None,
            hint: None,
        };
        put_back::error(&mut bytes, &fields);
        put_back::ready(&mut bytes, b'I');
        let (answer, clean) = outcome(&bytes);
        let error = answer.unwrap_err();
        assert_eq!((error.sqlstate.as_str(), clean), ("42501", true));
    }

    #[test]
    fn an_error_behind_the_answer_costs_the_server_and_not_the_answer() {
        let mut bytes = [columns(2), row(&[Some(b"ann"), Some(b"md5x")]), end()].concat();
        let fields = ErrorFields {
            severity: "FATAL",
            sqlstate: "57P01",
            message: "terminating connection due to administrator command",
            detail: None,
            hint: None,
        };
        put_back::error(&mut bytes, &fields);
        assert_eq!(outcome(&bytes), (found("ann", Some("md5x")), false));
    }

    #[test]
    fn what_the_protocol_does_not_allow_costs_the_server() {
        let (mut lookup, mut server, table, _) = begin("ann");
        let mut bytes = Vec::new();
        put_back::raw(&mut bytes, back::COPY_IN, &[0, 0, 0]);
        assert!(lookup.feed(&mut server, &bytes, &table).is_err());
        let (mut lookup, mut server, table, _) = begin("ann");
        let bytes = [columns(2), end(), row(&[Some(b"ann"), None])].concat();
        assert!(lookup.feed(&mut server, &bytes, &table).is_err());
    }

    impl std::fmt::Debug for UserSecret {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "{} {:?}", self.user, self.secret)
        }
    }

    proptest! {
        #[test]
        fn cutting_the_answer_anywhere_changes_nothing(at in 0usize..200) {
            let bytes = [columns(2), row(&[Some(b"ann"), Some(b"SCRAM-SHA-256$x")]), end()].concat();
            let at = at.min(bytes.len() - 1);
            let (mut lookup, mut server, table, _) = begin("ann");
            let first = lookup.feed(&mut server, &bytes[..at], &table).expect("fine");
            prop_assert_eq!(first, None);
            let second = lookup.feed(&mut server, &bytes[at..], &table).expect("fine");
            prop_assert_eq!(second, Some(found("ann", Some("SCRAM-SHA-256$x"))));
            prop_assert!(server.prove_clean().is_some());
        }

        #[test]
        fn nothing_that_a_server_sends_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (mut lookup, mut server, table, _) = begin("ann");
            let _ = lookup.feed(&mut server, &bytes, &table);
        }
    }
}
