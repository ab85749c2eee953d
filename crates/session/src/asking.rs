//! When a server is asked what its client has left there, and what follows from the answer: in mode auto of all kinds, in
//! mode transaction of the channels on which the client listens, if the pool shares a connection for them.

use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::{Dirty, put_back};

use crate::client::Client;
use crate::function_bodies::AskedBodies;
use crate::leaving_functions::Leaving;
use crate::left_state::{self, Compiled, Found};
use crate::out::Out;
use crate::params::ParamTable;
use crate::resets::StartValues;
use crate::server::Server;
use crate::state_messages;
use crate::statements::PoolStatements;
use crate::suspects::Suspects;
use crate::{custom_names, function_bodies, leaving_functions};

/// What a server has said of the state that its client has left.
#[derive(Debug)]
pub struct Left {
    /// What keeps the client at this server.
    pub kept: Dirty,
    /// The channels on which the server listens; `None` if it was not asked, or if they could not be read.
    pub channels: Option<Vec<Arc<str>>>,
    /// What was left by a text that had been executed before without a question: other clients may have found it then.
    pub late: Dirty,
    suspects: Suspects,
}

impl Left {
    /// The beginning of the text that may have left this.
    pub fn text_of(&self, kind: Dirty) -> Option<&[u8]> {
        self.suspects.of(kind)
    }
}

impl Server {
    /// Whether the client may have left something of these kinds on the server since that was last asked.
    #[inline]
    pub fn must_ask(&self, kinds: Dirty) -> bool {
        (self.state.unknown().has_any(kinds) || self.due.presses() || self.own_notified)
            && self.asked_at != Some(self.pending.progress())
    }

    /// Whether there may be something of these kinds for which the server's client keeps it, or that is to be asked for.
    #[inline]
    pub fn may_keep_client(&self, kinds: Dirty) -> bool {
        self.state.keeping().has_any(kinds) || !self.due.is_none() || self.own_notified
    }

    /// Sends the client the ReadyForQuery that it was not sent when it came, and notifications before it. `own_pid`:
    /// the process id that the client was given at its login.
    pub fn send_withheld_ready(
        &mut self,
        client: &mut Client,
        own_pid: u32,
        scratch: &mut Vec<u8>,
        out: &mut impl Out,
    ) {
        scratch.clear();
        client.channels.iter_mut().for_each(|channels| channels.write(own_pid, scratch));
        if std::mem::take(&mut self.ready_withheld) {
            put_back::ready(scratch, b'I');
        }
        if !scratch.is_empty() {
            out.client(scratch);
        }
    }

    /// The channels on which the server listens are its client's, to whom notifications come by the shared connection.
    pub fn listens_for_client(&mut self) {
        self.state.share(Dirty::LISTEN);
    }

    /// Asks the server what its client has left of these kinds.
    pub fn ask_left(
        &mut self,
        kinds: Dirty,
        table: &ParamTable,
        texts: &mut PoolStatements,
        scratch: &mut Vec<u8>,
        out: &mut impl Out,
    ) {
        self.suspects.keep_only(self.use_began());
        // What was known before the first question, where it is asked again.
        let expected = self.found.take().map_or(self.state.dirty(), |found| found.expected);
        let mut more = Vec::new();
        self.bodies_asked = AskedBodies::Known;
        if !self.due.is_none() {
            self.state.leave(Dirty::ALL);
            let changes = texts.function_changes();
            self.bodies_asked = texts.bodies.ask(changes, std::mem::take(&mut self.reads_bodies));
            if !self.bodies_asked.are_known() {
                texts.custom.forget();
            }
            if matches!(self.bodies_asked, AskedBodies::Here { .. }) {
                more.push(leaving_functions::query());
                more.push(leaving_functions::sources_query());
                more.push(custom_names::planned_query());
            }
            more.push(function_bodies::query());
            texts.bodies.asked();
        }
        if kinds.contains(Dirty::SETTINGS) && self.state.dirty().contains(Dirty::SETTINGS) {
            let names = self.custom.iter().chain(table.custom(&self.params));
            more.extend(texts.custom.query(names, self.state.dirty().contains(Dirty::ALL)));
        }
        let is_long = !self.bodies_asked.are_known();
        let compiled = if is_long || table.weighs_plans(&self.params) { Compiled::Never } else { Compiled::BySettings };
        let query = left_state::query(self.state.dirty().common(kinds), more, compiled);
        self.own_query(&query, scratch, out);
        self.found = Some(Box::new(Found::new(expected)));
        self.asked_at = Some(self.pending.progress());
        self.own_notified = false;
    }

    /// The question is answered. Returns whether it is to be asked again, since the bodies of functions were others than
    /// those that were read before, and may leave what was not asked for.
    pub fn must_ask_again(&self, texts: &mut PoolStatements) -> bool {
        let Some(counted) = self.found.as_ref().and_then(|found| found.counted.as_deref()) else { return false };
        if !self.bodies_asked.are_known() {
            return false;
        }
        if texts.bodies.have_changed(counted) {
            texts.functions_changed();
        }
        // Another server's answer, or a client's CREATE FUNCTION, may have said so meanwhile, on any worker.
        !texts.bodies.are_read(texts.function_changes())
    }

    /// The question was cancelled. Returns whether it may be repeated: three times.
    pub fn may_repeat_question(&mut self) -> bool {
        self.cancelled_questions += 1;
        self.cancelled_questions <= 3
    }

    /// The question is answered, or has failed. Settings follow the client from now on, if all of them can; but for
    /// `may_be_untracked` only those that are tracked.
    pub fn left_is_known(
        &mut self,
        client: Option<&mut Client>,
        table: &ParamTable,
        texts: &mut PoolStatements,
        answered: bool,
        may_be_untracked: bool,
    ) -> Left {
        self.cancelled_questions = 0;
        if client.as_ref().is_some_and(|client| client.mode != PoolMode::Auto) {
            return self.channels_are_known(answered);
        }
        let (unasked, was_due) = (self.due.is_unasked(), !self.due.is_none());
        let due = self.due.take();
        let bodies_asked = std::mem::take(&mut self.bodies_asked);
        self.ready_withheld &= client.is_some();
        let suspects = std::mem::take(&mut self.suspects);
        let found = self.found.take().filter(|found| answered && !found.incomplete);
        let reset = if self.resync { self.was_reset } else { 0 };
        let (asked, kept) = (self.state.dirty(), self.state.kept());
        let (Some(mut found), Some(client)) = (found, client) else {
            self.state.found(asked, Dirty::NONE);
            return Left { kept: asked, channels: None, late: Dirty::NONE, suspects };
        };
        let (before, own_before) = (client.params.clone(), client.start.own);
        let mut there = found.kinds;
        // Its client keeps the server, which nobody gets after it.
        self.unusable |= found.stays;
        if was_due {
            texts.custom.learn(found.names);
        }
        let mut is_doubtful = false;
        if let AskedBodies::Here { changes, .. } = bodies_asked {
            is_doubtful = found.sources.as_deref().is_some_and(|sources| texts.sources_are_news(sources));
            if texts.leaving.learn(found.functions) || is_doubtful {
                texts.texts.judge_again();
            }
            if texts.leaving.most() > Leaving::Askable {
                // The texts before this were judged without them.
                self.state.may_compose();
            }
            texts.custom_is_planned = found.custom_is_planned;
            self.state.plan_by_custom(found.custom_is_planned);
            texts.bodies.read(changes, found.counted.as_deref());
        }
        if asked.contains(Dirty::SETTINGS) {
            let StartValues { asked: at_login, own } = &mut client.start;
            found.settings.extend(table.set_to_usual(found.usual, at_login, reset));
            let of_client = (&mut client.params, &**at_login, own);
            let follow = table.set_found(&mut self.params, of_client, &found.settings, may_be_untracked);
            if asked.contains(Dirty::CUSTOM) || !follow {
                there.insert(Dirty::SETTINGS);
            }
            if there.contains(Dirty::SETTINGS) && asked.contains(Dirty::CUSTOM) {
                there.insert(Dirty::CUSTOM);
            }
        }
        if self.is_kept_for_values(client) {
            there.insert(Dirty::SEQUENCES);
        }
        let follows = client.params != before;
        let is_hidden = !found.expected.contains(there.without(Dirty::SEQUENCES))
            || (follows && !found.expected.contains(Dirty::SETTINGS));
        if is_doubtful && unasked && is_hidden && kept.is_empty() {
            // It may be an earlier client's: the text left nothing when it was asked about. The server is closed.
            (client.params, client.start.own) = (before, own_before);
            self.state.found(Dirty::NONE, Dirty::NONE);
            return Left { kept: Dirty::NONE, channels: None, late: there.union(Dirty::SETTINGS), suspects };
        }
        let listens = client.channels().is_some_and(|channels| channels.are(&found.channels));
        let own = if listens && !kept.contains(Dirty::LISTEN) { there.without(Dirty::LISTEN) } else { there };
        let is_as_before = own == kept && (listens || !kept.is_empty()) && !follows;
        if !is_as_before {
            client.quiet.clear();
        }
        // Until the bodies are read, a text is asked about each time.
        let learns = !matches!(bodies_asked, AskedBodies::Elsewhere);
        for text in due {
            if is_as_before && learns {
                client.quiet.changed_nothing(text);
            }
            // What was there, or said by a text, may have been left by this one, too: it stays due.
            match is_hidden {
                true => texts.texts.leaves(text),
                false if !learns || follows || !there.without(Dirty::SEQUENCES).is_empty() => {}
                false => texts.texts.left_nothing(text),
            }
        }
        if there.is_empty() {
            self.custom.forget();
        }
        // A lock can be released by any function.
        self.state.found(there, there.without(Dirty::LOCKS));
        if self.state.has_composed() && !there.contains(Dirty::SETTINGS) {
            self.state.share(Dirty::SETTINGS);
        }
        let new = if follows { there.union(Dirty::SETTINGS) } else { there };
        let late = if unasked {
            new.without(found.expected.union(Dirty::CUSTOM).union(Dirty::SEQUENCES))
        } else {
            Dirty::NONE
        };
        let channels = asked.contains(Dirty::LISTEN).then_some(found.channels);
        Left { kept: there, channels, late, suspects }
    }

    /// The server was asked for channels only, and its client keeps it for nothing. What is not known of them is lost with
    /// the server.
    fn channels_are_known(&mut self, answered: bool) -> Left {
        let found = self.found.take().filter(|found| answered && !found.incomplete);
        let channels = found.map(|found| found.channels);
        if channels.as_ref().is_some_and(Vec::is_empty) {
            self.state.no_channels();
        }
        // What else is there is removed once the server is released.
        let kept = self.state.dirty().common(Dirty::ALL.without(Dirty::LISTEN.union(Dirty::SETTINGS)));
        Left { kept, channels, late: Dirty::NONE, suspects: Suspects::default() }
    }

    /// The client can't listen through the connection that its pool shares: what it listens on is lost with the server.
    pub fn warn_of_lost_channels(&self, client: &mut Client, scratch: &mut Vec<u8>, out: &mut impl Out) {
        scratch.clear();
        state_messages::warn(Dirty::LISTEN, &mut client.warned, scratch);
        if !scratch.is_empty() {
            out.client(scratch);
        }
    }
}
