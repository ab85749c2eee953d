//! LDAP as a check of passwords: the options that say where and how, and the exchange with a server (RFC 4511).
//!
//! Must not know sockets or TLS: [`LdapCheck`] returns what to send and takes what came. An empty password is never
//! checked: a server would take it for an anonymous bind, and accept it.

mod ber;
mod filter;
mod message;
mod options;
mod url;

pub use options::Ldap;
pub(crate) use options::LdapOptions;

use message::Reply;
use options::{Find, USER_NAME};

/// The longest message of a server, in bytes: a result, or an entry without attributes.
pub const MAX_LDAP_MESSAGE: usize = 64 << 10;

/// How long a server may search, in seconds.
const SEARCH_SECONDS: u16 = 10;

/// The check of one password. Begins with [`LdapCheck::begin`]; each message of the server goes to
/// [`LdapCheck::message`].
pub struct LdapCheck<'a> {
    ldap: &'a Ldap,
    user: &'a str,
    password: &'a str,
    /// The number of the last request.
    id: u16,
    state: State,
}

enum State {
    StartTls,
    /// The bind for the search.
    Searcher,
    Search {
        found: Option<String>,
        more: bool,
    },
    User(String),
    Over,
}

/// What is next in a check.
#[derive(PartialEq, Eq, Debug)]
pub enum LdapStep {
    /// Send this, then read a message.
    Send(Vec<u8>),
    /// Read another message.
    Read,
    /// The server is ready for a TLS handshake on this connection; then [`LdapCheck::secured`].
    StartTls,
    /// The check is over; send this, and close the connection. `Err` is a line for the log.
    Done(Result<(), String>, Vec<u8>),
}

impl<'a> LdapCheck<'a> {
    /// The check of a user's password.
    pub fn new(ldap: &'a Ldap, user: &'a str, password: &'a str) -> Self {
        LdapCheck { ldap, user, password, id: 0, state: State::Over }
    }

    /// Begins on an established connection, encrypted where `ldaps` requires it.
    pub fn begin(&mut self) -> LdapStep {
        if self.password.is_empty() {
            return self.fail("the password is empty".to_owned());
        }
        if matches!(self.ldap.find, Find::Search { .. }) && self.user.contains(['*', '(', ')', '\\', '/']) {
            return self.fail("invalid character in user name for LDAP authentication".to_owned());
        }
        if !self.ldap.start_tls {
            return self.secured();
        }
        if self.ldap.tls {
            return self
                .fail("could not start LDAP TLS session: ldaps is encrypted already, remove ldaptls=1".to_owned());
        }
        self.state = State::StartTls;
        self.send(message::start_tls)
    }

    /// The connection is as encrypted as it is to be.
    pub fn secured(&mut self) -> LdapStep {
        match &self.ldap.find {
            Find::Name { prefix, suffix } => self.bind_user(format!("{prefix}{}{suffix}", self.user)),
            Find::Search { bind_dn, bind_password, .. } => {
                self.state = State::Searcher;
                self.send(|id| message::bind(id, bind_dn, bind_password))
            }
        }
    }

    /// A whole message of the server has arrived: as many bytes as [`LdapCheck::length`] says.
    pub fn message(&mut self, message: &[u8]) -> LdapStep {
        let Some((id, reply)) = message::read(message) else { return self.unexpected() };
        if id != u32::from(self.id) {
            return if id == 0 {
                self.fail("the LDAP server closes the connection".to_owned())
            } else {
                LdapStep::Read
            };
        }
        match (std::mem::replace(&mut self.state, State::Over), reply) {
            (State::StartTls, Reply::Extended(result)) if result.is_success() => LdapStep::StartTls,
            (State::StartTls, Reply::Extended(result)) => {
                self.fail(format!("could not start LDAP TLS session: {}", result.words()))
            }
            (State::Searcher, Reply::Bound(result)) if result.is_success() => self.search(),
            (State::Searcher, Reply::Bound(result)) => {
                self.fail(format!("could not perform initial LDAP bind: {}", result.words()))
            }
            (State::Search { found, more }, Reply::Entry(name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                let more = more || found.is_some();
                self.state = State::Search { found: found.or(Some(name)), more };
                LdapStep::Read
            }
            (state @ State::Search { .. }, Reply::Other) => {
                self.state = state;
                LdapStep::Read
            }
            (State::Search { found, more }, Reply::Searched(result)) => self.searched(found, more, &result),
            (State::User(_), Reply::Bound(result)) if result.is_success() => self.done(Ok(())),
            (State::User(name), Reply::Bound(result)) => {
                let name: String = name.chars().take(200).flat_map(char::escape_debug).collect();
                self.fail(format!("LDAP login failed for user {name}: {}", result.words()))
            }
            _ => self.unexpected(),
        }
    }

    /// The length of the message that `bytes` begins with; `None` while its head is incomplete.
    ///
    /// # Errors
    /// It is no message, or longer than [`MAX_LDAP_MESSAGE`].
    pub fn length(bytes: &[u8]) -> Result<Option<usize>, &'static str> {
        match ber::length(bytes)? {
            Some(length) if length > MAX_LDAP_MESSAGE => Err("the message is too long"),
            length => Ok(length),
        }
    }

    fn search(&mut self) -> LdapStep {
        let Find::Search { base, scope, filter, .. } = &self.ldap.find else { return self.unexpected() };
        // The name holds nothing that a filter would read as more than itself.
        match filter::encode(&filter.replace(USER_NAME, self.user)) {
            Ok(filter) => {
                self.state = State::Search { found: None, more: false };
                self.send(|id| message::search(id, base, *scope, &filter, SEARCH_SECONDS))
            }
            Err(error) => self.fail(error),
        }
    }

    fn searched(&mut self, found: Option<String>, more: bool, result: &message::LdapResult) -> LdapStep {
        match found {
            _ if !result.has_entries() => self.fail(format!("could not search LDAP: {}", result.words())),
            None => self.fail(format!("LDAP user {:?} does not exist", self.user)),
            Some(_) if more || !result.is_success() => self.fail(format!("LDAP user {:?} is not unique", self.user)),
            Some(name) => self.bind_user(name),
        }
    }

    fn bind_user(&mut self, name: String) -> LdapStep {
        if name.is_empty() {
            // A server may take a bind without a name for an anonymous one, whatever the password.
            return self.fail("the entry of the LDAP user has no name".to_owned());
        }
        let step = self.send(|id| message::bind(id, &name, self.password));
        self.state = State::User(name);
        step
    }

    fn send(&mut self, make: impl FnOnce(u16) -> Vec<u8>) -> LdapStep {
        self.id += 1;
        LdapStep::Send(make(self.id))
    }

    fn unexpected(&mut self) -> LdapStep {
        self.fail("the LDAP server sent what no request explains".to_owned())
    }

    fn fail(&mut self, why: String) -> LdapStep {
        self.done(Err(why))
    }

    fn done(&mut self, result: Result<(), String>) -> LdapStep {
        self.state = State::Over;
        self.id += 1;
        LdapStep::Done(result, message::unbind(self.id))
    }
}

#[cfg(test)]
mod tests;
