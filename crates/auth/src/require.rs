//! Which authentication requests of a server are answered: libpq's `require_auth`, and a default.
//!
//! Source: PostgreSQL documentation, libpq, `require_auth`. Must not know any exchange; a login checks this before it
//! answers a server's request.

use std::fmt;
use std::str::FromStr;

/// The requests that a server may make.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum RequireAuth {
    /// Requests that reveal no secret: without a verified certificate no cleartext password, and with a configured
    /// password no login without a request for it, unless the server is on this machine.
    #[default]
    Auto,
    /// All, as libpq without the setting.
    Any,
    /// Only these methods.
    Only(Methods),
    /// All methods but these.
    Not(Methods),
}

/// A set of methods.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Methods(u8);

/// The method that a server requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerMethod {
    /// The cleartext password.
    Password,
    /// The md5 hash.
    Md5,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// No authentication.
    None,
}

/// The relevant properties of a login besides the server's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trust {
    /// The connection is encrypted, and the server's certificate was verified.
    pub verified: bool,
    /// A password is configured for the login, so the server is expected to request it.
    pub expects_request: bool,
    /// The server is on this machine: the connection is by a Unix socket, or to a loopback address.
    pub local: bool,
}

/// libpq's words, in the order of the bits. Those from the fifth on are methods that Weir does not support: a server
/// that requests them fails the login anyway.
const WORDS: [&str; 7] = ["password", "md5", "scram-sha-256", "none", "gss", "sspi", "oauth"];
/// How many of them are supported methods.
const OURS: usize = 4;

impl ServerMethod {
    fn bit(self) -> u8 {
        match self {
            ServerMethod::Password => 1,
            ServerMethod::Md5 => 2,
            ServerMethod::ScramSha256 => 4,
            ServerMethod::None => 8,
        }
    }
}

impl RequireAuth {
    /// Whether a server gets a secret, or what one can guess it from, only in ways in which it gets it with `other`
    /// too.
    pub fn is_as_strict_as(self, other: RequireAuth) -> bool {
        let methods = [ServerMethod::Password, ServerMethod::Md5, ServerMethod::ScramSha256];
        methods.into_iter().all(|method| {
            [false, true].into_iter().all(|verified| {
                let trust = Trust { verified, expects_request: true, local: false };
                self.check(method, trust).is_err() || other.check(method, trust).is_ok()
            })
        })
    }

    /// Whether this request of a server is allowed.
    ///
    /// # Errors
    /// A message for the log: what the server did, why the login is refused, and what an operator can do.
    pub fn check(self, method: ServerMethod, trust: Trust) -> Result<(), String> {
        let did = match method {
            ServerMethod::Password => "the server asks for the password in clear text",
            ServerMethod::Md5 => "the server asks for an md5 hash",
            ServerMethod::ScramSha256 => "the server asks for SCRAM-SHA-256",
            ServerMethod::None => "the server requests no authentication",
        };
        let (allowed, advice) = match self {
            RequireAuth::Any => return Ok(()),
            RequireAuth::Only(methods) => {
                (methods.0 & method.bit() != 0, "change require_auth or the server's pg_hba.conf")
            }
            RequireAuth::Not(methods) => {
                (methods.0 & method.bit() == 0, "change require_auth or the server's pg_hba.conf")
            }
            RequireAuth::Auto if trust.verified => return Ok(()),
            RequireAuth::Auto => match method {
                ServerMethod::Password => {
                    let advice = "verify the server ([tls.server] mode = \"verify-full\"), have it ask for scram-sha-256, \
                                  or allow this with require_auth = \"password\"";
                    (false, advice)
                }
                ServerMethod::None => {
                    let advice = "verify the server ([tls.server] mode = \"verify-full\"), have it ask for scram-sha-256, \
                                  remove the password, or allow this with require_auth = \"none\"";
                    (!trust.expects_request || trust.local, advice)
                }
                ServerMethod::Md5 | ServerMethod::ScramSha256 => (true, ""),
            },
        };
        if allowed {
            return Ok(());
        }
        let why = match (self, method) {
            (RequireAuth::Auto, ServerMethod::None) => {
                "although a password is configured, and its certificate is not verified"
            }
            (RequireAuth::Auto, _) => "and its certificate is not verified",
            _ => "which require_auth does not allow",
        };
        Err(format!("{did}, {why}: {advice}"))
    }
}

impl fmt::Display for RequireAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |methods: &Methods, sign: &str| {
            let named = WORDS.iter().enumerate().filter(|(bit, _)| methods.0 & 1 << bit != 0);
            named.map(|(_, word)| format!("{sign}{word}")).collect::<Vec<_>>().join(",")
        };
        match self {
            RequireAuth::Auto => f.write_str("auto"),
            RequireAuth::Any => f.write_str("any"),
            RequireAuth::Only(methods) => f.write_str(&list(methods, "")),
            RequireAuth::Not(methods) => f.write_str(&list(methods, "!")),
        }
    }
}

impl FromStr for RequireAuth {
    type Err = String;

    /// Reads the setting; the error completes the sentence "`require_auth` …".
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => return Ok(RequireAuth::Auto),
            "any" => return Ok(RequireAuth::Any),
            _ => {}
        }
        let mut methods = [0_u8; 2];
        for word in text.split(',').map(str::trim) {
            let (negated, word) = word.strip_prefix('!').map_or((0, word), |word| (1, word));
            let Some(bit) = WORDS.iter().position(|known| *known == word) else {
                let known = WORDS[..OURS].join(", ");
                return Err(format!("must be auto, any, or a list of {known}, in which all or none begin with \"!\""));
            };
            if methods[negated] & 1 << bit != 0 {
                return Err(format!("names {word} twice"));
            }
            methods[negated] |= 1 << bit;
        }
        match methods {
            [only, 0] if only < 1 << OURS => Ok(RequireAuth::Only(Methods(only))),
            [only, 0] if only.trailing_zeros() < OURS as u32 => Ok(RequireAuth::Only(Methods(only))),
            [_, 0] => Err("names only methods that Weir does not have: no server could be logged in to".to_owned()),
            [0, not] => Ok(RequireAuth::Not(Methods(not))),
            _ => Err("mixes methods with and without \"!\": let all of them begin with it, or none".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ServerMethod; 4] =
        [ServerMethod::Password, ServerMethod::Md5, ServerMethod::ScramSha256, ServerMethod::None];

    fn allowed(text: &str, trust: Trust) -> Vec<ServerMethod> {
        let require: RequireAuth = text.parse().unwrap();
        ALL.into_iter().filter(|method| require.check(*method, trust).is_ok()).collect()
    }

    #[test]
    fn lists_are_read_as_libpq_reads_them() {
        use ServerMethod::{Md5, None, Password, ScramSha256};
        let trusts = [false, true].map(|verified| Trust { verified, expects_request: true, local: false });
        for trust in trusts {
            assert_eq!(allowed("scram-sha-256", trust), [ScramSha256]);
            assert_eq!(allowed("password, md5", trust), [Password, Md5]);
            assert_eq!(allowed("none", trust), [None]);
            assert_eq!(allowed("none,scram-sha-256,gss", trust), [ScramSha256, None]);
            assert_eq!(allowed("!none", trust), [Password, Md5, ScramSha256]);
            assert_eq!(allowed("!password,!md5,!gss,!sspi,!oauth", trust), [ScramSha256, None]);
            assert_eq!(allowed("any", trust), ALL);
        }
    }

    #[test]
    fn without_a_setting_nothing_is_given_to_a_server_that_is_not_verified() {
        use ServerMethod::{Md5, None, ScramSha256};
        let trust = |verified, expects_request| Trust { verified, expects_request, local: false };
        assert_eq!(allowed("auto", trust(false, true)), [Md5, ScramSha256]);
        assert_eq!(allowed("auto", trust(false, false)), [Md5, ScramSha256, None], "nothing to request");
        assert_eq!(allowed("auto", trust(true, true)), ALL);
        let local = Trust { verified: false, expects_request: true, local: true };
        assert_eq!(allowed("auto", local), [Md5, ScramSha256, None], "a server of this machine may trust it");
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        let refused = |text: &str, method| {
            text.parse::<RequireAuth>()
                .unwrap()
                .check(method, Trust { verified: false, expects_request: true, local: false })
                .unwrap_err()
        };
        let clear = refused("auto", ServerMethod::Password);
        assert!(clear.contains("clear text") && clear.contains("require_auth = \"password\""), "{clear}");
        let none = refused("auto", ServerMethod::None);
        assert!(none.contains("no authentication") && none.contains("require_auth = \"none\""), "{none}");
        let not_listed = refused("scram-sha-256", ServerMethod::Md5);
        assert!(not_listed.contains("require_auth does not allow"), "{not_listed}");
    }

    #[test]
    fn a_printed_setting_is_read_back() {
        for text in ["auto", "any", "none", "password,md5", "scram-sha-256,none,gss", "!password,!md5"] {
            assert_eq!(text.parse::<RequireAuth>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_lets_a_server_ask_in_more_ways_is_less_strict() {
        let words = ["scram-sha-256", "auto", "!password", "md5,scram-sha-256", "password", "any", "none"];
        let parsed = words.map(|text| text.parse::<RequireAuth>().unwrap());
        let stricter = |a: &str, b: &str| {
            let at = |text: &str| parsed[words.iter().position(|word| *word == text).unwrap()];
            at(a).is_as_strict_as(at(b))
        };
        for word in words {
            assert!(stricter(word, word) && stricter(word, "any") && stricter("none", word), "{word}");
            assert_eq!(stricter("any", word), word == "any", "{word}");
        }
        assert!(stricter("scram-sha-256", "auto") && !stricter("auto", "scram-sha-256"));
        assert!(stricter("!password", "auto") && !stricter("auto", "!password"), "a verified server may ask");
        assert!(!stricter("password", "md5,scram-sha-256") && !stricter("md5,scram-sha-256", "scram-sha-256"));
    }

    #[test]
    fn errors_name_the_invalid_word() {
        for (text, part) in [
            ("", "must be auto, any"),
            ("scram", "must be auto, any"),
            ("md5,", "must be auto, any"),
            ("!!md5", "must be auto, any"),
            ("md5,auto", "must be auto, any"),
            ("MD5", "must be auto, any"),
            ("md5,md5", "names md5 twice"),
            ("!md5, !md5", "names md5 twice"),
            ("md5,!none", "mixes"),
            ("gss,sspi", "does not have"),
        ] {
            let error = text.parse::<RequireAuth>().unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
