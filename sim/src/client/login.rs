//! The login of a modelled client, with any method that the server requests.

use weir_auth::{SCRAM_SHA_256, ScramClient, ScramExpectVerdict, ScramKeys, md5_hex_secret, md5_response};
use weir_pgwire::put_front;

use crate::message::AuthStep;
use crate::rng::Rng;
use crate::salts;

/// The state of a login.
#[derive(Default)]
pub(crate) enum Login {
    /// No request has arrived yet, or the response has been sent.
    #[default]
    Waiting,
    /// SCRAM's first message has been sent.
    ScramFirst(ScramClient),
    /// SCRAM's last message has been sent.
    ScramFinal(ScramExpectVerdict),
    /// The login succeeded.
    Done,
}

impl Login {
    /// Responds to an authentication message; `false` if the message is wrong.
    pub(crate) fn step(
        &mut self,
        step: &AuthStep,
        user: &str,
        password: &str,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> bool {
        *self = match (std::mem::take(self), step) {
            (Login::Waiting, AuthStep::Ok) => Login::Done,
            (Login::Waiting, AuthStep::Cleartext) => {
                put_front::password(out, password.as_bytes());
                Login::Waiting
            }
            (Login::Waiting, AuthStep::Md5(salt)) => {
                let response = md5_response(&md5_hex_secret(user, password), *salt);
                put_front::password(out, response.as_bytes());
                Login::Waiting
            }
            (Login::Waiting, AuthStep::Sasl) => {
                let (client, first) = ScramClient::start(rng.bytes());
                put_front::sasl_initial(out, SCRAM_SHA_256, &first);
                Login::ScramFirst(client)
            }
            (Login::ScramFirst(client), AuthStep::SaslContinue(message)) => {
                let Ok(need) = client.server_first(message) else { return false };
                let salted = salts::salted(password, &need.salt, need.iterations);
                let (verdict, last) = need.answer(&ScramKeys::from_salted(&salted));
                put_front::sasl_response(out, &last);
                Login::ScramFinal(verdict)
            }
            (Login::ScramFinal(verdict), AuthStep::SaslFinal(message)) => {
                if verdict.finish(message).is_err() {
                    return false;
                }
                Login::Waiting
            }
            _ => return false,
        };
        true
    }

    /// Whether AuthenticationOk has arrived.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Login::Done)
    }
}
