//! Scenes of state that outlives a transaction, for the modes that keep it: settings, roles, temporary objects, held
//! cursors, advisory locks, statements of SQL, channels, and what functions, triggers and views leave.
//!
//! What a text does not say is drawn only where it certainly happens: Weir asks about each execution of a text that has
//! left something, and of others ever more rarely (docs/pooling.md).

use crate::author::{Author, Text};
use crate::catalog::{ASKS, DRAWS, HIDDEN, SHOWN, STATE};
use crate::message::Message;

/// The ends of a block.
const ENDS: [&str; 6] =
    ["COMMIT", "COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "PREPARE TRANSACTION 'tx@#'"];

/// What a hidden effect needs, so that it happens.
const CLEAR: [&str; 5] = [
    "ROLLBACK",
    "RESET SESSION AUTHORIZATION",
    "RESET ROLE",
    "SET default_transaction_read_only = off",
    "SET default_transaction_isolation = 'read committed'",
];

impl Author {
    /// Some statements that change state, and what the client sees of it afterwards.
    pub(crate) fn state(&mut self) {
        if self.asks_for_values() {
            self.sequences();
        }
        if self.has_two_clients() && self.rng.one_in(4) {
            self.notified_by_another();
        }
        for _ in 0..self.rng.below(5) + 2 {
            match self.rng.below(8) {
                0 | 1 => self.state_in_a_block(),
                2 => self.hidden(),
                3 => self.shown(),
                4 => self.many_at_once(),
                _ => self.drawn(&STATE),
            }
        }
        for shown in SHOWN {
            self.run(&Text::plain(shown));
        }
    }

    /// Values are drawn of sequences, in blocks and out of them, and asked for later.
    fn sequences(&mut self) {
        for _ in 0..self.rng.below(6) + 2 {
            let block = self.rng.one_in(3);
            if block {
                self.drawn(&["BEGIN", "START TRANSACTION READ WRITE"]);
            }
            for _ in 0..self.rng.below(3) + 1 {
                match self.rng.below(4) {
                    0 => self.drawn(&ASKS),
                    1 => {
                        let texts = [*self.rng.pick(&DRAWS), *self.rng.pick(&ASKS)].join("; ");
                        self.query(&texts);
                    }
                    _ => self.drawn(&DRAWS),
                }
            }
            if block {
                self.drawn(&["COMMIT", "ROLLBACK"]);
            }
            self.drawn(&ASKS);
        }
        if self.rng.one_in(3) {
            self.drawn(&["DISCARD SEQUENCES", "DISCARD ALL"]);
            self.drawn(&ASKS);
        }
    }

    fn drawn(&mut self, texts: &[&str]) {
        let sql = *self.rng.pick(texts);
        self.run(&Text::plain(sql));
    }

    /// As it is: `run` may bind too many values.
    fn query(&mut self, sql: &str) {
        self.send(Message::query(sql));
        self.wait();
    }

    fn shown(&mut self) {
        self.drawn(&SHOWN);
    }

    fn state_in_a_block(&mut self) {
        self.drawn(&["BEGIN", "BEGIN ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION READ WRITE"]);
        let end = *self.rng.pick(&ENDS);
        for _ in 0..self.rng.below(6) + 1 {
            match self.rng.below(8) {
                0 => self.drawn(&["SAVEPOINT s", "SAVEPOINT u"]),
                1 => self.drawn(&["ROLLBACK TO s", "RELEASE s", "ROLLBACK TO u"]),
                2 => self.shown(),
                _ => {
                    let sql = *self.rng.pick(&STATE);
                    // UNLISTEN does nothing in a process that never listened, and such a transaction can be prepared.
                    if !(end.starts_with("PREPARE") && sql.starts_with("UNLISTEN")) {
                        self.run(&Text::plain(sql));
                    }
                }
            }
        }
        self.run(&Text::plain(end));
        if self.rng.one_in(2) {
            self.shown();
        }
        self.drawn(&["COMMIT", "ROLLBACK"]);
        if end.starts_with("PREPARE") {
            self.end_prepared();
        }
    }

    /// Whichever role has prepared a transaction may end it.
    fn end_prepared(&mut self) {
        self.query("ROLLBACK");
        let sql = *self.rng.pick(&["ROLLBACK PREPARED 'tx@#'", "COMMIT PREPARED 'tx@#'"]);
        self.query(sql);
        for role in ["SET ROLE drawn", "RESET ROLE"] {
            self.query(role);
            self.query("ROLLBACK PREPARED 'tx@#'");
        }
    }

    fn hidden(&mut self) {
        CLEAR.iter().for_each(|sql| self.query(sql));
        let sql = *self.rng.pick(&HIDDEN);
        self.query(sql);
    }

    /// Several statements in one text.
    fn many_at_once(&mut self) {
        let parts: Vec<&str> = (0..self.rng.below(3) + 2).map(|_| *self.rng.pick(&STATE)).collect();
        self.send(Message::query(&parts.join("; ")));
        self.wait();
    }

    /// A notification that another client sends.
    fn notified_by_another(&mut self) {
        CLEAR.iter().for_each(|sql| self.query(sql));
        self.query("LISTEN mine@#");
        let other = format!("other{}at{}", self.rng.below(1000), self.steps_so_far());
        self.client(&other);
        self.send(Message::Startup { minor: 0, params: Vec::new() });
        self.wait();
        let sql = *self.rng.pick(&["NOTIFY mine@#, 'of another'", "SELECT pg_notify('mine@#', 'by a function')"]);
        self.query(sql);
        self.client("");
        self.wait_for_notification();
    }
}
