//! What a client must be answered: the model of a server of its own, fed with what it sends.
//!
//! Owns the comparison of what arrives with what a direct connection would have brought. The checkers "results reach
//! their owner", "answered as by a direct connection" and "a cancel hits its own query" sit here.

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
    /// They are.
    Compared,
    /// Whatever the server says is taken for right: it was told to go back to what it began with.
    Adopted,
}

/// A server of the client's own, as far as replies go.
pub(crate) struct Shadow {
    client: u32,
    core: Core,
    sent: VecDeque<Front>,
    /// The message that the session was fed last.
    last: Option<Front>,
    /// The message that is being answered, and the session before it, as long as nothing of its answer has come and no
    /// transaction is open: a pooler may have it wait, and cancel it there.
    waiting: Option<(Front, Core)>,
    /// The parameters as the client has been told.
    told: BTreeMap<String, String>,
    /// How parameters are treated at present.
    pub(crate) parameters: Parameters,
    /// Whether its own state may still be there after a transaction, because its server was not needed elsewhere.
    pub(crate) may_keep_its_server: bool,
    /// Whether it may find itself listening because of others.
    pub(crate) tolerates_notifications: bool,
    /// Whether there is less memory for statements than it may want.
    pub(crate) may_be_limited: bool,
}

impl Shadow {
    /// The server that `client` would have, had it started with these parameters.
    pub(crate) fn new(client: u32, parameters: &[(String, String)], reporting: Reporting) -> Shadow {
        let settings = Settings::new(parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        let core = Core::new(settings, reporting);
        Shadow {
            client,
            core,
            sent: VecDeque::new(),
            last: None,
            waiting: None,
            told: BTreeMap::new(),
            parameters: Parameters::Compared,
            may_keep_its_server: false,
            tolerates_notifications: false,
            may_be_limited: false,
        }
    }

    /// The session as it would be.
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    /// A message has been sent.
    pub(crate) fn sent(&mut self, message: Front) {
        self.sent.push_back(message);
    }

    /// A parameter was told before the session began.
    pub(crate) fn told(&mut self, name: String, value: String) {
        self.told.insert(name, value);
    }

    /// What the pooler promises to forget between transactions is forgotten.
    pub(crate) fn forget_leftovers(&mut self) {
        self.core.forget_leftovers();
    }

    /// Whether everything that is to come has come.
    pub(crate) fn is_satisfied(&mut self) -> bool {
        self.advance();
        self.skip_silent();
        self.sent.is_empty() && self.core.out.is_empty() && self.core.sleeping().is_none()
    }

    /// What is awaited next, for a report.
    pub(crate) fn awaited(&mut self) -> String {
        self.advance();
        match (self.core.out.front(), self.core.sleeping()) {
            (Some(reply), _) => format!("{reply:?}"),
            (None, Some(micros)) => format!("the end of a sleep of {micros} µs"),
            (None, None) => "nothing".to_owned(),
        }
    }

    /// The parameters must be what they would be on a server of one's own.
    pub(crate) fn compare_parameters(&mut self) -> Option<Violation> {
        if self.parameters == Parameters::Adopted {
            for name in TRACKED {
                let told = self.told.get(name).cloned().unwrap_or_default();
                let _ = self.core.settings.set(name, &told, false);
            }
            self.core.settings.changes();
            self.core.settings.commit();
            return None;
        }
        let (client, told) = (self.client, &self.told);
        let wrong = self
            .core
            .settings
            .reported()
            .find(|(name, value)| told.get(*name).is_none_or(|t| !same_value(name, t, value)))?;
        let got = told.get(wrong.0);
        let what = format!("c{client} was told {} = {got:?}, and it is {:?}", wrong.0, wrong.1);
        Some(Violation { checker: Checker::AnsweredAsDirect, what })
    }

    /// A message arrived. `cancelling`: the client has sent a cancel that may still take effect.
    pub(crate) fn take(&mut self, message: &Back, cancelling: bool) -> Option<Violation> {
        if let Some(owner) = foreign(message, self.client) {
            let what = format!("c{} got what belongs to c{owner}: {message:?}", self.client);
            return Some(Violation { checker: Checker::ResultsReachTheirOwner, what });
        }
        match message {
            Back::Problem { error: false, .. } => return None,
            Back::Notification(channel, _) => return self.notified(channel),
            Back::Parameter(name, value) => {
                self.told.insert(name.clone(), value.clone());
                self.advance();
                // Taken at once: it may be followed by another one for the same setting.
                if matches!(self.core.out.front(), Some(Reply::Parameter(n, v)) if n == name && v == value) {
                    self.core.out.pop_front();
                }
                return None;
            }
            _ => {}
        }
        self.advance();
        if cancelling && is_of_the_pooler(message) {
            self.cancel_the_wait();
        }
        if self.core.sleeping().is_some() && self.nothing_before_the_sleep() {
            let cancelled = is_cancelled(message);
            if cancelled && !cancelling {
                let what = format!("c{}'s query was cancelled, and c{0} did not ask for it", self.client);
                return Some(Violation { checker: Checker::CancelHitsItsOwn, what });
            }
            self.core.wake(cancelled);
            self.advance();
        }
        if let Some(violation) = self.skip_parameters(message) {
            return Some(violation);
        }
        self.compare(message)
    }

    fn compare(&mut self, message: &Back) -> Option<Violation> {
        if let (Some(Reply::State(expected)), Back::Row(state), true) =
            (self.core.out.front_mut(), message, self.may_keep_its_server)
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
                None
            }
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

    /// In a failed transaction a pooler can't prepare on this server what the client has prepared on another: the
    /// server refuses that, whatever the client's own request would have come to.
    fn is_refused_to_prepare(&self, message: &Back) -> bool {
        // 26000: the unnamed statement was dropped for one that was refused.
        let codes = ["25P02", "26000"];
        let refused = matches!(message, Back::Problem { error: true, code, .. } if codes.contains(&code.as_str()));
        let ready = matches!(self.core.out.front(), Some(Reply::Ready(_)) | None);
        refused && !ready && self.core.transaction() == Transaction::Failed
    }

    /// A limit on statements fails a Parse, and whatever must prepare a statement anew. An unnamed one for which there is no
    /// room is only where it was parsed.
    fn is_limited(&self, message: &Back) -> bool {
        let Back::Problem { error: true, code, .. } = message else { return false };
        match (&*code.clone(), &self.last) {
            ("54000", Some(Front::Parse { name, .. } | Front::Describe(Of::Statement, name))) => !name.is_empty(),
            ("54000", Some(Front::Bind { statement, .. })) => !statement.is_empty(),
            ("26000", Some(Front::Describe(Of::Statement, name))) => name.is_empty(),
            ("26000", Some(Front::Bind { statement, .. })) => statement.is_empty(),
            _ => false,
        }
    }

    fn notified(&self, channel: &str) -> Option<Violation> {
        if self.tolerates_notifications || self.core.listens_on(channel) {
            return None;
        }
        let what = format!("c{} was notified on {channel}, where it does not listen", self.client);
        Some(Violation { checker: Checker::ResultsReachTheirOwner, what })
    }

    fn nothing_before_the_sleep(&mut self) -> bool {
        self.skip_silent();
        self.core.out.is_empty()
    }

    /// Runs the messages that a server would have run by now.
    fn advance(&mut self) {
        self.drop_empty();
        while self.core.out.is_empty() && self.core.sleeping().is_none() {
            let Some(message) = self.sent.pop_front() else { return };
            let before = (self.core.transaction() == Transaction::Idle).then(|| self.core.clone());
            self.core.feed(&message);
            self.waiting = before.map(|before| (message.clone(), before));
            self.last = Some(message);
            self.drop_empty();
        }
    }

    /// The request whose answer is awaited was cancelled before it reached a server.
    fn cancel_the_wait(&mut self) {
        if let Some((message, before)) = self.waiting.take() {
            self.core = before;
            self.core.cancel_unseen(&message);
        }
    }

    /// Drops what sends nothing, or nothing that a client must see.
    fn drop_empty(&mut self) {
        while self.core.out.front().is_some_and(|r| r.is_empty() || matches!(r, Reply::Warning(_))) {
            self.core.out.pop_front();
        }
    }

    /// Parameters that the client has been told already are not awaited.
    fn skip_silent(&mut self) {
        while let Some(Reply::Parameter(name, value)) = self.core.out.front() {
            if self.parameters == Parameters::Compared && self.told.get(name) != Some(value) {
                return;
            }
            self.core.out.pop_front();
            self.advance();
        }
    }

    fn skip_parameters(&mut self, message: &Back) -> Option<Violation> {
        self.skip_silent();
        let Some(Reply::Parameter(name, value)) = self.core.out.front() else { return None };
        let what = format!("c{} got {message:?} before it was told that {name} = {value:?}", self.client);
        Some(Violation { checker: Checker::AnsweredAsDirect, what })
    }

    /// The state of the transaction, once all has come.
    pub(crate) fn transaction(&self) -> Transaction {
        self.core.transaction()
    }
}

/// Whether a cancel was carried out by the pooler, in words that modelled servers do not use.
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

/// The other client that a message belongs to, by a token in it.
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

    fn shadow(queries: &[&str]) -> Shadow {
        shadow_of(Reporting::AtOnce, queries)
    }

    fn shadow_of(reporting: Reporting, queries: &[&str]) -> Shadow {
        let mut shadow = Shadow::new(1, &[], reporting);
        for (name, value) in crate::postgres::settings::REPORTED {
            shadow.told(name.to_owned(), value.to_owned());
        }
        queries.iter().for_each(|text| shadow.sent(Front::Query((*text).to_owned())));
        shadow
    }

    fn error(code: &str) -> Back {
        Back::Problem { error: true, severity: "ERROR".into(), code: code.into(), message: "c1.0".into() }
    }

    fn checker(shadow: &mut Shadow, message: &Back) -> Option<Checker> {
        shadow.take(message, false).map(|v| v.checker)
    }

    #[test]
    fn the_replies_of_a_direct_connection_satisfy() {
        let mut shadow = shadow(&["ECHO c1.2"]);
        let replies = [
            Back::RowDescription(vec!["echo".into()]),
            Back::Row("c1.2".into()),
            Back::Complete("SELECT 1".into()),
            Back::Ready(b'I'),
        ];
        for reply in &replies {
            assert!(!shadow.is_satisfied());
            assert_eq!(shadow.take(reply, false), None);
        }
        assert!(shadow.is_satisfied());
        assert_eq!(shadow.compare_parameters(), None);
    }

    #[test]
    fn a_row_of_another_client_is_caught() {
        let mut shadow = shadow(&["ECHO c1.2"]);
        assert_eq!(checker(&mut shadow, &Back::RowDescription(vec!["echo".into()])), None);
        assert_eq!(checker(&mut shadow, &Back::Row("c2.2".into())), Some(Checker::ResultsReachTheirOwner));
    }

    #[test]
    fn a_missing_a_doubled_and_a_left_over_reply_are_caught() {
        let complete = Back::Complete("SELECT 1".into());
        assert_eq!(checker(&mut shadow(&["ECHO c1.2"]), &complete), Some(Checker::AnsweredAsDirect));
        assert_eq!(checker(&mut shadow(&[]), &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
        let mut empty = shadow(&[""]);
        assert_eq!(checker(&mut empty, &Back::Bare(back::EMPTY_QUERY)), None);
        assert_eq!(checker(&mut empty, &Back::Bare(back::EMPTY_QUERY)), Some(Checker::AnsweredAsDirect));
    }

    #[test]
    fn a_wrong_transaction_status_is_caught() {
        let mut shadow = shadow(&["BEGIN"]);
        assert_eq!(checker(&mut shadow, &Back::Complete("BEGIN".into())), None);
        assert_eq!(checker(&mut shadow, &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
    }

    #[test]
    fn a_cancel_that_nobody_asked_for_is_caught() {
        let mut asleep = shadow(&["SLEEP 5 c1.2"]);
        assert_eq!(checker(&mut asleep, &Back::RowDescription(vec!["sleep".into()])), None);
        assert_eq!(checker(&mut asleep, &error("57014")), Some(Checker::CancelHitsItsOwn));
        let mut asked = shadow(&["SLEEP 5 c1.2"]);
        assert_eq!(checker(&mut asked, &Back::RowDescription(vec!["sleep".into()])), None);
        assert_eq!(asked.take(&error("57014"), true), None);
        assert_eq!(checker(&mut asked, &Back::Ready(b'I')), None);
    }

    #[test]
    fn a_request_that_was_cancelled_while_it_waited_has_not_happened() {
        let cancelled = Back::Problem {
            error: true,
            severity: "ERROR".into(),
            code: "57014".into(),
            message: "canceling statement due to user request".into(),
        };
        let mut waits = shadow(&["PREPARE c1_p AS ECHO c1.2", "EXECUTE c1_p"]);
        assert_eq!(waits.take(&cancelled, true), None);
        assert_eq!(checker(&mut waits, &Back::Ready(b'I')), None);
        assert_eq!(checker(&mut waits, &error("26000")), None, "nothing was prepared");
        let mut runs = shadow(&["ECHO c1.2"]);
        assert_eq!(checker(&mut runs, &Back::RowDescription(vec!["echo".into()])), None);
        assert!(runs.take(&cancelled, true).is_some(), "what runs and does not sleep is not cancelled");
    }

    #[test]
    fn a_parameter_that_is_not_reported_is_caught() {
        let mut silent = shadow(&["SET TimeZone = x"]);
        assert_eq!(checker(&mut silent, &Back::Complete("SET".into())), Some(Checker::AnsweredAsDirect));
        let mut silent = shadow_of(Reporting::BeforeReady, &["SET TimeZone = x"]);
        assert_eq!(checker(&mut silent, &Back::Complete("SET".into())), None);
        assert_eq!(checker(&mut silent, &Back::Ready(b'I')), Some(Checker::AnsweredAsDirect));
        let mut wrong = shadow(&[]);
        assert_eq!(checker(&mut wrong, &Back::Parameter("TimeZone".into(), "y".into())), None);
        assert_eq!(wrong.compare_parameters().unwrap().checker, Checker::AnsweredAsDirect);
    }

    #[test]
    fn a_notification_for_somebody_else_is_caught() {
        let notification = Back::Notification("news".into(), "x".into());
        assert_eq!(checker(&mut shadow(&[]), &notification), Some(Checker::ResultsReachTheirOwner));
    }
}
