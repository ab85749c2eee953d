//! A password for logins at servers that a program has printed (`password_command`), or a service has made
//! (`password_source`).

use std::sync::Arc;

/// What a program has printed, or a service has made. Never shown.
#[derive(Clone)]
pub struct PrintedPassword {
    /// The password.
    pub password: Arc<str>,
    /// Whether it was made for this login: if the server refuses the password, another one would not help.
    pub is_new: bool,
    /// Where it comes from and when it is valid, as the end of an error of a server that refuses it.
    pub about: Option<Arc<str>>,
    /// Why there is no newer one, where one is due: a line for the log.
    pub overdue: Option<String>,
}
