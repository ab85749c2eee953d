//! The bugs that are planted: where, and which checkers may find them.
//!
//! An edit's text must stand exactly once in its file; where the source has moved on, the edit has to follow. In what
//! replaces it, `PLANTED` is true while the bug is switched on.

use weir_sim::Checker;

/// A bug.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What it does, in a few words.
    pub(crate) what: &'static str,
    /// Who may find it first.
    pub(crate) found_by: &'static [Checker],
    pub(crate) edits: &'static [Edit],
}

/// A change of a source file.
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

const BORROWER: &str = "crates/pool/src/lending/borrower.rs";
const LENDER: &str = "crates/pool/src/lending/lender.rs";
const LENDING: &str = "crates/engine/src/flows/lending.rs";
const LINKS: &str = "crates/engine/src/traffic/links.rs";
const POOL: &str = "crates/pool/src/pool.rs";
const RELAY: &str = "crates/engine/src/traffic/relay.rs";
const SERVER: &str = "crates/session/src/server.rs";
const EFFECTS: &str = "crates/pgwire/src/sql/effects.rs";
const PENDING: &str = "crates/session/src/pending.rs";

/// Somebody's result, or an answer, is not what it would be on a connection of one's own.
const ANSWERS: &[Checker] = &[
    Checker::ResultsReachTheirOwner,
    Checker::AnsweredAsDirect,
    Checker::OneOwnerAServer,
    Checker::NoErrorWithoutFault,
];

/// All of them: the first five are those that every pooler has had.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "dirty server",
        what: "what a client left on its server is not seen when it is released",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: LINKS,
            from: "    let left = !dirty.is_empty() || (session && used);\n",
            to: "    let dirty = if PLANTED { Dirty::NONE } else { dirty };
    let left = !dirty.is_empty() || (session && used);\n",
        }],
    },
    Mutant {
        name: "trusted tag",
        what: "what a text leaves behind that its command tag does not say is not seen",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: EFFECTS,
            from: "        let mut may_leave = Mentions::of(text);\n",
            to: "        let mut may_leave = if PLANTED { Dirty::NONE } else { Mentions::of(text) };\n",
        }],
    },
    Mutant {
        name: "greedy pipeline",
        what: "a client whose pipeline has no end keeps its server, whoever waits",
        found_by: &[Checker::Invariant],
        edits: &[Edit {
            file: RELAY,
            from: "    let wanted = server.marked_for_close || slot.is_wanted();\n",
            to: "    let wanted = server.marked_for_close || (slot.is_wanted() && !PLANTED);\n",
        }],
    },
    Mutant {
        name: "lost waiter",
        what: "where three wait, a server that is released makes the first of them forgotten",
        found_by: &[Checker::WaitersAreAnswered, Checker::AllFinishes, Checker::Invariant],
        edits: &[Edit {
            file: POOL,
            from: "            && let Some((client, since)) = self.queue.pop()
        {
            self.servers[key].state = State::Linked(client);",
            to: "            && let Some((client, since)) = {
                if PLANTED && self.queue.len() > 2 {
                    self.queue.pop();
                }
                self.queue.pop()
            }
        {
            self.servers[key].state = State::Linked(client);",
        }],
    },
    Mutant {
        name: "stolen reply",
        what: "a server is released while it still owes replies, and its next client gets them",
        // Whose replies were stolen may find out first: nothing comes.
        found_by: &[
            Checker::ResultsReachTheirOwner,
            Checker::AnsweredAsDirect,
            Checker::OneOwnerAServer,
            Checker::WaitersAreAnswered,
        ],
        edits: &[Edit {
            file: SERVER,
            from: "self.pending.is_clean() && self.stream.is_between()",
            to: "(self.pending.is_clean() || PLANTED) && self.stream.is_between()",
        }],
    },
    Mutant {
        name: "off by one",
        what: "a pool opens one server more than it may",
        found_by: &[Checker::LimitsHold],
        edits: &[Edit {
            file: POOL,
            from: "self.settings.most(more)",
            to: "self.settings.most(more + u32::from(PLANTED))",
        }],
    },
    Mutant {
        name: "uncounted refusal",
        what: "a client that is refused is not counted",
        found_by: &[Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: "crates/engine/src/flows/leave.rs",
            from: "        self.count_refusal(&client, &refusal);",
            to: "        if !PLANTED {
            self.count_refusal(&client, &refusal);
        }",
        }],
    },
    Mutant {
        name: "late cancel",
        what: "a server is given on while a cancel for it is under way",
        found_by: &[Checker::CancelHitsItsOwn],
        edits: &[Edit {
            file: LINKS,
            from: "    let cancelled = server.cancels > 0 && !up.is_spoiled();",
            to: "    let cancelled = server.cancels > 0 && !up.is_spoiled() && !PLANTED;",
        }],
    },
    Mutant {
        name: "open transaction",
        what: "a server is released within a transaction",
        found_by: ANSWERS,
        edits: &[Edit {
            file: SERVER,
            from: "    pub fn is_quiet(&self) -> bool {\n        self.status == TxStatus::Idle",
            to: "    pub fn is_quiet(&self) -> bool {\n        (self.status == TxStatus::Idle || PLANTED)",
        }],
    },
    Mutant {
        name: "forgotten Sync",
        what: "in a deep pipeline a Sync is not noted among what is owed",
        found_by: ANSWERS,
        edits: &[Edit {
            file: PENDING,
            from: "        self.segment = self.segment.wrapping_add(1);
        self.push(Expected::Sync, Effects::NONE);",
            to: "        self.segment = self.segment.wrapping_add(1);
        if PLANTED && self.runs.len() > 4 {
            return true;
        }
        self.push(Expected::Sync, Effects::NONE);",
        }],
    },
    Mutant {
        name: "error that cuts nothing",
        what: "after an error what the server skips is still awaited",
        found_by: ANSWERS,
        edits: &[Edit {
            file: PENDING,
            from: "            if next == Expected::Sync {\n                return Some(head);",
            to: "            if next == Expected::Sync || PLANTED {\n                return Some(head);",
        }],
    },
    Mutant {
        name: "parameter not restored",
        what: "a server keeps the TimeZone of the client before",
        found_by: ANSWERS,
        edits: &[Edit {
            file: "crates/session/src/params.rs",
            from: "            if wanted == has || (wanted.is_none() && reported) {",
            to: "            if wanted == has
                || (wanted.is_none() && reported)
                || (PLANTED && name.eq_ignore_ascii_case(\"TimeZone\"))
            {",
        }],
    },
    Mutant {
        name: "server given twice",
        what: "a server that is handed out stays among the idle ones",
        found_by: &[Checker::Invariant, Checker::OneOwnerAServer, Checker::ResultsReachTheirOwner],
        edits: &[Edit {
            file: POOL,
            from: "        self.servers.unlink(&mut self.idle, key);
        self.servers[key].state = State::Linked(client);",
            to: "        if !PLANTED {
            self.servers.unlink(&mut self.idle, key);
        }
        self.servers[key].state = State::Linked(client);",
        }],
    },
    Mutant {
        name: "statement mixed up",
        what: "different statements get the same name on servers",
        found_by: ANSWERS,
        edits: &[Edit {
            file: "crates/session/src/statements.rs",
            from: "        *digit = HEX[(key.0 >> (124 - 4 * i) & 15) as usize];",
            to: "        *digit = HEX[(key.0 >> (124 - 4 * i) & if PLANTED && i > 0 { 0 } else { 15 }) as usize];",
        }],
    },
    Mutant {
        name: "uncleaned loan",
        what: "a server that is to be closed, and was not cleaned for that, is returned and given to another client",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: BORROWER,
            from: "is_none_or(|own| self.oldest_elsewhere + SLACK < own) && !pool.is_unwanted(server)",
            to: "is_none_or(|own| self.oldest_elsewhere + SLACK < own) && (PLANTED || !pool.is_unwanted(server))",
        }],
    },
    Mutant {
        name: "kept loan",
        what: "a borrower keeps idle servers while a client waits elsewhere, for as long as it may",
        found_by: &[Checker::NobodyWaitsBesideIdle],
        edits: &[Edit {
            file: BORROWER,
            from: "        while !keep || self.oldest_elsewhere != Time::NEVER || self.return_due(pool) <= now {\n",
            to: "        while !keep || (self.oldest_elsewhere != Time::NEVER && !PLANTED) || self.return_due(pool) <= now {\n",
        }],
    },
    Mutant {
        name: "never lent",
        what: "a request that is not granted at once is forgotten by the owner",
        found_by: &[Checker::WaitsAreFair, Checker::NobodyWaitsBesideIdle],
        edits: &[Edit {
            file: LENDER,
            from: "                    self.borrowers.entry(from).or_default().request = Some(id);\n",
            to: "                    self.borrowers.entry(from).or_default().request = Some(id);
                    if PLANTED {
                        self.withdraw(pool, from, now);
                    }\n",
        }],
    },
    Mutant {
        name: "unfair loan",
        what: "a borrower serves its own clients first, however long others have waited",
        found_by: &[Checker::WaitsAreFair],
        edits: &[Edit {
            file: BORROWER,
            from: "        if self.oldest_elsewhere == Time::NEVER {\n            return false;",
            to: "        if self.oldest_elsewhere == Time::NEVER || (PLANTED && pool.oldest_wait().is_some()) {\n            return false;",
        }],
    },
    Mutant {
        name: "untold borrower",
        what: "borrowers are not told that a client waits elsewhere",
        found_by: &[Checker::WaitsAreFair, Checker::NobodyWaitsBesideIdle],
        edits: &[Edit {
            file: LENDER,
            from: "            if due <= now {\n",
            to: "            if due <= now && !PLANTED {\n",
        }],
    },
    Mutant {
        name: "forgotten loan",
        what: "a server that is closed at a borrower is not reported",
        found_by: &[Checker::WaitersAreAnswered, Checker::AllFinishes, Checker::Invariant, Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: BORROWER,
            from: "            if !there {\n                closed.push(ToOwner::Closed(*owners));",
            to: "            if !there && !PLANTED {\n                closed.push(ToOwner::Closed(*owners));",
        }],
    },
    Mutant {
        name: "full anyway",
        what: "a borrower's clients are told of a full pool, whatever it is that they wait for",
        found_by: &[Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: LENDING,
            from: "            Some(ix) => self.cause_of_wait(now, ix),",
            to: "            Some(ix) => if PLANTED {
                let (_, detail) = self.cause_of_wait(now, ix);
                (Cause::PoolFull, detail)
            } else {
                self.cause_of_wait(now, ix)
            },",
        }],
    },
    Mutant {
        name: "uncounted loan",
        what: "a server that is lent is counted no more, and another one opened for it",
        found_by: &[Checker::LimitsHold, Checker::Invariant],
        edits: &[Edit {
            file: LENDING,
            from: "        let pool = slot.id();
        self.cluster.lent.insert(",
            to: "        if PLANTED {
            self.pools.get_mut(ix).pool.lost(lent, self.common.now());
        }
        let pool = self.pools.get(ix).id();
        self.cluster.lent.insert(",
        }],
    },
];
