//! What a client sends in one go, together with what must come back, message by message.
//!
//! Whoever writes a message here writes down its replies in the same breath, the ones that an error skips included; the
//! reader compares each message that comes with the next that must come. Invariant: every text, row and error carries a
//! token that only this client knows, so another client's reply can't pass for ours.

use weir_pgwire::{Of, TxStatus, put_front};

/// One message that must come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expect {
    /// A message of this kind, whatever it says.
    Tag(u8),
    /// A row with exactly these values.
    Row(Vec<String>),
    /// A row of a token and the server's process id, which must stay the same throughout a script.
    Pinned(String),
    /// This many rows of the token, the row's number, and this many bytes.
    Stream { token: String, rows: u64, width: usize, slowly: bool },
    /// A line of COPY's data.
    CopyLine(String),
    /// A command tag.
    Complete(String),
    /// What a function called by FunctionCall returns.
    Returned(String),
    /// An error with this SQLSTATE, whose text has this in it.
    Error { sqlstate: &'static str, has: String },
    /// ReadyForQuery.
    Ready(TxStatus),
}

/// Bytes, and their replies.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) expected: Vec<Expect>,
    /// The transaction's state after the batch.
    status: TxStatus,
    /// After an error the server skips everything up to Sync.
    skipping: bool,
}

/// Batches of one act, one after the other's replies.
pub(super) type Script = Vec<Batch>;

impl Batch {
    /// Begins outside of a transaction.
    pub(super) fn new() -> Batch {
        Batch::within(TxStatus::Idle)
    }

    /// Begins where another batch left the transaction.
    pub(super) fn within(status: TxStatus) -> Batch {
        Batch { bytes: Vec::new(), expected: Vec::new(), status, skipping: false }
    }

    pub(super) fn status(&self) -> TxStatus {
        self.status
    }

    fn expect(&mut self, what: Expect) {
        if !self.skipping {
            self.expected.push(what);
        }
    }

    fn ready(&mut self) {
        self.skipping = false;
        self.expected.push(Expect::Ready(self.status));
    }

    fn fail(&mut self) {
        if self.status == TxStatus::InTransaction {
            self.status = TxStatus::Failed;
        }
    }
}

/// The simple protocol.
impl Batch {
    /// A query whose every statement answers one row of one token.
    pub(super) fn select(&mut self, tokens: &[String]) {
        let text: Vec<_> = tokens.iter().map(|token| format!("select '{token}'")).collect();
        put_front::query(&mut self.bytes, text.join(";"));
        for token in tokens {
            self.expect(Expect::Tag(b'T'));
            self.expect(Expect::Row(vec![token.clone()]));
            self.expect(Expect::Complete("SELECT 1".to_owned()));
        }
        self.ready();
    }

    /// A query that answers one row of the token and the server's process id.
    pub(super) fn pinned(&mut self, token: String) {
        put_front::query(&mut self.bytes, format!("select '{token}', pg_backend_pid()"));
        self.expect(Expect::Tag(b'T'));
        self.expect(Expect::Pinned(token));
        self.expect(Expect::Complete("SELECT 1".to_owned()));
        self.ready();
    }

    /// A statement that answers nothing but its command tag.
    pub(super) fn command(&mut self, sql: &str, tag: &str) {
        put_front::query(&mut self.bytes, sql);
        self.expect(Expect::Complete(tag.to_owned()));
        self.ready();
    }

    /// A command that begins or ends a transaction.
    pub(super) fn turn(&mut self, sql: &str, tag: &str, status: TxStatus) {
        self.status = status;
        self.command(sql, tag);
    }

    /// A query that answers one row of these values.
    pub(super) fn row(&mut self, sql: &str, values: Vec<String>) {
        put_front::query(&mut self.bytes, sql);
        self.expect(Expect::Tag(b'T'));
        self.expect(Expect::Row(values));
        self.expect(Expect::Complete("SELECT 1".to_owned()));
        self.ready();
    }

    /// A query that is refused.
    pub(super) fn refused(&mut self, sql: &str, sqlstate: &'static str, has: &str) {
        put_front::query(&mut self.bytes, sql);
        self.expect(Expect::Error { sqlstate, has: has.to_owned() });
        self.fail();
        self.ready();
    }

    /// An error that names the token.
    pub(super) fn error(&mut self, token: &str) {
        self.refused(&format!("select '{token}'::int"), "22P02", token);
    }

    /// An empty query.
    pub(super) fn empty(&mut self) {
        put_front::query(&mut self.bytes, "");
        self.expect(Expect::Tag(b'I'));
        self.ready();
    }

    /// This many rows, each of the token, its number, and this many bytes.
    pub(super) fn stream(&mut self, token: &str, rows: u64, width: usize, slowly: bool) {
        let sql = format!("select '{token}', g, repeat('x', {width}) from generate_series(1, {rows}) g");
        put_front::query(&mut self.bytes, sql);
        self.expect(Expect::Tag(b'T'));
        self.expect(Expect::Stream { token: token.to_owned(), rows, width, slowly });
        self.expect(Expect::Complete(format!("SELECT {rows}")));
        self.ready();
    }

    /// PostgreSQL's `int4pl` by FunctionCall.
    pub(super) fn call_plus(&mut self, a: u64, b: u64) {
        const INT4PL: u32 = 177;
        let (left, right) = (a.to_string(), b.to_string());
        put_front::function_call(&mut self.bytes, INT4PL, &[Some(left.as_bytes()), Some(right.as_bytes())]);
        self.expect(Expect::Returned((a + b).to_string()));
        self.ready();
    }
}

/// COPY.
impl Batch {
    /// Begins a COPY FROM STDIN; the data follow at once, or in the next batch.
    pub(super) fn copy_begin(&mut self) {
        put_front::query(&mut self.bytes, "copy soak_copy (token, n) from stdin");
        self.expect(Expect::Tag(b'G'));
    }

    pub(super) fn copy_rows(&mut self, token: &str, rows: u64) {
        for n in 1..=rows {
            put_front::copy_data(&mut self.bytes, format!("{token}\t{n}\n").as_bytes());
        }
    }

    pub(super) fn copy_done(&mut self, rows: u64) {
        put_front::copy_done(&mut self.bytes);
        self.expect(Expect::Complete(format!("COPY {rows}")));
        self.ready();
    }

    /// Gives a COPY up; the reason comes back in the error.
    pub(super) fn copy_fail(&mut self, token: &str) {
        put_front::copy_fail(&mut self.bytes, token);
        self.expect(Expect::Error { sqlstate: "57014", has: token.to_owned() });
        self.ready();
    }

    /// A COPY that fails before it begins, with its data already sent: the data must be dropped silently.
    pub(super) fn copy_into_nothing(&mut self, token: &str) {
        self.refused(&format!("copy \"none.{token}\" from stdin"), "42P01", token);
        put_front::copy_data(&mut self.bytes, b"1\t2\n");
        put_front::copy_done(&mut self.bytes);
    }

    /// A COPY whose data PostgreSQL can't read; it drops the rest of them.
    pub(super) fn copy_nonsense(&mut self, token: &str) {
        self.copy_begin();
        put_front::copy_data(&mut self.bytes, format!("a\t{token}\n").as_bytes());
        self.copy_rows(token, 20);
        put_front::copy_done(&mut self.bytes);
        self.expect(Expect::Error { sqlstate: "22P02", has: token.to_owned() });
        self.ready();
    }

    pub(super) fn copy_out(&mut self, token: &str, rows: u64) {
        let sql = format!("copy (select '{token}', g from generate_series(1, {rows}) g) to stdout");
        put_front::query(&mut self.bytes, sql);
        self.expect(Expect::Tag(b'H'));
        for n in 1..=rows {
            self.expect(Expect::CopyLine(format!("{token}\t{n}\n")));
        }
        self.expect(Expect::Tag(b'c'));
        self.expect(Expect::Complete(format!("COPY {rows}")));
        self.ready();
    }
}

/// The extended protocol.
impl Batch {
    /// Prepares a statement that answers this constant and its one parameter.
    pub(super) fn parse(&mut self, name: &str, constant: &str) {
        put_front::parse_text(&mut self.bytes, name.as_bytes(), format!("select '{constant}', $1::text"), &[]);
        self.expect(Expect::Tag(b'1'));
    }

    /// A statement that can't be parsed; the error names the token.
    pub(super) fn parse_nonsense(&mut self, name: &str, token: &str) {
        put_front::parse_text(&mut self.bytes, name.as_bytes(), format!("select \"{token}\""), &[]);
        self.error_and_skip("42703", token);
    }

    /// A name that is taken.
    pub(super) fn parse_again(&mut self, name: &str) {
        put_front::parse_text(&mut self.bytes, name.as_bytes(), "select 1", &[]);
        self.error_and_skip("42P05", name);
    }

    /// Binds the statement's parameter to the unnamed portal.
    pub(super) fn bind(&mut self, name: &str, token: &str) {
        put_front::bind(&mut self.bytes, b"", name.as_bytes(), &[Some(token.as_bytes())]);
        self.expect(Expect::Tag(b'2'));
    }

    /// Executes what was bound: a row of constant and parameter.
    pub(super) fn execute(&mut self, constant: &str, token: &str) {
        put_front::execute(&mut self.bytes, b"", 0);
        self.expect(Expect::Row(vec![constant.to_owned(), token.to_owned()]));
        self.expect(Expect::Complete("SELECT 1".to_owned()));
    }

    /// Prepares, binds and executes an unnamed statement.
    pub(super) fn once(&mut self, constant: &str, token: &str) {
        self.parse("", constant);
        self.bind("", token);
        self.execute(constant, token);
    }

    pub(super) fn describe_statement(&mut self, name: &str) {
        put_front::describe(&mut self.bytes, Of::Statement, name.as_bytes());
        self.expect(Expect::Tag(b't'));
        self.expect(Expect::Tag(b'T'));
    }

    pub(super) fn describe_portal(&mut self) {
        put_front::describe(&mut self.bytes, Of::Portal, b"");
        self.expect(Expect::Tag(b'T'));
    }

    pub(super) fn close_statement(&mut self, name: &str) {
        put_front::close(&mut self.bytes, Of::Statement, name.as_bytes());
        self.expect(Expect::Tag(b'3'));
    }

    /// Three rows by two Executes of a portal.
    pub(super) fn portal_in_two_goes(&mut self, token: &str) {
        let text = format!("select '{token}', g from generate_series(1, 3) g");
        put_front::parse_text(&mut self.bytes, b"", text, &[]);
        put_front::bind_no_params(&mut self.bytes, b"", b"");
        put_front::execute(&mut self.bytes, b"", 2);
        put_front::execute(&mut self.bytes, b"", 2);
        let row = |n: u32| Expect::Row(vec![token.to_owned(), n.to_string()]);
        let complete = Expect::Complete("SELECT 1".to_owned());
        for what in [Expect::Tag(b'1'), Expect::Tag(b'2'), row(1), row(2), Expect::Tag(b's'), row(3), complete] {
            self.expect(what);
        }
    }

    /// An error when the value is bound; it names the token.
    pub(super) fn bind_nonsense(&mut self, token: &str) {
        put_front::parse_text(&mut self.bytes, b"", "select $1::int", &[]);
        self.expect(Expect::Tag(b'1'));
        put_front::bind(&mut self.bytes, b"", b"", &[Some(token.as_bytes())]);
        self.error_and_skip("22P02", token);
        put_front::execute(&mut self.bytes, b"", 0);
    }

    pub(super) fn flush(&mut self) {
        put_front::flush(&mut self.bytes);
    }

    pub(super) fn sync(&mut self) {
        put_front::sync(&mut self.bytes);
        self.ready();
    }

    fn error_and_skip(&mut self, sqlstate: &'static str, has: &str) {
        self.expect(Expect::Error { sqlstate, has: has.to_owned() });
        self.skipping = true;
        self.fail();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_skips_what_follows_up_to_sync() {
        let mut batch = Batch::new();
        batch.once("k", "t1");
        batch.bind_nonsense("t2");
        batch.once("k", "t3");
        batch.sync();
        batch.once("k", "t4");
        batch.sync();
        let rows: Vec<_> = batch.expected.iter().filter(|what| matches!(what, Expect::Row(_))).collect();
        let row = |token: &str| Expect::Row(vec!["k".to_owned(), token.to_owned()]);
        assert_eq!(rows, [&row("t1"), &row("t4")]);
        let ready = batch.expected.iter().filter(|what| **what == Expect::Ready(TxStatus::Idle)).count();
        assert_eq!(ready, 2);
    }

    #[test]
    fn an_error_within_a_transaction_fails_it() {
        let mut batch = Batch::new();
        batch.turn("begin", "BEGIN", TxStatus::InTransaction);
        batch.error("t");
        assert_eq!(batch.status(), TxStatus::Failed);
        assert_eq!(batch.expected.last(), Some(&Expect::Ready(TxStatus::Failed)));
    }
}
