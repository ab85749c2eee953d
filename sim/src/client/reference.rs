//! The reference session of a client: a modelled server that gets the client's messages and computes the expected
//! replies.
//!
//! Owns the comparison of received messages with those of a direct connection. The checkers "results reach their
//! owner", "answered as by a direct connection" and "a cancel hits its own query" are here.

use std::collections::{BTreeMap, VecDeque};

use weir_pgwire::Of;

use crate::check::{Checker, Violation};
use crate::message::{Back, Front};
use crate::postgres::core::{Core, Reporting, Transaction};
use crate::postgres::language;
use crate::postgres::settings::{Settings, TRACKED, same_value};
use crate::reply::Reply;

/// Whether parameters are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Parameters {
    /// Parameters are compared.
    Compared,
    /// The server's values are taken over, because a statement reset them to the server's own.
    Adopted,
}

/// A text about the session's statements that is not longer needs no room, and only such a text is refused.
const HELD_ANYWAY: usize = 8_192;

/// The reference session of one client.
pub(crate) struct Reference {
    client: u32,
    core: Core,
    sent: VecDeque<Front>,
    /// The last message fed to the session.
    last: Option<Front>,
    /// The message whose replies are awaited, and the session before it, as long as no reply has come and no
    /// transaction is open: the pooler may let the message wait, and cancel it there.
    waiting: Option<(Front, Core)>,
    /// The last query that asked for what the session has drawn of a sequence, and the session before it.
    asked: Option<(Front, Core)>,
    /// The parameters as reported to the client.
    reported: BTreeMap<String, String>,
    /// Whether parameters are compared at present.
    pub(crate) parameters: Parameters,
    /// Whether the client's own state may remain after a transaction, because it may get the same server again.
    pub(crate) may_keep_its_server: bool,
    /// What the client leaves on its servers stays with it.
    pub(crate) keeps_state: bool,
    /// Whether the session receives what it listens for.
    pub(crate) hears: bool,
    /// Whether other clients may have left LISTENs on its server.
    pub(crate) tolerates_notifications: bool,
    /// Whether a limit on statements may fail its requests.
    pub(crate) may_be_limited: bool,
    /// The notifications since all was answered.
    received: Vec<(String, String)>,
    /// The pooler has said that notifications may be missing.
    gap: bool,
}

impl Reference {
    /// The reference session of `client`, started with these parameters.
    pub(crate) fn new(client: u32, parameters: &[(String, String)], reporting: Reporting) -> Reference {
        let settings = Settings::new(parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let core = Core::new(settings, reporting);
        Reference {
            client,
            core,
            sent: VecDeque::new(),
            last: None,
            waiting: None,
            asked: None,
            reported: BTreeMap::new(),
            parameters: Parameters::Compared,
            may_keep_its_server: false,
            keeps_state: false,
            hears: false,
            tolerates_notifications: false,
            may_be_limited: false,
            received: Vec::new(),
            gap: false,
        }
    }

    /// The session itself.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// A message has been sent.
    pub(crate) fn sent(&mut self, message: Front) {
        self.sent.push_back(message);
    }

    /// A parameter was reported during the login.
    pub(crate) fn parameter_reported(&mut self, name: String, value: String) {
        self.reported.insert(name, value);
    }

    /// Drops the state that the pooler guarantees to drop between transactions.
    pub(crate) fn forget_leftovers(&mut self) {
        self.core.forget_leftovers();
    }

    /// Whether all expected replies have arrived.
    pub(crate) fn has_all_replies(&mut self) -> bool {
        self.advance();
        self.skip_silent();
        self.sent.is_empty() && self.core.out.is_empty() && self.core.sleeping().is_none()
    }

    /// What the sleep in the request returns whose replies are awaited, and the sleeps that follow as simple queries,
    /// in order; empty if that request does not sleep.
    pub(crate) fn next_sleeps(&mut self) -> Vec<String> {
        self.advance();
        let mut core = self.core.clone();
        let mut sent = self.sent.iter();
        let mut over = core.out.iter().any(|reply| matches!(reply, Reply::Ready(_)));
        while core.sleeping().is_none() {
            let Some(message) = sent.next().filter(|_| !over) else { return Vec::new() };
            core.feed(message);
            over = matches!(message, Front::Query(_) | Front::FunctionCall(_) | Front::Sync);
        }
        let first = core.sleeps_for().map(str::to_owned);
        let sleep = |message: &Front| match message {
            Front::Query(text) => language::only_sleep(text),
            _ => None,
        };
        first.into_iter().chain(sent.map_while(sleep)).collect()
    }

    /// The next expected reply, for a report.
    pub(crate) fn awaited(&mut self) -> String {
        self.advance();
        match (self.core.out.front(), self.core.sleeping()) {
            (Some(reply), _) => format!("{reply:?}"),
            (None, Some(micros)) => format!("the end of a sleep of {micros} µs"),
            (None, None) => "nothing".to_owned(),
        }
    }

    /// Whether the session has listened.
    pub(crate) fn has_listened(&self) -> bool {
        self.core.has_listened
    }

    /// Compares the reported parameters with those of the reference session.
    pub(crate) fn compare_parameters(&mut self) -> Option<Violation> {
        if self.parameters == Parameters::Adopted {
            for name in TRACKED {
                let reported = self.reported.get(name).cloned().unwrap_or_default();
                let _ = self.core.settings.set(name, &reported, false);
            }
            self.core.settings.changes();
            self.core.settings.commit();
            return None;
        }
        let (client, reported) = (self.client, &self.reported);
        let wrong = self
            .core
            .settings
            .reported()
            .find(|(name, value)| reported.get(*name).is_none_or(|t| !same_value(name, t, value)))?;
        let got = reported.get(wrong.0);
        let what = format!("c{client} got {} = {got:?} reported, expected {:?}", wrong.0, wrong.1);
        Some(Violation { checker: Checker::AnsweredAsDirect, what })
    }

    /// A message arrived. `cancelling`: the client has sent a cancel that may still take effect.
    pub(crate) fn take(&mut self, message: &Back, cancelling: bool) -> Option<Violation> {
        if let Some(owner) = foreign(message, self.client) {
            let what = format!("c{} got what belongs to c{owner}: {message:?}", self.client);
            return Some(Violation { checker: Checker::ResultsReachTheirOwner, what });
        }
        match message {
            Back::Problem { error: false, message, .. } => {
                self.gap |= message.contains("notifications may be missing");
                self.hears &= !message.contains("LISTEN is lost");
                return None;
            }
            Back::Notification(channel, payload) => {
                self.received.push((channel.clone(), payload.clone()));
                return self.notified(channel);
            }
            Back::Parameter(name, value) => {
                self.reported.insert(name.clone(), value.clone());
                self.advance();
                // Removed at once: another value of the same setting may follow.
                if matches!(self.core.out.front(), Some(Reply::Parameter(n, v)) if n == name && v == value) {
                    self.core.out.pop_front();
                }
                return None;
            }
            _ => {}
        }
        self.advance();
        if cancelling && is_of_the_pooler(message) {
            self.undo_cancelled_request();
        }
        if self.core.sleeping().is_some() && self.nothing_before_the_sleep() {
            let cancelled = is_cancelled(message);
            if cancelled && !cancelling {
                let what = format!("c{}'s query was cancelled, which c{0} had not requested", self.client);
                return Some(Violation { checker: Checker::CancelHitsItsOwn, what });
            }
            self.core.wake(cancelled);
            self.advance();
        }
        if let Some(violation) = self.skip_parameters(message) {
            return Some(violation);
        }
        self.compare(message, cancelling)
    }

    fn compare(&mut self, message: &Back, cancelling: bool) -> Option<Violation> {
        if let (Some(Reply::State(expected)), Back::Row(state), true) =
            (self.core.out.front_mut(), message, self.may_keep_its_server && !self.keeps_state)
            && is_own(state, self.client)
        {
            expected.clone_from(state);
        }
        let awaited = self.core.out.front_mut();
        match awaited.and_then(|reply| reply.accept(message)) {
            Some(last) => {
                if last {
                    self.core.out.pop_front();
                }
                self.waiting = None;
                self.advance();
                if message == &Back::Ready(b'I') && self.has_all_replies() {
                    self.missing_notification(cancelling)
                } else {
                    None
                }
            }
            None if self.keeps_state && self.has_lost_values(message) => None,
            None if self.may_keep_its_server && self.is_refused_to_prepare(message) => {
                self.core.fail_instead();
                None
            }
            None if self.may_be_limited && self.is_limited(message) => {
                let parsed = match &self.last {
                    Some(Front::Parse { name, .. }) => Some(name.clone()),
                    _ => None,
                };
                self.core.refuse_instead(parsed.as_deref());
                None
            }
            None => {
                let (client, awaited) = (self.client, self.awaited());
                let what = format!("c{client} got {message:?} instead of {awaited}");
                Some(Violation { checker: Checker::AnsweredAsDirect, what })
            }
        }
    }

    /// What an earlier transaction has drawn of a sequence may be lost: the query fails then, with an error that a session
    /// without values gets.
    fn has_lost_values(&mut self, message: &Back) -> bool {
        let undefined = matches!(message, Back::Problem { error: true, code, .. } if code == "55000");
        let Some((query, before)) = self.asked.take().filter(|_| undefined) else { return false };
        let now = std::mem::replace(&mut self.core, before);
        if !self.core.lose_drawn() {
            self.core = now;
            return false;
        }
        self.core.feed(&query);
        self.drop_empty();
        if matches!(self.core.out.front(), Some(Reply::RowDescription(_))) {
            self.core.out.pop_front();
        }
        let accepted = self.core.out.front_mut().is_some_and(|reply| reply.accept(message) == Some(true));
        if accepted {
            self.core.out.pop_front();
            self.waiting = None;
        }
        accepted
    }

    /// In a failed transaction a pooler can't prepare a client's statement on another server: the server refuses it,
    /// whatever result the client's own request would have had.
    fn is_refused_to_prepare(&self, message: &Back) -> bool {
        // 26000: the unnamed statement was dropped for one that was refused.
        let codes = ["25P02", "26000"];
        let refused = matches!(message, Back::Problem { error: true, code, .. } if codes.contains(&code.as_str()));
        let ready = matches!(self.core.out.front(), Some(Reply::Ready(_)) | None);
        refused && !ready && self.core.transaction() == Transaction::Failed
    }

    /// A limit on statements fails a Parse, and no request about a statement that the client has. An unnamed statement
    /// for which there is no memory exists only on the server where it was parsed.
    fn is_limited(&self, message: &Back) -> bool {
        let Back::Problem { error: true, code, .. } = message else { return false };
        match (&*code.clone(), &self.last) {
            ("54000", Some(Front::Parse { name, text })) => !name.is_empty() || text.len() > HELD_ANYWAY,
            ("26000", Some(Front::Describe(Of::Statement, name))) => name.is_empty(),
            ("26000", Some(Front::Bind { statement, .. })) => statement.is_empty(),
            _ => false,
        }
    }

    /// All is answered: a session has received its own notifications by now, in their order. While a cancel is under way
    /// to its server, they come later.
    fn missing_notification(&mut self, cancelling: bool) -> Option<Violation> {
        let (expected, received) = (self.core.take_heard(), std::mem::take(&mut self.received));
        if self.gap || !self.hears || cancelling {
            // The gap lasts until another server listens.
            self.gap &= received.is_empty();
            return None;
        }
        let mut received = received.into_iter();
        let missing = expected.into_iter().find(|expected| !received.any(|it| it == *expected))?;
        let what = format!("c{} was not notified of its own {missing:?} before its ReadyForQuery", self.client);
        Some(Violation { checker: Checker::AnsweredAsDirect, what })
    }

    fn notified(&self, channel: &str) -> Option<Violation> {
        if self.tolerates_notifications || self.core.listens_on(channel) {
            return None;
        }
        let what = format!("c{} was notified on {channel}, on which it does not listen", self.client);
        Some(Violation { checker: Checker::ResultsReachTheirOwner, what })
    }

    fn nothing_before_the_sleep(&mut self) -> bool {
        self.skip_silent();
        self.core.out.is_empty()
    }

    /// Runs messages until a reply is due or the session sleeps.
    fn advance(&mut self) {
        self.drop_empty();
        while self.core.out.is_empty() && self.core.sleeping().is_none() {
            let Some(message) = self.sent.pop_front() else { return };
            let before = (self.core.transaction() == Transaction::Idle).then(|| self.core.clone());
            let asks = matches!(&message, Front::Query(text) if text.starts_with("SELECT lastval()"));
            self.asked = asks.then(|| (message.clone(), self.core.clone()));
            self.core.feed(&message);
            self.waiting = before.map(|before| (message.clone(), before));
            self.last = Some(message);
            self.drop_empty();
        }
    }

    /// The request whose reply is awaited was cancelled before it reached a server.
    fn undo_cancelled_request(&mut self) {
        if let Some((message, before)) = self.waiting.take() {
            self.core = before;
            self.core.cancel_unseen(&message);
        }
    }

    /// Drops replies without messages, and warnings, which a client need not see.
    fn drop_empty(&mut self) {
        while self.core.out.front().is_some_and(|r| r.is_empty() || matches!(r, Reply::Warning(_))) {
            self.core.out.pop_front();
        }
    }

    /// Drops expected reports of values that the client already has.
    fn skip_silent(&mut self) {
        while let Some(Reply::Parameter(name, value)) = self.core.out.front() {
            if self.parameters == Parameters::Compared && self.reported.get(name) != Some(value) {
                return;
            }
            self.core.out.pop_front();
            self.advance();
        }
    }

    fn skip_parameters(&mut self, message: &Back) -> Option<Violation> {
        self.skip_silent();
        let Some(Reply::Parameter(name, value)) = self.core.out.front() else { return None };
        let what = format!("c{} got {message:?} before the report of {name} = {value:?}", self.client);
        Some(Violation { checker: Checker::AnsweredAsDirect, what })
    }

    /// The state of the transaction, once all replies have arrived.
    pub(crate) fn transaction(&self) -> Transaction {
        self.core.transaction()
    }
}

/// Whether the pooler itself cancelled the request: modelled servers use another error text.
fn is_of_the_pooler(message: &Back) -> bool {
    let said = |text: &str| text == "canceling statement due to user request";
    is_cancelled(message) && matches!(message, Back::Problem { message, .. } if said(message))
}

fn is_cancelled(message: &Back) -> bool {
    matches!(message, Back::Problem { code, .. } if code == "57014")
}

/// Whether every item of a session's state, as WHOAMI shows it, was made by `client`.
fn is_own(state: &str, client: u32) -> bool {
    let mut words = state.split(' ').filter(|word| !matches!(*word, "" | "listens" | "prepared" | "table" | "lock"));
    words.all(|word| match word.split_once('=') {
        Some((_, value)) => value.parse::<u32>().is_ok_and(|value| value / 1000 == client),
        None => word.strip_prefix('c').and_then(|w| w.split_once('_')).is_some_and(|(n, _)| n.parse() == Ok(client)),
    })
}

/// The other client whose token a message contains.
pub(super) fn foreign(message: &Back, client: u32) -> Option<u32> {
    let text = match message {
        Back::Row(text) | Back::CopyData(text) | Back::FunctionResult(text) => text,
        Back::Problem { message, .. } => message,
        _ => return None,
    };
    language::owner(text).filter(|owner| *owner != client)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_pgwire::tag::back;

    fn reference(queries: &[&str]) -> Reference {
        reference_of(Reporting::AtOnce, queries)
    }

    fn reference_of(reporting: Reporting, queries: &[&str]) -> Reference {
        let mut reference = Reference::new(1, &[], reporting);
        for (name, value) in crate::postgres::settings::REPORTED {
            reference.parameter_reported(name.to_owned(), value.to_owned());
        }
        queries.iter().for_each(|text| reference.sent(Front::Query((*text).to_owned())));
        reference
    }

    fn error(code: &str) -> Back {
        Back::Problem { error: true, severity: "ERROR".into(), code: code.into(), message: "c1.0".into() }
    }

    fn checker(reference: &mut Reference, message: &Back) -> Option<Checker> {
        reference.take(message, false).map(|v| v.checker)
    }

    #[test]
    fn the_replies_of_a_direct_connection_are_accepted() {
        let mut reference = reference(&["ECHO c1.2"]);
        let replies = [
            Back::RowDescription(vec!["echo".into()]),
            Back::Row("c1.2".into()),
            Back::Complete("SELECT 1".into()),
            Back::Ready(b'I'),
        ];
        for reply in &replies {
            assert!(!reference.has_all_replies());
            assert_eq!(reference.take(reply, false), None);
        }
        assert!(reference.has_all_replies());
        assert_eq!(reference.compare_parameters(), None);
    }

    #[test]
    fn a_row_of_another_client_is_caught() {
        let mut reference = reference(&["ECHO c1.2"]);
        assert_eq!(checker(&mut reference, &Back::RowDescription(vec!["echo".into()])), None);
        assert_eq!(checker(&mut reference, &Back::Row("c2.2".into())), Some(Checker::ResultsReachTheirOwner));
    }

    #[test]
    fn a_missing_a_duplicate_and_an_unexpected_reply_are_caught() {
        let complete = Back::Complete("SELECT 1".into());
        assert_eq!(checker(&mut reference(&["ECHO c1.2"]), &complete), Some(Checker::AnsweredAsDirect));
        assert_eq!(checker(&mut reference(&[]), &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
        let mut empty = reference(&[""]);
        assert_eq!(checker(&mut empty, &Back::Bare(back::EMPTY_QUERY)), None);
        assert_eq!(checker(&mut empty, &Back::Bare(back::EMPTY_QUERY)), Some(Checker::AnsweredAsDirect));
    }

    #[test]
    fn a_wrong_transaction_status_is_caught() {
        let mut reference = reference(&["BEGIN"]);
        assert_eq!(checker(&mut reference, &Back::Complete("BEGIN".into())), None);
        assert_eq!(checker(&mut reference, &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
    }

    #[test]
    fn a_cancel_that_the_client_did_not_request_is_caught() {
        let mut asleep = reference(&["SLEEP 5 c1.2"]);
        assert_eq!(checker(&mut asleep, &Back::RowDescription(vec!["sleep".into()])), None);
        assert_eq!(checker(&mut asleep, &error("57014")), Some(Checker::CancelHitsItsOwn));
        let mut asked = reference(&["SLEEP 5 c1.2"]);
        assert_eq!(checker(&mut asked, &Back::RowDescription(vec!["sleep".into()])), None);
        assert_eq!(asked.take(&error("57014"), true), None);
        assert_eq!(checker(&mut asked, &Back::Ready(b'I')), None);
    }

    #[test]
    fn a_request_that_was_cancelled_while_it_waited_has_no_effect() {
        let cancelled = Back::Problem {
            error: true,
            severity: "ERROR".into(),
            code: "57014".into(),
            message: "canceling statement due to user request".into(),
        };
        let mut waits = reference(&["PREPARE c1_p AS ECHO c1.2", "EXECUTE c1_p"]);
        assert_eq!(waits.take(&cancelled, true), None);
        assert_eq!(checker(&mut waits, &Back::Ready(b'I')), None);
        assert_eq!(checker(&mut waits, &error("26000")), None, "nothing was prepared");
        let mut runs = reference(&["ECHO c1.2"]);
        assert_eq!(checker(&mut runs, &Back::RowDescription(vec!["echo".into()])), None);
        assert!(runs.take(&cancelled, true).is_some(), "a running statement that does not sleep is not cancelled");
    }

    #[test]
    fn a_parameter_that_is_not_reported_is_caught() {
        let mut silent = reference(&["SET TimeZone = x"]);
        assert_eq!(checker(&mut silent, &Back::Complete("SET".into())), Some(Checker::AnsweredAsDirect));
        let mut silent = reference_of(Reporting::BeforeReady, &["SET TimeZone = x"]);
        assert_eq!(checker(&mut silent, &Back::Complete("SET".into())), None);
        assert_eq!(checker(&mut silent, &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
        let mut wrong = reference(&[]);
        assert_eq!(checker(&mut wrong, &Back::Parameter("TimeZone".into(), "y".into())), None);
        assert_eq!(wrong.compare_parameters().unwrap().checker, Checker::AnsweredAsDirect);
    }

    #[test]
    fn a_notification_for_another_client_is_caught() {
        let notification = Back::Notification("news".into(), "x".into());
        assert_eq!(checker(&mut reference(&[]), &notification), Some(Checker::ResultsReachTheirOwner));
    }
}
