//! The exchange in which a client proves who it is: its messages, and the helpers that hash and check passwords.

use std::sync::Arc;

use weir_auth::ScramPolicy;
use weir_base::{ClientAddr, ConnId, Origin};
use weir_config::Config;
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head};
use weir_session::Refusal;
use weir_session::login::{LoginStep, MAX_PASSWORD};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::checks::{self, PasswordChecks};
use crate::client_login::hashing::{PasswordHashing, Requested};
use crate::client_login::state::{Awaits, Hashing, LoginPhase};
use crate::client_login::step::EntryStep;
use crate::common::{Cx, FollowUp};
use crate::port::{Io, PasswordCheck};
use crate::server::connection::SaltedKey;

/// The exchanges of a worker's logins: what they share.
pub(crate) struct Exchanges {
    /// The key for mock salts, and the number of SCRAM iterations.
    pub(super) policy: ScramPolicy,
    hashing: PasswordHashing,
    checks: PasswordChecks,
}

impl Exchanges {
    /// `key` is the same in all workers of the process.
    pub(super) fn new(key: [u8; 32], config: &Config) -> Exchanges {
        let policy = ScramPolicy { key, iterations: config.auth.scram_iterations };
        Exchanges { policy, hashing: PasswordHashing::default(), checks: PasswordChecks::default() }
    }

    /// Applies a configuration.
    pub(super) fn apply_config(&mut self, config: &Config) {
        self.policy.iterations = config.auth.scram_iterations;
        self.hashing.forget_all();
    }

    /// Handles a password message, if it is complete.
    pub(crate) fn password<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
        let head = match Head::parse(&client.waiting) {
            Ok(None) => return EntryStep::Read,
            Ok(Some(head)) if head.tag == front::TERMINATE => return EntryStep::Leave,
            Ok(Some(head)) if head.tag == front::PASSWORD && head.total() <= MAX_PASSWORD => head,
            _ => return EntryStep::Refuse(Refusal::Protocol("a password was expected".into())),
        };
        if client.waiting.len() < head.total() {
            return EntryStep::Read;
        }
        let (ClientPhase::Login(phase), waiting) = client.phase_and_waiting() else { return EntryStep::Read };
        if matches!(phase.awaits, Awaits::Hash | Awaits::Check) {
            return EntryStep::Wait;
        }
        let Some(login) = &mut phase.login else { return EntryStep::Read };
        let mut buffer = Vec::new();
        let next = login.message(&waiting[HEAD..head.total()], &self.policy, &mut buffer);
        waiting.drain(..head.total());
        if !buffer.is_empty() {
            cx.io.send(client.conn, &buffer);
        }
        self.advance(cx, client, next)
    }

    /// Continues with the session's next step.
    pub(super) fn advance<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, next: LoginStep) -> EntryStep {
        match next {
            LoginStep::Wait => {
                if !client.waiting.is_empty() {
                    // The client's next message may be buffered already.
                    cx.common.follow_up(FollowUp::Feed(client.conn));
                }
                EntryStep::Read
            }
            LoginStep::Refused(refusal) => EntryStep::Failed(refusal),
            LoginStep::HashPassword { password, salt, iterations, stored } => {
                self.hash(cx, client, (password, salt, iterations), stored)
            }
            LoginStep::CheckPassword(password) => self.check(cx, client, password),
            LoginStep::Accepted(captured) => {
                let ClientPhase::Login(mut phase) = client.take_phase() else { return EntryStep::Read };
                if let Some(Hashing { key, stored: false, salted: Some(salted) }) = phase.hashing.take() {
                    // The client's hashed password was right.
                    self.hashing.keep(key, salted, cx.common.config().auth.users.len());
                }
                phase.captured = captured;
                phase.login = None;
                EntryStep::Proven(phase)
            }
        }
    }

    fn hash<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, key: SaltedKey, stored: bool) -> EntryStep {
        match self.hashing.request(cx, (client.conn, Origin::of(&client.addr)), &key) {
            Requested::Known(salted) => self.use_hash(cx, client, &salted),
            Requested::Full => EntryStep::Refuse(Refusal::TooManyLogins),
            Requested::Queued => {
                if let ClientPhase::Login(phase) = client.phase_mut() {
                    phase.hashing = Some(Hashing { key, stored, salted: None });
                    phase.awaits = Awaits::Hash;
                }
                EntryStep::Wait
            }
        }
    }

    /// A helper has hashed the password of a client's login; the client may have disconnected.
    pub(crate) fn hash_done<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.hashing.done(cx);
    }

    /// A client's password has been hashed: its login continues.
    pub(crate) fn hashed<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        salted: &[u8; 32],
    ) -> EntryStep {
        if let ClientPhase::Login(phase) = client.phase_mut() {
            phase.awaits = Awaits::Client;
            if let Some(hashing) = &mut phase.hashing {
                hashing.salted = Some(*salted);
                if hashing.stored {
                    self.hashing.keep(hashing.key.clone(), *salted, cx.common.config().auth.users.len());
                }
            }
        }
        self.use_hash(cx, client, salted)
    }

    fn use_hash<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, salted: &[u8; 32]) -> EntryStep {
        let ClientPhase::Login(phase) = client.phase_mut() else { return EntryStep::Read };
        let next = phase.login.as_mut().map_or(LoginStep::Wait, |login| login.salted(salted));
        self.advance(cx, client, next)
    }

    /// An external service must check a password.
    fn check<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, password: Arc<str>) -> EntryStep {
        let ClientPhase::Login(phase) = &client.phase else { return EntryStep::Read };
        let Some(by) = phase.authority.clone() else { return EntryStep::Refuse(Refusal::BadConfig) };
        let from = match client.addr {
            ClientAddr::Tcp(from) => from.ip().to_string(),
            ClientAddr::Unix { .. } => "unix".to_owned(),
        };
        let limit = checks::limit(cx.common.config());
        let check = PasswordCheck { by, user: client.user.clone(), password, from, limit };
        if !self.checks.request(cx, (client.conn, Origin::of(&client.addr)), check) {
            return EntryStep::Refuse(Refusal::TooManyLogins);
        }
        if let ClientPhase::Login(phase) = client.phase_mut() {
            phase.awaits = Awaits::Check;
        }
        EntryStep::Wait
    }

    /// A helper has finished a check; the client may have disconnected.
    pub(crate) fn check_done<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: ConnId) {
        self.checks.done(cx, client);
    }

    /// A client's password has been checked: its login continues.
    pub(crate) fn checked<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, good: bool) -> EntryStep {
        let ClientPhase::Login(phase) = client.phase_mut() else { return EntryStep::Read };
        phase.awaits = Awaits::Client;
        let next = phase.login.as_mut().map_or(LoginStep::Wait, |login| login.checked(good));
        self.advance(cx, client, next)
    }

    /// A client that had not logged in is gone.
    pub(crate) fn leave(&mut self, client: ConnId, phase: &LoginPhase) {
        match phase.awaits {
            Awaits::Hash => self.hashing.leave(client),
            Awaits::Check => self.checks.leave(client),
            _ => {}
        }
    }
}
