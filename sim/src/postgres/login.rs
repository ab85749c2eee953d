//! The login of a modelled server.
//!
//! Owns the exchange between the startup message and AuthenticationOk (PostgreSQL's documentation, "Start-up").

use weir_auth::{ScramExpectFinal, ScramServer, ScramVerifier, md5_hex_secret, md5_verify, plain_verify};
use weir_pgwire::{frontend, put_back};

use crate::rng::Rng;
use crate::salts;

/// The authentication method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Method {
    Trust,
    Plain,
    Md5,
    Scram,
}

/// All methods.
pub(crate) const METHODS: [Method; 4] = [Method::Trust, Method::Plain, Method::Md5, Method::Scram];

/// The password of a user; every user has one.
pub(crate) fn password_of(user: &str) -> String {
    format!("pw-{user}")
}

/// Users that exist only on servers.
pub(crate) const UNLISTED: [&str; 2] = ["dan", "fay"];

/// The secret that a server stores for an unlisted user: the password, or the verifier.
pub(crate) fn stored_secret(user: &str) -> Option<String> {
    match user {
        "dan" => Some(password_of(user)),
        "fay" => Some(verifier_of(user).to_string()),
        _ => None,
    }
}

/// The verifier of a user, with few iterations to keep PBKDF2 cheap.
pub(crate) fn verifier_of(user: &str) -> ScramVerifier {
    const ITERATIONS: u32 = 2;
    salts::verifier(user, || {
        let salt = format!("salt of {user}").into_bytes();
        let salted = salts::salted(&password_of(user), &salt, ITERATIONS);
        ScramVerifier::from_salted(&salted, salt, ITERATIONS)
    })
}

/// The message that the server waits for.
#[derive(Clone)]
pub(crate) enum Login {
    /// The cleartext password.
    Plain,
    /// The digest with this salt.
    Md5([u8; 4]),
    /// SCRAM's first message.
    ScramFirst(ScramServer),
    /// SCRAM's last message.
    ScramFinal(ScramExpectFinal),
}

/// The result of a step of a login.
pub(crate) enum Step {
    /// The server waits for a password message.
    Wait(Login),
    /// The login succeeded.
    Accepted,
    /// The login failed, with 28P01.
    Wrong,
}

/// Starts a login and appends the authentication request.
pub(crate) fn begin(method: Method, rng: &mut Rng, out: &mut Vec<u8>) -> Step {
    match method {
        Method::Trust => Step::Accepted,
        Method::Plain => {
            put_back::auth_cleartext(out);
            Step::Wait(Login::Plain)
        }
        Method::Md5 => {
            let salt = rng.bytes();
            put_back::auth_md5(out, salt);
            Step::Wait(Login::Md5(salt))
        }
        Method::Scram => {
            put_back::auth_sasl(out, &[weir_auth::SCRAM_SHA_256]);
            Step::Wait(Login::ScramFirst(ScramServer::new(rng.bytes())))
        }
    }
}

/// Handles a password message of `user`.
pub(crate) fn step(login: Login, user: &str, body: &[u8], out: &mut Vec<u8>) -> Step {
    let result = |good: bool| if good { Step::Accepted } else { Step::Wrong };
    match login {
        Login::Plain => result(frontend::password(body).is_ok_and(|given| plain_verify(&password_of(user), given))),
        Login::Md5(salt) => {
            let secret = md5_hex_secret(user, &password_of(user));
            result(frontend::password(body).is_ok_and(|given| md5_verify(&secret, salt, given)))
        }
        Login::ScramFirst(server) => {
            let Some(data) = frontend::sasl_initial(body).ok().and_then(|initial| initial.data) else {
                return Step::Wrong;
            };
            match server.first(data, verifier_of(user), false) {
                Ok((next, message)) => {
                    put_back::auth_sasl_continue(out, &message);
                    Step::Wait(Login::ScramFinal(next))
                }
                Err(_) => Step::Wrong,
            }
        }
        Login::ScramFinal(server) => match server.finish(body) {
            Ok((_, message)) => {
                put_back::auth_sasl_final(out, &message);
                Step::Accepted
            }
            Err(_) => Step::Wrong,
        },
    }
}
