//! How a modelled server lets somebody in.
//!
//! Owns the exchange between the startup message and AuthenticationOk (PostgreSQL's documentation, "Start-up").

use weir_auth::{ScramExpectFinal, ScramServer, ScramVerifier, md5_hex_secret, md5_verify, plain_verify};
use weir_pgwire::{frontend, put_back};

use crate::rng::Rng;
use crate::salts;

/// How a password is asked for.
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

/// The users that only servers know.
pub(crate) const UNLISTED: [&str; 2] = ["dan", "fay"];

/// What a server says about a user whom the pooler does not know: its password, or its verifier.
pub(crate) fn stored_secret(user: &str) -> Option<String> {
    match user {
        "dan" => Some(password_of(user)),
        "fay" => Some(verifier_of(user).to_string()),
        _ => None,
    }
}

/// The verifier of a user, with few iterations: a model has no time to lose on PBKDF2.
pub(crate) fn verifier_of(user: &str) -> ScramVerifier {
    const ITERATIONS: u32 = 2;
    salts::verifier(user, || {
        let salt = format!("salt of {user}").into_bytes();
        let salted = salts::salted(&password_of(user), &salt, ITERATIONS);
        ScramVerifier::from_salted(&salted, salt, ITERATIONS)
    })
}

/// What the server waits for.
#[derive(Clone)]
pub(crate) enum Login {
    /// The password as it is.
    Plain,
    /// The digest with this salt.
    Md5([u8; 4]),
    /// SCRAM's first message.
    ScramFirst(ScramServer),
    /// SCRAM's last message.
    ScramFinal(ScramExpectFinal),
}

/// What a step of a login led to.
pub(crate) enum Step {
    /// A password is awaited.
    Wait(Login),
    /// In.
    Welcome,
    /// 28P01.
    Wrong,
}

/// Begins a login; asks for what is needed.
pub(crate) fn begin(method: Method, rng: &mut Rng, out: &mut Vec<u8>) -> Step {
    match method {
        Method::Trust => Step::Welcome,
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

/// Takes an answer of `user`.
pub(crate) fn step(login: Login, user: &str, body: &[u8], out: &mut Vec<u8>) -> Step {
    let word = |good: bool| if good { Step::Welcome } else { Step::Wrong };
    match login {
        Login::Plain => word(frontend::password(body).is_ok_and(|given| plain_verify(&password_of(user), given))),
        Login::Md5(salt) => {
            let secret = md5_hex_secret(user, &password_of(user));
            word(frontend::password(body).is_ok_and(|given| md5_verify(&secret, salt, given)))
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
                Step::Welcome
            }
            Err(_) => Step::Wrong,
        },
    }
}
