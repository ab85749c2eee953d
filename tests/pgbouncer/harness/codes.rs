//! SQLSTATEs: PgBouncer 1.18 sends 08P01 for every error; Weir sends the SQLSTATE of the kind of error, as in
//! docs/errors.md.

/// The beginning of an error's text, and Weir's SQLSTATE for it.
const CODES: [(&str, &str); 30] = [
    ("password authentication failed", "28P01"),
    ("SASL authentication failed", "28P01"),
    ("no such user", "28P01"),
    ("empty password returned by client", "28P01"),
    ("\"trust\" authentication failed", "28P01"),
    ("login rejected", "28000"),
    ("unix socket login rejected", "28000"),
    ("not allowed", "28000"),
    ("no such database", "3D000"),
    ("bouncer config error", "F0000"),
    ("no username supplied", "28P01"),
    ("database removed", "57P01"),
    ("database \"app\" is disabled", "57P03"),
    ("database \"nowhere\" does not exist", "3D000"),
    ("database \"does_not_exist\" does not exist", "3D000"),
    ("no more connections allowed", "53300"),
    ("query_wait_timeout", "57014"),
    ("query timeout", "57014"),
    ("client_idle_timeout", "57P05"),
    ("idle transaction timeout", "25P03"),
    ("server conn crashed?", "08006"),
    ("the database system is starting up", "57P03"),
    ("server login failed", "08006"),
    ("admin forced disconnect", "57P01"),
    ("the pooler is shut down", "57P01"),
    ("server shutting down", "57P01"),
    ("database configuration changed", "3D000"),
    ("pgbouncer is paused", "57P01"),
    ("TLS required", "28000"),
    ("TLS certificate name mismatch", "28000"),
];

/// A fact of PgBouncer with Weir's SQLSTATE instead of 08P01.
pub(super) fn exact(fact: &str) -> String {
    CODES.iter().fold(fact.to_owned(), |fact, (text, code)| {
        let error_of = |severity: &str, code: &str| format!("{severity} {code} {text}");
        fact.replace(&error_of("FATAL", "08P01"), &error_of("FATAL", code))
            .replace(&error_of("Error", "08P01"), &error_of("Error", code))
    })
}
