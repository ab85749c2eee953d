//! SQLSTATEs: PgBouncer 1.18 says 08P01 whatever happened; Weir says which kind of refusal it is, as docs/errors.md
//! lists.

/// How the text of a refusal begins, and Weir's SQLSTATE for it.
const CODES: [(&str, &str); 29] = [
    ("password authentication failed", "28P01"),
    ("SASL authentication failed", "28P01"),
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

/// A fact of PgBouncer's with the SQLSTATE that Weir says instead of 08P01.
pub(super) fn exact(fact: &str) -> String {
    CODES.iter().fold(fact.to_owned(), |fact, (text, code)| {
        let said = |severity: &str, code: &str| format!("{severity} {code} {text}");
        fact.replace(&said("FATAL", "08P01"), &said("FATAL", code))
            .replace(&said("Error", "08P01"), &said("Error", code))
    })
}
