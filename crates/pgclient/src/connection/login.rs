//! The login. Source: PostgreSQL's documentation, "Message Flow", sections "Start-up" and "SASL Authentication".

use std::fs::File;
use std::io::{self, Read};

use weir_auth::{
    ScramClient, ScramExpectVerdict, ScramKeys, ServerMethod, md5_hex_secret, md5_response, salt_password,
};
use weir_pgwire::{AuthRequest, backend, put_front, tag};

use super::Connection;
use crate::error::{Error, ServerErrorFields};
use crate::frame::Frame;
use crate::params::ConnectParams;

/// What the server's next request must fit.
enum Stage {
    /// The server's choice of method.
    Method,
    /// We sent the first message of SCRAM.
    ScramFirst(ScramClient),
    /// We sent the proof, and want the server's.
    ScramProof(ScramExpectVerdict),
    /// AuthenticationOk after the password or the server's proof.
    Verdict,
}

impl Connection {
    /// Sends the startup message and answers what the server asks, up to its first ReadyForQuery.
    pub fn login(&mut self, params: &ConnectParams) -> Result<(), Error> {
        let mut startup = vec![("user", params.user.as_str()), ("database", params.database.as_str())];
        startup.extend(params.options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut message = Vec::new();
        put_front::startup(&mut message, &startup, 0);
        self.send_bytes(&message)?;
        self.authenticate(params)?;
        self.await_ready()
    }

    /// Up to AuthenticationOk.
    fn authenticate(&mut self, params: &ConnectParams) -> Result<(), Error> {
        let mut stage = Stage::Method;
        loop {
            let frame = self.next_frame()?;
            match frame.tag {
                tag::back::ERROR => return Err(ServerErrorFields::read(&frame.body)?.into()),
                tag::back::NEGOTIATE | tag::back::NOTICE => continue,
                tag::back::AUTHENTICATION => {}
                other => return Err(unexpected(other)),
            }
            let mut reply = Vec::new();
            let first = matches!(stage, Stage::Method);
            let Some(next) = stage.answer(backend::authentication(&frame.body)?, params, &mut reply)? else {
                self.trusted = first;
                return Ok(());
            };
            stage = next;
            self.send_bytes(&reply)?;
        }
    }

    fn await_ready(&mut self) -> Result<(), Error> {
        loop {
            let Frame { tag, body } = self.next_frame()?;
            match tag {
                tag::back::READY => return Ok(()),
                tag::back::ERROR => return Err(ServerErrorFields::read(&body)?.into()),
                tag::back::BACKEND_KEY_DATA => {
                    let (pid, key) = backend::backend_key(&body)?;
                    self.pid = pid;
                    self.key = key.to_vec();
                }
                tag::back::PARAMETER_STATUS | tag::back::NOTICE => {}
                other => return Err(unexpected(other)),
            }
        }
    }
}

impl Stage {
    /// The reply to a request, and the next stage; `None`: we are logged in.
    fn answer(
        self,
        request: AuthRequest<'_>,
        params: &ConnectParams,
        reply: &mut Vec<u8>,
    ) -> Result<Option<Stage>, Error> {
        if let (Stage::Method, Some(method)) = (&self, method_of(request)) {
            params.require.check(method, params.trust).map_err(Error::Login)?;
        }
        Ok(Some(match (self, request) {
            (Stage::Method | Stage::Verdict, AuthRequest::Ok) => return Ok(None),
            (Stage::Method, AuthRequest::Cleartext) => {
                put_front::password(reply, password(params)?.as_bytes());
                Stage::Verdict
            }
            (Stage::Method, AuthRequest::Md5(salt)) => {
                let secret = md5_hex_secret(&params.user, password(params)?);
                put_front::password(reply, md5_response(&secret, salt).as_bytes());
                Stage::Verdict
            }
            (Stage::Method, AuthRequest::Sasl(offered)) => {
                let chosen = ScramClient::choose(nonce()?, offered, params.binding.as_deref());
                let Some((mechanism, client, first)) = chosen else {
                    return Err(Error::Login("the server offers no SASL mechanism that we know".to_owned()));
                };
                put_front::sasl_initial(reply, mechanism, &first);
                Stage::ScramFirst(client)
            }
            (Stage::ScramFirst(client), AuthRequest::SaslContinue(data)) => {
                let need = client.server_first(data).map_err(login_error)?;
                let keys = ScramKeys::from_salted(&salt_password(password(params)?, &need.salt, need.iterations));
                let (verdict, message) = need.answer(&keys);
                put_front::sasl_response(reply, &message);
                Stage::ScramProof(verdict)
            }
            (Stage::ScramProof(verdict), AuthRequest::SaslFinal(data)) => {
                verdict.finish(data).map_err(login_error)?;
                Stage::Verdict
            }
            (Stage::ScramFirst(_) | Stage::ScramProof(_), AuthRequest::Ok) => {
                let why = "the server let us in without proving that it knows the password";
                return Err(Error::Login(why.to_owned()));
            }
            (_, AuthRequest::Unsupported(code)) => {
                return Err(Error::Login(format!("the server requires authentication method {code}, unknown here")));
            }
            _ => return Err(Error::Protocol("an authentication message out of turn".to_owned())),
        }))
    }
}

/// The method that a server's first request belongs to; `None` for one that we do not implement.
fn method_of(request: AuthRequest<'_>) -> Option<ServerMethod> {
    match request {
        AuthRequest::Ok => Some(ServerMethod::None),
        AuthRequest::Cleartext => Some(ServerMethod::Password),
        AuthRequest::Md5(_) => Some(ServerMethod::Md5),
        AuthRequest::Sasl(_) => Some(ServerMethod::ScramSha256),
        _ => None,
    }
}

fn login_error(error: weir_auth::ScramError) -> Error {
    Error::Login(error.to_string())
}

fn unexpected(tag: u8) -> Error {
    Error::Protocol(format!("unexpected message {:?} during login", char::from(tag)))
}

fn password(params: &ConnectParams) -> Result<&str, Error> {
    params.password.as_deref().ok_or_else(|| Error::NoPassword(params.user.clone()))
}

/// 18 random bytes of the operating system's.
fn nonce() -> io::Result<[u8; 18]> {
    let mut bytes = [0; 18];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
