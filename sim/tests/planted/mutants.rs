//! The bugs that are planted: where, and which checkers may find them.
//!
//! An edit's text must occur exactly once in its file; where the source has changed, the edit must follow. In its
//! replacement, `PLANTED` is true while the bug is enabled.

use weir_sim::Checker;

/// A bug.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// What the bug does, in a few words.
    pub(crate) what: &'static str,
    /// The checkers that may find the bug first.
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
const CANCEL: &str = "crates/engine/src/cancel/request.rs";
const CLIENT_COUNTS: &str = "crates/engine/src/workers/client_counts.rs";
const DEPART: &str = "crates/engine/src/moves/depart.rs";
const WELCOME: &str = "crates/engine/src/client_login/welcome.rs";
const DRAIN: &str = "crates/engine/src/pause/drain.rs";
const LENDING: &str = "crates/engine/src/lending/owner.rs";
const RELEASE: &str = "crates/engine/src/link/release.rs";
const POOL: &str = "crates/pool/src/pool.rs";
const PRIMARIES: &str = "crates/engine/src/primary/view.rs";
const WATCH: &str = "crates/engine/src/pause/watch.rs";
const RELAY: &str = "crates/engine/src/link/relay.rs";
const SERVER: &str = "crates/session/src/server.rs";
const SESSION_STATE: &str = "crates/session/src/session_state.rs";
const ASKING: &str = "crates/session/src/asking.rs";
const SEQUENCES: &str = "crates/session/src/sequences.rs";
const PARAMS: &str = "crates/session/src/params.rs";
const FROM_CLIENT: &str = "crates/session/src/from_client.rs";
const FROM_SERVER: &str = "crates/session/src/from_server.rs";
const NAMING: &str = "crates/session/src/naming.rs";
const PENDING: &str = "crates/session/src/pending.rs";

/// A client's replies differ from those of a direct connection.
const ANSWERS: &[Checker] = &[
    Checker::ResultsReachTheirOwner,
    Checker::AnsweredAsDirect,
    Checker::OneOwnerAServer,
    Checker::NoErrorWithoutFault,
];

/// A client of mode auto has lost its state, or has another's.
const KEPT_STATE: &[Checker] = &[
    Checker::AnsweredAsDirect,
    Checker::NextOwnerSeesCleanServer,
    Checker::ResultsReachTheirOwner,
    Checker::NoErrorWithoutFault,
];

/// All bugs.
pub(crate) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "dirty server",
        what: "state that a client left on its server is not noticed on release",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: RELEASE,
            from: "    if dirty.is_empty() && !always {",
            to: "    let dirty = if PLANTED { Dirty::NONE } else { dirty };
    if dirty.is_empty() && !always {",
        }],
    },
    Mutant {
        name: "trusted tag",
        what: "state that a text leaves behind and its command tag does not show is not noticed",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: SESSION_STATE,
            from: "        self.leave(effects.after(tag));\n",
            to: "        let effects = if PLANTED { Effects { may_leave: Dirty::NONE, ..effects } } else { effects };
        self.leave(effects.after(tag));\n",
        }],
    },
    Mutant {
        name: "unasked server",
        what: "in mode auto no server is asked what its client has left",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: RELEASE,
            from: "    if !asks.is_empty() && up.may_keep_client(asks) {\n",
            to: "    if !asks.is_empty() && up.may_keep_client(asks) && !PLANTED {\n",
        }],
    },
    Mutant {
        name: "nothing left",
        what: "in mode auto every answer is taken as \"nothing but settings\"",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: ASKING,
            from: "        let mut there = found.kinds;\n",
            to: "        let mut there = if PLANTED { Dirty::NONE } else { found.kinds };\n",
        }],
    },
    Mutant {
        name: "unsent command",
        what: "what was composed for a server is not sent where the message then waits for an answer",
        found_by: &[Checker::WaitersAreAnswered, Checker::AllFinishes, Checker::NoConnLeaks],
        edits: &[Edit {
            file: FROM_CLIENT,
            from: "            Some(Err(stop @ StopReason::AwaitReplies(_))) => {\n",
            to: "            Some(Err(stop @ StopReason::AwaitReplies(_)))\n                if !PLANTED || stop == StopReason::from(ReplyWait::Description) =>\n            {\n",
        }],
    },
    Mutant {
        name: "lost setting",
        what: "in mode auto a setting does not follow its client to another server",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: PARAMS,
            from: "        all &= has.untracked.iter().all(",
            to: "        all &= PLANTED || has.untracked.iter().all(",
        }],
    },
    Mutant {
        name: "released pin",
        what: "in mode auto a client loses its server although it has left state there",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: RELEASE,
            from: "        session_mode = mode == PoolMode::Auto;\n",
            to: "        session_mode = mode == PoolMode::Auto && !PLANTED;\n",
        }],
    },
    Mutant {
        name: "unheard discard",
        what: "in mode auto what was set before a DISCARD ALL or RESET follows its client on",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: FROM_SERVER,
            from: "            if (all || tag == b\"RESET\") && client.mode == PoolMode::Auto {\n",
            to: "            if (all || tag == b\"RESET\") && client.mode == PoolMode::Auto && !PLANTED {\n",
        }],
    },
    Mutant {
        name: "another's order",
        what: "a DateStyle that a login gave without an order gets the order of the server's former client after a RESET",
        found_by: ANSWERS,
        edits: &[Edit {
            file: WELCOME,
            from: "    table.complete(&mut wanted, &welcome.params);\n    let asked",
            to: "    if !PLANTED {\n        table.complete(&mut wanted, &welcome.params);\n    }\n    let asked",
        }],
    },
    Mutant {
        name: "read again",
        what: "a Bind of a few bytes reads the stored text that it refers to",
        found_by: &[Checker::TurnsAreShort],
        edits: &[Edit {
            file: NAMING,
            from: "        if judged.concerns_no_statement() {\n            return Ok(None);\n        }\n        if judged.drops_all {\n",
            to: "        if PLANTED && let Some(known) = known {
            drop(crate::judged::Judged::of(known.rest()));
        }
        if judged.concerns_no_statement() {\n            return Ok(None);\n        }\n        if judged.drops_all {\n",
        }],
    },
    Mutant {
        name: "greedy pipeline",
        what: "a client whose pipeline has no end keeps its server, even if others wait",
        found_by: &[Checker::Invariant],
        edits: &[Edit {
            file: RELAY,
            from: "    let wanted = server.closes || slot.is_wanted();\n",
            to: "    let wanted = server.closes || (slot.is_wanted() && !PLANTED);\n",
        }],
    },
    Mutant {
        name: "lost waiter",
        what: "where three clients wait, the release of a server loses the first of them",
        found_by: &[Checker::WaitersAreAnswered, Checker::AllFinishes, Checker::Invariant, Checker::WaitsAreFair],
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
        what: "a server is released with pending replies, and its next client gets them",
        // The client whose replies were stolen may notice first, because it gets none.
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
        edits: &[
            Edit { file: POOL, from: "self.settings.most(more)", to: "self.settings.most(more + u32::from(PLANTED))" },
            Edit {
                file: POOL,
                from: "self.settings.most(self.settings.reserve_size))",
                to: "self.settings.most(self.settings.reserve_size + u32::from(PLANTED)))",
            },
        ],
    },
    Mutant {
        name: "uncounted refusal",
        what: "a client that is refused is not counted",
        found_by: &[Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: "crates/engine/src/link/leave.rs",
            from: "    count_refusal(core, now, &client, &refusal);",
            to: "    if !PLANTED {
        count_refusal(core, now, &client, &refusal);
    }",
        }],
    },
    Mutant {
        name: "late cancel",
        what: "a server is handed out while a cancel request for it is in progress",
        found_by: &[Checker::CancelHitsItsOwn],
        edits: &[Edit {
            file: RELEASE,
            from: "    let cancelled = server.cancels > 0 && !up.is_unusable();",
            to: "    let cancelled = server.cancels > 0 && !up.is_unusable() && !PLANTED;",
        }],
    },
    Mutant {
        name: "lost cancel",
        what: "a cancel request is lost that comes while its client's next query is in Weir, and a server is linked",
        found_by: &[Checker::CancelIsNotLost],
        edits: &[Edit {
            file: "crates/engine/src/cancel/request.rs",
            from: "    let waits_for_server = slot.link.is_none() && slot.reading.has(Reason::Waits);",
            to: "    let waits_for_server = slot.link.is_none() && slot.reading.has(Reason::Waits);
    if PLANTED && slot.link.is_some() {
        return;
    }",
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
        what: "in a deep pipeline a Sync is not added to the pending replies",
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
        what: "after an error, replies to skipped messages are still expected",
        found_by: ANSWERS,
        edits: &[Edit {
            file: PENDING,
            from: "            if next == Expected::Sync || (next == Expected::OwnSync && ours) {",
            to: "            if next == Expected::Sync || (next == Expected::OwnSync && ours) || PLANTED {",
        }],
    },
    Mutant {
        name: "parameter not restored",
        what: "a server keeps the TimeZone of the client before",
        found_by: ANSWERS,
        edits: &[Edit {
            file: "crates/session/src/params.rs",
            from: "            if *wanted == server.values[index] || (wanted.is_none() && reported) {",
            to: "            if *wanted == server.values[index]
                || (wanted.is_none() && reported)
                || (PLANTED && name.eq_ignore_ascii_case(\"TimeZone\"))
            {",
        }],
    },
    Mutant {
        name: "server given twice",
        what: "a server that is handed out stays in the idle list",
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
        what: "a server that is marked for close, and so was not reset, goes back to the owner worker and to another client",
        found_by: &[Checker::NextOwnerSeesCleanServer, Checker::ResultsReachTheirOwner, Checker::AnsweredAsDirect],
        edits: &[Edit {
            file: BORROWER,
            from: "is_none_or(|own| self.oldest_elsewhere + SLACK < own) && !pool.is_unwanted(server)",
            to: "is_none_or(|own| self.oldest_elsewhere + SLACK < own) && (PLANTED || !pool.is_unwanted(server))",
        }],
    },
    Mutant {
        name: "kept loan",
        what: "a borrower keeps idle servers as long as it may while a client waits elsewhere",
        found_by: &[Checker::NoWaitBesideIdle],
        edits: &[Edit {
            file: BORROWER,
            from: "        while !keep || self.oldest_elsewhere != Time::NEVER || self.return_due(pool) <= now {\n",
            to: "        while !keep || (self.oldest_elsewhere != Time::NEVER && !PLANTED) || self.return_due(pool) <= now {\n",
        }],
    },
    Mutant {
        name: "never lent",
        what: "a request that is not served at once is forgotten by the owner worker",
        // Where no server gets idle beside it, the client waits until its time is over.
        found_by: &[Checker::WaitsAreFair, Checker::NoWaitBesideIdle, Checker::WaitersAreAnswered],
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
        name: "no news",
        what: "borrowers do not learn that a client waits elsewhere",
        found_by: &[Checker::WaitsAreFair, Checker::NoWaitBesideIdle],
        edits: &[Edit {
            file: LENDER,
            from: "            if due <= now {\n",
            to: "            if due <= now && !PLANTED {\n",
        }],
    },
    Mutant {
        name: "forgotten loan",
        what: "the end of a server at a borrower is not reported to the owner worker",
        found_by: &[Checker::WaitersAreAnswered, Checker::AllFinishes, Checker::Invariant, Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: BORROWER,
            from: "            if !there {\n                closed.push(ToOwner::Closed(*owners));",
            to: "            if !there && !PLANTED {\n                closed.push(ToOwner::Closed(*owners));",
        }],
    },
    Mutant {
        name: "full anyway",
        what: "a borrower's clients are refused because of a full pool, whatever they wait for",
        found_by: &[Checker::RefusalsAreCounted],
        edits: &[Edit {
            file: LENDING,
            from: "        Some(ix) => refuse::cause_of_wait(core, now, ix),",
            to: "        Some(ix) => if PLANTED {
                let (_, detail) = refuse::cause_of_wait(core, now, ix);
                (Cause::PoolFull, detail)
            } else {
                refuse::cause_of_wait(core, now, ix)
            },",
        }],
    },
    Mutant {
        name: "uncounted loan",
        what: "a lent server is not counted any more, and another one is opened instead",
        found_by: &[Checker::LimitsHold, Checker::Invariant],
        edits: &[Edit {
            file: LENDING,
            from: "    let pool = slot.id();
    core.lent.insert(",
            to: "    if PLANTED {
        core.pools.get_mut(ix).pool.lost(lent, core.common.now());
    }
    let pool = core.pools.get(ix).id();
    core.lent.insert(",
        }],
    },
    Mutant {
        name: "another's lastval",
        what: "it is not noticed that a client has drawn values of a sequence on its server",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: SEQUENCES,
            from: "        (sequences.in_use, sequences.unanswered) = (true, true);",
            to: "        if PLANTED {
            return Dirty::NONE;
        }
        (sequences.in_use, sequences.unanswered) = (true, true);",
        }],
    },
    Mutant {
        name: "values of others stay",
        what: "a server is not cleaned of what others have drawn before a client asks",
        found_by: KEPT_STATE,
        edits: &[Edit {
            file: SEQUENCES,
            from: "    if server.sequences.are_none() {
        return;",
            to: "    if PLANTED || server.sequences.are_none() {
        return;",
        }],
    },
    Mutant {
        name: "interrupting drain",
        what: "a drain closes clients in the middle of a transaction, too",
        found_by: &[Checker::DrainsBetweenTransactions],
        edits: &[Edit { file: DRAIN, from: " if up.is_quiet())", to: " if PLANTED || up.is_quiet())" }],
    },
    Mutant {
        name: "no fence",
        what: "a server of another primary is used without a word to the other workers",
        found_by: &[Checker::OnePrimary],
        edits: &[Edit {
            file: PRIMARIES,
            from: "        match self.of(pool) {
            Some(View::At(host)) if host == at => Admission::Goes,",
            to: "        match self.of(pool) {
            _ if PLANTED => Admission::Goes,
            Some(View::At(host)) if host == at => Admission::Goes,",
        }],
    },
    Mutant {
        name: "lost cancel",
        what: "a request to cancel does not follow a client that has moved to another worker",
        found_by: &[Checker::CancelIsNotLost],
        edits: &[Edit {
            file: CANCEL,
            from: "        if let Some(to) = elsewhere {\n",
            to: "        if let Some(to) = elsewhere.filter(|_| !PLANTED) {\n",
        }],
    },
    Mutant {
        name: "client counted twice",
        what: "a client that has moved to another worker counts under limits again",
        found_by: &[Checker::LimitsHold],
        edits: &[Edit {
            file: CLIENT_COUNTS,
            from: "        Some(counts_for) => client.counts_for(*counts_for),\n",
            to: "        Some(counts_for) if PLANTED => count_in(client, *counts_for, io),
        Some(counts_for) => client.counts_for(*counts_for),\n",
        }],
    },
    Mutant {
        name: "client moved too soon",
        what: "a client that has sent a part of a message, or waits, moves to another worker",
        found_by: &[Checker::WaitersAreAnswered, Checker::AnsweredAsDirect, Checker::NoErrorWithoutFault],
        edits: &[Edit {
            file: DEPART,
            from: "export::is_free(client) && session.may_move()",
            to: "(PLANTED && client.link.is_none() || export::is_free(client) && session.may_move())",
        }],
    },
    Mutant {
        name: "hasty fence",
        what: "a worker says that it has left a host while transactions go on there",
        found_by: &[Checker::OnePrimary],
        edits: &[Edit {
            file: WATCH,
            from: "primaries.is_fenced(pool, |server| fenced::holds_out(conns, server))",
            to: "PLANTED || primaries.is_fenced(pool, |server| fenced::holds_out(conns, server))",
        }],
    },
];
