//! Our own login at a server: from the startup packet to its first ReadyForQuery.
//!
//! Owns the order of the messages and the choice of answers. Must not know when servers are needed.
//! Every message is bounded: a server that misbehaves before we trust it costs little.
//!
//! Source: PostgreSQL documentation, "Message Flow", Start-up.

use std::sync::Arc;

use weir_auth::{
    RequireAuth, ScramClient, ScramExpectVerdict, ScramKeys, ScramNeedKeys, ServerMethod, Trust, md5_hex_secret,
    md5_response,
};
use weir_pgwire::tag::back;
use weir_pgwire::{AuthRequest, HEAD, Head, backend, put_front};

use crate::frame_reader::{FrameReader, Piece};
use crate::params::{ParamTable, Params};
use crate::server::{CancelKey, Server};
use crate::server_error::{ServerError, read_error};

/// The longest message of a server before it is ready.
const MAX_MESSAGE: usize = 64 << 10;
/// The most parameters a server may report.
const MAX_PARAMETERS: usize = 256;

/// The credentials. Any of the secrets may be missing; the server decides which one is needed.
#[derive(Clone)]
pub struct Credentials {
    /// The user.
    pub user: Arc<str>,
    /// The database.
    pub database: Arc<str>,
    /// The password.
    pub password: Option<Arc<str>>,
    /// The md5 hash of password and user, 32 hexadecimal digits.
    pub md5: Option<Arc<str>>,
    /// SCRAM keys captured from a client.
    pub keys: Option<ScramKeys>,
    /// How the server may ask for a proof.
    pub require: RequireAuth,
    /// The server's name and what it must provide.
    pub trust: Trust,
    /// Additional parameters, by their names in the startup packet.
    pub startup: Vec<(String, String)>,
}

/// A login under way.
pub struct ServerLogin {
    credentials: Credentials,
    /// The `tls-server-end-point` of the connection.
    binding: Option<Box<[u8]>>,
    stage: Stage,
    stream: FrameReader,
    params: Params,
    /// Every parameter that was reported, for the clients' welcome.
    reported: Vec<(String, String)>,
    key: CancelKey,
}

enum Stage {
    /// The server's choice of method.
    Method,
    ScramFirst(ScramClient),
    Salting(ScramNeedKeys),
    ScramFinal(ScramExpectVerdict),
    /// AuthenticationOk after the password or the server's proof.
    Verdict,
    /// Logged in; parameters and the key follow.
    LoggedIn,
    Over,
}

/// The result of a part of the server's output. What must be sent is in the buffer.
pub enum ServerLoginStep {
    /// More output is needed.
    Wait,
    /// The password must be hashed; then [`ServerLogin::salted`].
    HashPassword {
        /// The password.
        password: Arc<str>,
        /// With this salt.
        salt: Vec<u8>,
        /// The number of iterations.
        iterations: u32,
    },
    /// The server is ready.
    Ready(Box<LoggedIn>),
    /// The server has refused the login, with this error.
    Refused(ServerError),
    /// We can't log in there: the server's messages are not acceptable, or a secret is missing.
    Failed(ServerError),
}

/// A server that has just become ready.
pub struct LoggedIn {
    /// The server.
    pub server: Server,
    /// Everything it reported about itself, in its order.
    pub reported: Vec<(String, String)>,
}

impl ServerLogin {
    /// Begins a login; appends the startup packet to `buffer`.
    ///
    /// `binding` is the `tls-server-end-point` of the connection (RFC 5929, section 4), if it is encrypted: SCRAM then
    /// binds to it where the server can.
    pub fn begin(credentials: Credentials, binding: Option<&[u8]>, table: &ParamTable, buffer: &mut Vec<u8>) -> Self {
        let mut parameters = vec![("user", &*credentials.user), ("database", &*credentials.database)];
        parameters.extend(credentials.startup.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        put_front::startup(buffer, &parameters, 0);
        ServerLogin {
            credentials,
            binding: binding.map(Box::from),
            stage: Stage::Method,
            stream: FrameReader::default(),
            params: table.unknown(),
            reported: Vec::new(),
            key: CancelKey::default(),
        }
    }

    /// Takes what the server sent. `nonce` must be random.
    pub fn feed(&mut self, input: &[u8], nonce: [u8; 18], table: &ParamTable, buffer: &mut Vec<u8>) -> ServerLoginStep {
        let mut at = 0;
        loop {
            let piece = self.stream.next(input, &mut at, |_, head| head.total().min(MAX_MESSAGE));
            let step = match piece {
                Err(malformed) => failed(malformed.0),
                Ok(Piece::End) => return ServerLoginStep::Wait,
                Ok(Piece::Rest(..)) => failed("a very long message during login"),
                Ok(Piece::Here(here, head)) => {
                    let (step, used) = self.message(&input[here..], head, nonce, table, buffer);
                    at += used;
                    step
                }
                Ok(Piece::Held(head)) => {
                    let held = self.stream.take_held();
                    let (step, _) = self.message(&held, head, nonce, table, buffer);
                    self.stream.give_back(held);
                    step
                }
            };
            match step {
                ServerLoginStep::Wait => {}
                ServerLoginStep::Ready(_) if at < input.len() => return failed("bytes after the first ReadyForQuery"),
                ServerLoginStep::HashPassword { .. } if at < input.len() => return failed("bytes ahead of our answer"),
                step => return step,
            }
        }
    }

    /// Goes on after [`ServerLoginStep::HashPassword`].
    pub fn salted(&mut self, salted: &[u8; 32], buffer: &mut Vec<u8>) -> ServerLoginStep {
        let Stage::Salting(need) = std::mem::replace(&mut self.stage, Stage::Over) else {
            return failed("a hash that was not requested");
        };
        self.answer(need, &ScramKeys::from_salted(salted), buffer);
        ServerLoginStep::Wait
    }

    fn message(
        &mut self,
        bytes: &[u8],
        head: Head,
        nonce: [u8; 18],
        table: &ParamTable,
        buffer: &mut Vec<u8>,
    ) -> (ServerLoginStep, usize) {
        let body = bytes.get(HEAD..head.total()).filter(|_| head.total() <= MAX_MESSAGE);
        let Some(body) = body else { return (failed("a very long message during login"), bytes.len()) };
        let step = match head.tag {
            back::AUTHENTICATION => match backend::authentication(body) {
                Ok(auth) => self.authentication(auth, nonce, buffer),
                Err(malformed) => failed(malformed.0),
            },
            back::ERROR => ServerLoginStep::Refused(read_error(body).error),
            back::NOTICE | back::NEGOTIATE => ServerLoginStep::Wait,
            back::PARAMETER_STATUS => self.parameter(body, table),
            back::BACKEND_KEY_DATA => match backend::backend_key(body) {
                Ok((pid, secret)) => {
                    self.key = CancelKey { pid, secret: secret.into() };
                    ServerLoginStep::Wait
                }
                Err(malformed) => failed(malformed.0),
            },
            back::READY if matches!(self.stage, Stage::LoggedIn) && body == b"I" => self.ready(),
            _ => failed("an unexpected message during login"),
        };
        (step, head.total())
    }

    fn ready(&mut self) -> ServerLoginStep {
        self.stage = Stage::Over;
        let params = Arc::new(std::mem::take(&mut self.params));
        let mut server = Server::new(params, std::mem::take(&mut self.key));
        server.set_role(&self.reported);
        ServerLoginStep::Ready(Box::new(LoggedIn { server, reported: std::mem::take(&mut self.reported) }))
    }

    fn parameter(&mut self, body: &[u8], table: &ParamTable) -> ServerLoginStep {
        let Ok((name, value)) = backend::parameter_status(body) else { return failed("a malformed ParameterStatus") };
        if !matches!(self.stage, Stage::LoggedIn) || self.reported.len() >= MAX_PARAMETERS {
            return failed("parameters out of place");
        }
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        table.take_report(&mut self.params, &name, &value);
        self.reported.push((name.into_owned(), value.into_owned()));
        ServerLoginStep::Wait
    }

    fn authentication(&mut self, auth: AuthRequest<'_>, nonce: [u8; 18], buffer: &mut Vec<u8>) -> ServerLoginStep {
        if matches!(self.stage, Stage::Method)
            && let Some(method) = method_of(auth)
            && let Err(why) = self.credentials.require.check(method, self.credentials.trust)
        {
            return failed(&why);
        }
        match (std::mem::replace(&mut self.stage, Stage::Over), auth) {
            (Stage::Method | Stage::Verdict, AuthRequest::Ok) => self.stage = Stage::LoggedIn,
            (Stage::Method, AuthRequest::Cleartext) => {
                let Some(password) = &self.credentials.password else {
                    return self.no_secret("the server asks for a password");
                };
                put_front::password(buffer, password.as_bytes());
                self.stage = Stage::Verdict;
            }
            (Stage::Method, AuthRequest::Md5(salt)) => return self.md5(salt, buffer),
            (Stage::Method, AuthRequest::Sasl(offered)) => {
                let chosen = ScramClient::choose(nonce, offered, self.binding.as_deref());
                let Some((mechanism, client, first)) = chosen else {
                    return failed("the server offers no SASL mechanism that we can use");
                };
                put_front::sasl_initial(buffer, mechanism, &first);
                self.stage = Stage::ScramFirst(client);
            }
            (Stage::ScramFirst(client), AuthRequest::SaslContinue(message)) => {
                return self.scram_first(client, message, buffer);
            }
            (Stage::ScramFinal(expect), AuthRequest::SaslFinal(message)) => match expect.finish(message) {
                Ok(()) => self.stage = Stage::Verdict,
                Err(error) => return failed(&error.to_string()),
            },
            (_, AuthRequest::Unsupported(code)) => {
                return failed(&format!("the server requires authentication method {code}"));
            }
            _ => return failed("authentication messages out of order"),
        }
        ServerLoginStep::Wait
    }

    fn md5(&mut self, salt: [u8; 4], buffer: &mut Vec<u8>) -> ServerLoginStep {
        let hex = match (&self.credentials.md5, &self.credentials.password) {
            (Some(hex), _) => hex.to_string(),
            (None, Some(password)) => md5_hex_secret(&self.credentials.user, password),
            (None, None) => return self.no_secret("the server asks for an md5 hash or a password"),
        };
        put_front::password(buffer, md5_response(&hex, salt).as_bytes());
        self.stage = Stage::Verdict;
        ServerLoginStep::Wait
    }

    fn scram_first(&mut self, client: ScramClient, message: &[u8], buffer: &mut Vec<u8>) -> ServerLoginStep {
        let need = match client.server_first(message) {
            Ok(need) => need,
            Err(error) => return failed(&error.to_string()),
        };
        // Keys captured from a client fit only where the server holds the same verifier; a password fits any.
        let Some(password) = self.credentials.password.clone() else {
            let Some(keys) = self.credentials.keys.clone() else {
                // PgBouncer's text: there may be a verifier or an md5 hash, which SCRAM can't use.
                return self.no_secret("wrong password type: the server asks for a password");
            };
            self.answer(need, &keys, buffer);
            return ServerLoginStep::Wait;
        };
        let (salt, iterations) = (need.salt.clone(), need.iterations);
        self.stage = Stage::Salting(need);
        ServerLoginStep::HashPassword { password, salt, iterations }
    }

    fn answer(&mut self, need: ScramNeedKeys, keys: &ScramKeys, buffer: &mut Vec<u8>) {
        let (expect, last) = need.answer(keys);
        put_front::sasl_response(buffer, &last);
        self.stage = Stage::ScramFinal(expect);
    }

    fn no_secret(&self, what: &str) -> ServerLoginStep {
        failed(&format!("{what}, and none is known for user \"{}\"", self.credentials.user))
    }
}

/// The method that a server's first request belongs to; `None` for one that we do not implement.
fn method_of(auth: AuthRequest<'_>) -> Option<ServerMethod> {
    match auth {
        AuthRequest::Ok => Some(ServerMethod::None),
        AuthRequest::Cleartext => Some(ServerMethod::Password),
        AuthRequest::Md5(_) => Some(ServerMethod::Md5),
        AuthRequest::Sasl(_) => Some(ServerMethod::ScramSha256),
        _ => None,
    }
}

fn failed(why: &str) -> ServerLoginStep {
    ServerLoginStep::Failed(ServerError::of_login(why))
}
