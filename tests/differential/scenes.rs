//! Exchanges that are drawn as a whole, because their parts make sense only together: blocks, cursors, COPY, portals
//! that are fetched from alternately, large objects, two-phase commits.

use weir_pgwire::{Of, tag::back};

use crate::author::{Author, Text};
use crate::catalog::{COPY_DATA, LARGE_OBJECT};
use crate::guarantees::Guarantee;
use crate::message::Message;

/// The messages that end an Execute.
const END_OF_EXECUTE: [u8; 3] = [back::COMMAND_COMPLETE, back::PORTAL_SUSPENDED, back::EMPTY_QUERY];

impl Author {
    fn sql(&mut self, sql: &str) {
        self.run(&Text::plain(sql));
    }

    /// A transaction of random length, with savepoints, and an end that may differ from the planned one.
    pub(crate) fn block(&mut self) {
        let begins = [
            "BEGIN",
            "BEGIN",
            "START TRANSACTION",
            "BEGIN ISOLATION LEVEL REPEATABLE READ",
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            "BEGIN READ ONLY",
        ];
        let begin = *self.rng.pick(&begins);
        self.sql(begin);
        for _ in 0..self.rng.below(6) + 1 {
            match self.rng.below(9) {
                0 => self.sql("SAVEPOINT s"),
                1 => self.sql("ROLLBACK TO SAVEPOINT s"),
                2 => self.sql("RELEASE s"),
                3 => self.sql("SET LOCAL TimeZone = 'Asia/Tokyo'"),
                4 => self.sql("INSERT INTO @.child VALUES (96, 'deferred')"),
                5 => {
                    self.extended();
                    self.send(Message::Sync);
                    self.wait();
                }
                6 => self.sql("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
                _ => {
                    let text = self.text();
                    self.run(&text);
                }
            }
        }
        let end = *self.rng.pick(&["COMMIT", "COMMIT", "END", "ROLLBACK", "COMMIT AND CHAIN", "ABORT"]);
        self.sql(end);
        if end == "COMMIT AND CHAIN" {
            self.sql("ROLLBACK");
        }
    }

    /// Cursors of SQL, in their transaction.
    pub(crate) fn cursors(&mut self) {
        self.sql("BEGIN");
        let declares = [
            "DECLARE c CURSOR FOR SELECT i, repeat('c', i) FROM generate_series(1, 9) AS i",
            "DECLARE c SCROLL CURSOR FOR SELECT id, a FROM @.t ORDER BY id",
            "DECLARE c BINARY CURSOR FOR SELECT 1, 'x'::text",
            "DECLARE c NO SCROLL CURSOR FOR SELECT 10 / (3 - i) FROM generate_series(1, 5) AS i",
        ];
        let declare = *self.rng.pick(&declares);
        self.sql(declare);
        for _ in 0..self.rng.below(6) + 1 {
            let does = [
                "FETCH 2 FROM c",
                "FETCH ALL FROM c",
                "FETCH BACKWARD 1 FROM c",
                "MOVE 1 FROM c",
                "MOVE FORWARD ALL IN c",
                "FETCH FIRST FROM c",
                "CLOSE c",
                "FETCH 1 FROM never",
                "UPDATE @.t SET a = 0 WHERE CURRENT OF c",
                "SELECT name, is_scrollable FROM pg_cursors ORDER BY name",
            ];
            let sql = *self.rng.pick(&does);
            self.sql(sql);
        }
        // For the protocol, a cursor of SQL is a portal.
        if self.rng.one_in(2) {
            self.sql("ROLLBACK");
            self.sql("BEGIN");
            self.sql("DECLARE c CURSOR FOR SELECT generate_series(1, 4)");
            self.send(Message::Describe(Of::Portal, b"c".to_vec()));
            self.send(Message::execute(b"c", 3));
            self.send(Message::Close(Of::Portal, b"c".to_vec()));
            self.send(Message::Sync);
            self.wait();
        }
        self.sql("COMMIT");
    }

    /// A fetch size, as in JDBC: a portal is executed again after each Sync, in a transaction.
    pub(crate) fn fetch_by_portal(&mut self) {
        self.send(Message::query("BEGIN"));
        self.wait();
        let name = self.name();
        if !name.is_empty() {
            self.send(Message::Close(Of::Statement, name.clone()));
        }
        self.parse(&name, &Text::plain("SELECT i, repeat('p', i) FROM generate_series(1, 11) AS i"));
        self.send(Message::bind(b"fetched", &name, Vec::new()));
        self.send(Message::Describe(Of::Portal, b"fetched".to_vec()));
        self.send(Message::execute(b"fetched", 3));
        self.send(Message::Sync);
        self.wait();
        for _ in 0..self.rng.below(5) {
            let rows = *self.rng.pick(&[1, 2, 5, 0]);
            self.send(Message::execute(b"fetched", rows));
            self.send(Message::Sync);
            self.wait();
        }
        if self.rng.one_in(2) {
            self.send(Message::Close(Of::Portal, b"fetched".to_vec()));
        }
        self.send(Message::Sync);
        self.wait();
        let end = *self.rng.pick(&["COMMIT", "ROLLBACK"]);
        self.send(Message::query(end));
        self.wait();
    }

    /// Portals that are executed alternately in one segment, with Flush in between.
    pub(crate) fn suspended(&mut self) {
        self.parse(b"", &Text::plain("SELECT generate_series(1, 5)"));
        self.send(Message::bind(b"", b"", Vec::new()));
        for rows in [2, 2, 1, 1] {
            self.send(Message::execute(b"", rows));
            if self.rng.one_in(2) {
                self.send(Message::Flush);
                self.wait_for(&END_OF_EXECUTE);
            }
        }
        self.send(Message::Sync);
        self.wait();
    }

    /// Flush without Sync: answers are read while the implicit transaction is open.
    pub(crate) fn flushed(&mut self) {
        for _ in 0..self.rng.below(3) + 1 {
            let text = self.text();
            if text.sql.contains("COPY") || self.rng.one_in(3) {
                self.parse(b"", &text);
                self.send(Message::Describe(Of::Statement, Vec::new()));
                self.send(Message::Flush);
                self.wait_for(&[back::ROW_DESCRIPTION, back::NO_DATA]);
            } else {
                self.parse(b"", &text);
                self.bind(b"", b"", &text);
                self.send(Message::execute(b"", 0));
                self.send(Message::Flush);
                self.wait_for(&END_OF_EXECUTE);
            }
        }
        self.send(Message::Sync);
        self.wait();
    }

    /// COPY FROM STDIN: before or after CopyInResponse, with CopyDone or CopyFail, with data that may be wrong.
    pub(crate) fn copy_in(&mut self) {
        let texts = [
            "COPY @.copied FROM STDIN",
            "COPY @.copied (n, s) FROM STDIN WITH (FORMAT csv)",
            "COPY @.copied FROM STDIN WITH (FORMAT csv, HEADER, DELIMITER E'\\t')",
            "COPY @.copied FROM STDIN WITH (FORMAT binary)",
            "COPY @.missing FROM STDIN",
        ];
        let sql = *self.rng.pick(&texts);
        let extended = self.rng.one_in(2);
        let several = !extended && self.rng.one_in(4);
        let early_sync = extended && self.rng.one_in(2);
        if extended {
            self.parse(b"", &Text::plain(sql));
            self.send(Message::bind(b"", b"", Vec::new()));
            self.send(Message::Describe(Of::Portal, Vec::new()));
            self.send(Message::execute(b"", 0));
        } else if several {
            self.send(Message::query(&format!("SELECT 'before'; {sql}; SELECT count(*) FROM @.copied")));
        } else {
            self.send(Message::query(sql));
        }
        if early_sync {
            // As libpq does: the server reads this Sync as a part of the COPY.
            self.send(Message::Sync);
            self.wait_for(&[back::COPY_IN]);
        } else if self.rng.one_in(2) {
            self.send(Message::Flush);
            self.wait_for(&[back::COPY_IN]);
        }
        self.copy_data(sql);
        let end = if self.rng.one_in(4) { Message::CopyFail(b"given up".to_vec()) } else { Message::CopyDone };
        self.send(end);
        if extended {
            self.send(Message::Sync);
            // A COPY that stays the unnamed statement would be run again by a later Bind, without its data.
            self.send(Message::Close(Of::Statement, Vec::new()));
            self.send(Message::Sync);
        }
        self.wait();
    }

    fn copy_data(&mut self, sql: &str) {
        if sql.contains("binary") {
            let rows: &[&[u8]] =
                &[b"\0\x02\0\0\0\x04\0\0\0\x07\0\0\0\x03bin", b"\0\x02\xff\xff\xff\xff\xff\xff\xff\xff", b"\0\x01"];
            self.send(Message::CopyData(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec()));
            for _ in 0..self.rng.below(3) {
                let row = if self.rng.one_in(5) { rows[2] } else { rows[self.rng.below(2)] };
                self.send(Message::CopyData(row.to_vec()));
            }
            self.send(Message::CopyData(b"\xff\xff".to_vec()));
            return;
        }
        for _ in 0..self.rng.below(5) {
            let data = if self.rng.one_in(8) { *self.rng.pick(&COPY_DATA) } else { COPY_DATA[self.rng.below(3)] };
            let data = if sql.contains("csv)") { data.replace('\t', ",") } else { data.to_owned() };
            // A line may be split into two messages.
            let cut = self.rng.below(data.len());
            self.send(Message::CopyData(data.as_bytes()[..cut].to_vec()));
            self.send(Message::CopyData(data.as_bytes()[cut..].to_vec()));
        }
        if self.rng.one_in(10) {
            self.send(Message::CopyData(b"\\.\n".to_vec()));
        }
    }

    pub(crate) fn copy_out(&mut self) {
        let texts = [
            "COPY (SELECT n, s FROM @.copied ORDER BY n, s) TO STDOUT",
            "COPY (SELECT i, repeat('o', i) FROM generate_series(1, 30) AS i) TO STDOUT WITH (FORMAT csv, HEADER)",
            "COPY (SELECT 1, 'x', NULL::int) TO STDOUT WITH (FORMAT binary)",
            "COPY (SELECT 10 / (4 - i) FROM generate_series(1, 6) AS i) TO STDOUT",
            "COPY @.missing TO STDOUT",
            "COPY @.t (id, a) TO STDOUT",
        ];
        let sql = *self.rng.pick(&texts);
        self.sql(sql);
    }

    /// A large object of the client, by functions of SQL and by FunctionCall.
    pub(crate) fn large_object(&mut self) {
        self.sql("BEGIN");
        self.sql("SELECT lo_create(90@#)");
        for _ in 0..self.rng.below(5) + 2 {
            let (oid, arguments) = *self.rng.pick(&LARGE_OBJECT);
            if self.rng.one_in(2) {
                let values = arguments.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
                let result = u16::from(self.rng.one_in(2));
                self.send(Message::FunctionCall { oid, values, formats: Vec::new(), result });
                self.wait();
            } else {
                let sqls = [
                    "SELECT lo_open(90@#, 393216)",
                    "SELECT lowrite(0, '\\x000102')",
                    "SELECT lo_lseek(0, 1, 0)",
                    "SELECT loread(0, 10)",
                    "SELECT lo_put(90@#, 0, 'put')",
                    "SELECT lo_get(90@#)",
                    "SELECT lo_close(0)",
                ];
                let sql = *self.rng.pick(&sqls);
                self.sql(sql);
            }
        }
        self.sql("SELECT lo_unlink(90@#)");
        let end = *self.rng.pick(&["COMMIT", "ROLLBACK"]);
        self.sql(end);
        // The large object is removed in any case, for the next run.
        self.sql("SELECT count(lo_unlink(oid)) FROM pg_largeobject_metadata WHERE oid = 90@#");
    }

    /// PREPARE TRANSACTION, finished on any server.
    pub(crate) fn two_phase(&mut self) {
        self.send(Message::query("BEGIN"));
        self.wait();
        if self.rng.one_in(3) {
            self.sql("SELECT 1/0");
        }
        self.send(Message::query("INSERT INTO @.t (a) VALUES (70)"));
        self.wait();
        self.send(Message::query("PREPARE TRANSACTION 'tx@#'"));
        self.wait();
        self.send(Message::query("SELECT count(*) FROM @.t WHERE a = 70"));
        self.wait();
        let end = *self.rng.pick(&["COMMIT PREPARED 'tx@#'", "ROLLBACK PREPARED 'tx@#'"]);
        self.send(Message::query(end));
        self.wait();
    }

    /// A table changes between the description of a statement and its use.
    pub(crate) fn reshaped(&mut self) {
        if self.guaranteed(Guarantee::Blocks) {
            self.sql("ROLLBACK");
        }
        for sql in ["DROP TABLE IF EXISTS @.shaped", "CREATE TABLE @.shaped (a int, b text)"] {
            self.send(Message::query(sql));
            self.wait();
        }
        let name: &[u8] = if self.rng.one_in(4) { b"" } else { b"shaped" };
        self.send(Message::Close(Of::Statement, name.to_vec()));
        let text = format!("SELECT * FROM @.shaped /* {} */", self.rng.bits());
        self.send(Message::Parse { name: name.to_vec(), text: text.into_bytes(), types: Vec::new() });
        self.send(Message::Describe(Of::Statement, name.to_vec()));
        self.send(Message::Sync);
        self.wait();
        let change = *self.rng.pick(&[
            "ALTER TABLE @.shaped ADD COLUMN c int DEFAULT 9",
            "ALTER TABLE @.shaped DROP COLUMN b",
            "ALTER TABLE @.shaped ALTER COLUMN a TYPE bigint",
            "ALTER TABLE @.shaped RENAME COLUMN a TO renamed",
            "CREATE INDEX ON @.shaped (a)",
            "ALTER TABLE @.shaped RENAME TO gone",
        ]);
        // A simple query would drop the unnamed statement.
        for sql in [change, "ALTER TABLE IF EXISTS @.gone RENAME TO shaped"] {
            self.send(Message::Parse { name: b"changes".to_vec(), text: sql.as_bytes().to_vec(), types: Vec::new() });
            self.send(Message::bind(b"", b"changes", Vec::new()));
            self.send(Message::execute(b"", 0));
            self.send(Message::Close(Of::Statement, b"changes".to_vec()));
            self.send(Message::Sync);
            self.wait();
        }
        for _ in 0..self.rng.below(3) + 1 {
            self.send(Message::bind(b"", name, Vec::new()));
            if self.rng.one_in(2) {
                self.send(Message::Describe(Of::Portal, Vec::new()));
            }
            self.send(Message::execute(b"", 0));
            self.send(Message::Sync);
            self.wait();
        }
        self.send(Message::Close(Of::Statement, name.to_vec()));
        self.send(Message::Sync);
        self.wait();
    }

    /// A statement whose table changes under it, within one transaction: "cached plan must not change result type".
    pub(crate) fn stale_plan(&mut self) {
        // The text belongs to this transaction only: statements are shared, and other sessions may have seen the table
        // before.
        let text = Text::plain(&format!("SELECT * FROM @.wide /* {} */", self.rng.bits()));
        let described = self.rng.one_in(2);
        let run = |author: &mut Author| {
            author.send(Message::bind(b"", b"stale", Vec::new()));
            author.send(Message::Describe(Of::Portal, Vec::new()));
            author.send(Message::execute(b"", 0));
            author.send(Message::Sync);
            author.wait();
        };
        // Leftovers of another transaction must not be taken for this one.
        for sql in ["ROLLBACK", "BEGIN"] {
            self.send(Message::query(sql));
            self.wait();
        }
        self.send(Message::Close(Of::Statement, b"stale".to_vec()));
        self.send(Message::Parse { name: b"stale".to_vec(), text: text.sql.into_bytes(), types: Vec::new() });
        run(self);
        self.send(Message::query("ALTER TABLE @.wide ADD COLUMN z int DEFAULT 9"));
        self.wait();
        if described {
            self.send(Message::Describe(Of::Statement, b"stale".to_vec()));
        }
        run(self);
        self.send(Message::query("ROLLBACK"));
        self.wait();
        self.send(Message::bind(b"", b"stale", Vec::new()));
        self.send(Message::execute(b"", 0));
        self.send(Message::Close(Of::Statement, b"stale".to_vec()));
        self.send(Message::Sync);
        self.wait();
    }
}
