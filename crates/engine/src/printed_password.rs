//! A password for logins at servers that a program has printed (`password_command`).

use std::sync::Arc;

/// What a program has printed. Never shown.
#[derive(Clone)]
pub struct PrintedPassword {
    /// The password.
    pub password: Arc<str>,
    /// Whether the program was run for this login: if the server refuses the password, a second run would not help.
    pub is_new: bool,
}
