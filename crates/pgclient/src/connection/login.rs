//! The login. Source: PostgreSQL's documentation, "Message Flow", sections "Start-up" and "SASL Authentication".

use std::fs::File;
use std::io::{self, Read};

use weir_auth::{
    SCRAM_SHA_256, ScramClient, ScramExpectVerdict, ScramKeys, md5_hex_secret, md5_response, salt_password,
};
use weir_pgwire::{Auth, backend, put_front, tag};

use super::Connection;
use crate::error::{Error, ServerError};
use crate::frame::Frame;
use crate::params::Params;

/// Why a password was not sent.
const IN_CLEAR: &str = "the server asks for the password in clear text, which it gets only over verified TLS: let it ask for \
                        scram-sha-256, or set mode in [tls.server] to verify-full";

/// The phase of a SCRAM login.
enum Scram {
    /// The server has not requested it.
    None,
    /// We sent the first message.
    First(ScramClient),
    /// We sent the proof, and want the server's.
    Proof(ScramExpectVerdict),
    /// The server knows the password too.
    Proven,
}

impl Connection {
    /// Sends the startup message and answers what the server asks, up to its first ReadyForQuery.
    pub fn login(&mut self, params: &Params) -> Result<(), Error> {
        let mut startup = vec![("user", params.user.as_str()), ("database", params.database.as_str())];
        startup.extend(params.options.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        let mut message = Vec::new();
        put_front::startup(&mut message, &startup, 0);
        self.send_bytes(&message)?;
        self.authenticate(params)?;
        self.await_ready()
    }

    /// Up to AuthenticationOk.
    fn authenticate(&mut self, params: &Params) -> Result<(), Error> {
        let mut scram = Scram::None;
        loop {
            let frame = self.next_frame()?;
            match frame.tag {
                tag::back::ERROR => return Err(ServerError::read(&frame.body)?.into()),
                tag::back::NEGOTIATE | tag::back::NOTICE => continue,
                tag::back::AUTHENTICATION => {}
                other => return Err(unexpected(other)),
            }
            let mut reply = Vec::new();
            match backend::authentication(&frame.body)? {
                Auth::Ok => return require_server_proof(&scram),
                Auth::Cleartext if !params.clear => return Err(Error::Login(IN_CLEAR.to_owned())),
                Auth::Cleartext => put_front::password(&mut reply, password(params)?.as_bytes()),
                Auth::Md5(salt) => {
                    let secret = md5_hex_secret(&params.user, password(params)?);
                    put_front::password(&mut reply, md5_response(&secret, salt).as_bytes());
                }
                Auth::Sasl(mut mechanisms) => {
                    if !mechanisms.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                        return Err(Error::Login("the server offers no SASL mechanism that we know".to_owned()));
                    }
                    let (client, first) = ScramClient::start(nonce()?);
                    put_front::sasl_initial(&mut reply, SCRAM_SHA_256, &first);
                    scram = Scram::First(client);
                }
                Auth::SaslContinue(data) => {
                    let (next, proof) = answer_challenge(scram, data, password(params)?)?;
                    put_front::sasl_response(&mut reply, &proof);
                    scram = next;
                }
                Auth::SaslFinal(data) => scram = verify_server(scram, data)?,
                Auth::Unsupported(code) => {
                    return Err(Error::Login(format!(
                        "the server requires authentication method {code}, unknown here"
                    )));
                }
            }
            self.send_bytes(&reply)?;
        }
    }

    fn await_ready(&mut self) -> Result<(), Error> {
        loop {
            let Frame { tag, body } = self.next_frame()?;
            match tag {
                tag::back::READY => return Ok(()),
                tag::back::ERROR => return Err(ServerError::read(&body)?.into()),
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

/// A server that ended SCRAM early has not proven anything.
fn require_server_proof(scram: &Scram) -> Result<(), Error> {
    match scram {
        Scram::None | Scram::Proven => Ok(()),
        Scram::First(_) | Scram::Proof(_) => {
            Err(Error::Login("the server let us in without proving that it knows the password".to_owned()))
        }
    }
}

fn answer_challenge(scram: Scram, data: &[u8], password: &str) -> Result<(Scram, Vec<u8>), Error> {
    let Scram::First(client) = scram else { return Err(out_of_order()) };
    let need = client.server_first(data).map_err(login_error)?;
    let keys = ScramKeys::from_salted(&salt_password(password, &need.salt, need.iterations));
    let (verdict, message) = need.answer(&keys);
    Ok((Scram::Proof(verdict), message))
}

fn verify_server(scram: Scram, data: &[u8]) -> Result<Scram, Error> {
    let Scram::Proof(verdict) = scram else { return Err(out_of_order()) };
    verdict.finish(data).map_err(login_error)?;
    Ok(Scram::Proven)
}

fn login_error(error: weir_auth::ScramError) -> Error {
    Error::Login(error.to_string())
}

fn out_of_order() -> Error {
    Error::Protocol("a SASL message out of turn".to_owned())
}

fn unexpected(tag: u8) -> Error {
    Error::Protocol(format!("unexpected message {:?} during login", char::from(tag)))
}

fn password(params: &Params) -> Result<&str, Error> {
    let missing = || Error::Login(format!("the server asks for the password of user \"{}\"", params.user));
    params.password.as_deref().ok_or_else(missing)
}

/// 18 random bytes of the operating system's.
fn nonce() -> io::Result<[u8; 18]> {
    let mut bytes = [0; 18];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
