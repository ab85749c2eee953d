//! SQLSTATEs: PgBouncer 1.18 sends 08P01 for every error; Weir and later versions send the server's own for those of
//! servers.

/// The beginning of a server's error, and its SQLSTATE.
const CODES: [(&str, &str); 3] = [
    ("database \"nowhere\" does not exist", "3D000"),
    ("database \"does_not_exist\" does not exist", "3D000"),
    ("the database system is starting up", "57P03"),
];

/// A fact of PgBouncer with the server's SQLSTATE instead of 08P01.
pub(super) fn exact(fact: &str) -> String {
    CODES.iter().fold(fact.to_owned(), |fact, (text, code)| {
        let error_of = |severity: &str, code: &str| format!("{severity} {code} {text}");
        fact.replace(&error_of("FATAL", "08P01"), &error_of("FATAL", code))
            .replace(&error_of("Error", "08P01"), &error_of("Error", code))
    })
}
