//! An error of a server, as it is read from an ErrorResponse.

use weir_pgwire::{ErrorFields, backend, put_back};

/// PostgreSQL's error for a statement whose shape has changed, and the function by which drivers recognise it.
const CHANGED: ErrorFields<'static> = ErrorFields {
    severity: "ERROR",
    sqlstate: "0A000",
    message: "cached plan must not change result type",
    detail: None,
    hint: None,
};
pub(crate) const CHANGED_CODE: &[u8; 5] = b"0A000";
pub(crate) const CHANGED_BY: &str = "RevalidateCachedQuery";

/// Writes the error for a client whose statement has another shape than it was given.
pub(crate) fn write_changed(buffer: &mut Vec<u8>) {
    put_back::error_from(buffer, &CHANGED, CHANGED_BY);
}

/// An error of a server: the SQLSTATE and the message that it gave, or ours where there was no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerError {
    /// The error's SQLSTATE.
    pub sqlstate: String,
    /// The error's message.
    pub message: String,
}

/// What a client reads before the reason of a login that failed without an answer of the server's (PgBouncer).
const LOGIN_FAILED: &str = "server login failed: ";

impl ServerError {
    /// The error of a login, for which the server has sent no error: its SQLSTATE is that of a connection that failed.
    pub(crate) fn of_login(why: &str) -> ServerError {
        ServerError { sqlstate: "08006".into(), message: format!("{LOGIN_FAILED}{why}") }
    }

    /// Why a login failed, where what failed is said already.
    pub fn reason(&self) -> &str {
        self.message.strip_prefix(LOGIN_FAILED).unwrap_or(&self.message)
    }

    /// The error of a login of our own; what failed is said once.
    pub fn of_own_login(self) -> ServerError {
        let message = format!("{LOGIN_FAILED}{}", self.reason());
        ServerError { message, ..self }
    }
}

/// What an error says of the statements on a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Statements {
    /// Nothing.
    AsBelieved,
    /// The statements were prepared under other definitions ("cached plan must not change result type").
    Outdated,
    /// The statement that was used means nothing any more with the types that its parameters had when it was prepared.
    Unanalysed,
    /// A statement is gone.
    Missing,
    /// A statement is there already.
    Taken,
}

/// What matters of an ErrorResponse.
pub(crate) struct ErrorRead {
    pub(crate) error: ServerError,
    /// The server closes the connection.
    pub(crate) fatal: bool,
    /// The SQLSTATE, which is letters and digits.
    pub(crate) code: [u8; 5],
    /// What the error says of the server's statements.
    pub(crate) statements: Statements,
}

/// Whether an error comes from this file of PostgreSQL's parse analysis, which no RAISE can name. Names of types mean the
/// same whichever the parameters are, and values of parameters may be such names (`regtype`).
fn is_of_analysis(file: &str) -> bool {
    file.starts_with("parse_") && file.ends_with(".c") && file != "parse_type.c"
}

/// Reads an error as far as it is there; a missing field is nothing worse than missing (CVE-2026-6666).
pub(crate) fn read_error(body: &[u8]) -> ErrorRead {
    let view = backend::error_fields(body).ok();
    let get = |code: u8| view.as_ref().and_then(|v| v.get(code)).map(|t| String::from_utf8_lossy(t).into_owned());
    let severity = get(b'V').or_else(|| get(b'S')).unwrap_or_default();
    let sqlstate = get(b'C').filter(|s| s.len() == 5).unwrap_or_else(|| "XX000".into());
    let message = get(b'M').unwrap_or_else(|| "the server sent an error without a text".into());
    // A function may raise any error, and PostgreSQL adds where it was: an error about a statement of the protocol has no
    // such context.
    let raised = view.as_ref().is_some_and(|fields| fields.get(b'W').is_some());
    let statements = match sqlstate.as_str() {
        _ if raised => Statements::AsBelieved,
        // "cached plan must not change result type", in the language of the server; others have the same code.
        "0A000" if get(b'R').is_none_or(|routine| routine == CHANGED_BY) => Statements::Outdated,
        "26000" => Statements::Missing,
        "42P05" => Statements::Taken,
        _ if get(b'F').is_some_and(|file| is_of_analysis(&file)) => Statements::Unanalysed,
        _ => Statements::AsBelieved,
    };
    let fatal = matches!(severity.as_str(), "FATAL" | "PANIC");
    let letters = sqlstate.as_bytes().first_chunk().filter(|code| code.iter().all(u8::is_ascii_alphanumeric));
    let code = *letters.unwrap_or(b"XX000");
    ErrorRead { fatal, code, statements, error: ServerError { sqlstate, message } }
}

#[cfg(test)]
mod tests {
    use weir_pgwire::{ErrorFields, HEAD, put_back};

    use super::*;

    #[test]
    fn an_error_with_a_context_says_nothing_of_the_statements() {
        for (sqlstate, says) in
            [("0A000", Statements::Outdated), ("26000", Statements::Missing), ("42P05", Statements::Taken)]
        {
            let fields = ErrorFields { severity: "ERROR", sqlstate, message: "m", detail: None, hint: None };
            let (mut plain, mut raised) = (Vec::new(), Vec::new());
            put_back::error(&mut plain, &fields);
            put_back::error_with(&mut raised, &plain[HEAD..], &[(b'W', "PL/pgSQL function f() line 1 at RAISE")]);
            assert_eq!(read_error(&plain[HEAD..]).statements, says);
            assert_eq!(read_error(&raised[HEAD..]).statements, Statements::AsBelieved, "{sqlstate}");
        }
    }
}
