//! The exchange in which a client proves who it is: its messages, and the helpers that hash and check passwords and
//! tokens. With `log_connections` the log has the name that a token proves, as PostgreSQL's has.

use std::sync::Arc;

use weir_auth::ScramPolicy;
use weir_base::{ClientAddr, ConnId, Origin, Printable};
use weir_config::Config;
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head};
use weir_session::Refusal;
use weir_session::login::{Login, LoginStep, MAX_PASSWORD};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::checks::{self, PasswordChecks};
use crate::client_login::hashing::{PasswordHashing, Requested};
use crate::client_login::state::{Awaits, Hashing, LoginPhase};
use crate::client_login::step::EntryStep;
use crate::common::{Cx, FollowUp};
use crate::log::{log, log_client};
use crate::port::{Authority, Io, Level, PasswordCheck, Proof};
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
            LoginStep::Unusable(why) => {
                log_refused(cx, client, why);
                self.advance(cx, client, LoginStep::Wait)
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

    /// A client's password or token has been checked, with this result: its login continues.
    pub(crate) fn checked<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        result: Result<Proof, String>,
    ) -> EntryStep {
        if let Ok(Proof { overdue: Some(why), .. }) = &result {
            log(Level::Warning, format_args!("{why}; those fetched before are used"), cx.io);
        }
        let verdict = result.and_then(|proof| match &proof.name {
            Some(name) => names_user(cx.common.config(), client, name).map(|()| log_identity(cx, client, name)),
            None => Ok(()),
        });
        if let Err(why) = &verdict {
            log_refused(cx, client, why);
        }
        let ClientPhase::Login(phase) = client.phase_mut() else { return EntryStep::Read };
        phase.awaits = Awaits::Client;
        let mut buffer = Vec::new();
        let check = |login: &mut Box<Login>| login.checked(verdict.is_ok(), &mut buffer);
        let next = phase.login.as_mut().map_or(LoginStep::Wait, check);
        if !buffer.is_empty() {
            cx.io.send(client.conn, &buffer);
        }
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

/// Whether the name that a token proves is the client's user, or may log in as it by the ident map.
fn names_user(config: &Config, client: &ClientSlot, name: &str) -> Result<(), String> {
    let ClientPhase::Login(phase) = &client.phase else { return Ok(()) };
    let map = match &phase.authority {
        Some(Authority::Oauth(oauth)) => oauth.map.as_deref(),
        _ => None,
    };
    if config.auth.ident.lets(map, name, &client.user) {
        return Ok(());
    }
    let name = Printable(name);
    Err(match map {
        Some(map) => format!("the ident map {map} does not let the token's user \"{name}\" log in as this user"),
        None => format!("the token is of another user, \"{name}\""),
    })
}

fn log_identity<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, name: &str) {
    let ClientPhase::Login(phase) = &client.phase else { return };
    let config = cx.common.config();
    if config.log.connections {
        let text = format_args!("connection authenticated: identity=\"{}\" method=oauth", Printable(name));
        log_client(Level::Info, config, client, &phase.request.database, text, cx.io);
    }
}

/// Why a client that is still to be answered will be refused.
fn log_refused<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, why: &str) {
    let ClientPhase::Login(phase) = &client.phase else { return };
    let text = format_args!("login refused: {why}");
    log_client(Level::Warning, cx.common.config(), client, &phase.request.database, text, cx.io);
}
