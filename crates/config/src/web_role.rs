//! The roles at the control plane, by their names.

use std::str::FromStr;

/// What an account may do at the control plane; a greater role may do more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WebRole {
    /// May read.
    Viewer,
    /// May pause, resume, reconnect, reload, and disconnect clients.
    Operator,
    /// May change pools and settings.
    Admin,
}

impl WebRole {
    /// All roles.
    pub const ALL: [WebRole; 3] = [WebRole::Viewer, WebRole::Operator, WebRole::Admin];

    /// The roles that include this one, for a sentence.
    pub fn and_more(self) -> &'static str {
        match self {
            WebRole::Viewer => "viewers, operators and admins",
            WebRole::Operator => "operators and admins",
            WebRole::Admin => "admins",
        }
    }

    /// The role's name.
    pub fn name(self) -> &'static str {
        match self {
            WebRole::Viewer => "viewer",
            WebRole::Operator => "operator",
            WebRole::Admin => "admin",
        }
    }
}

impl FromStr for WebRole {
    type Err = String;

    fn from_str(text: &str) -> Result<WebRole, String> {
        WebRole::ALL
            .into_iter()
            .find(|role| role.name() == text)
            .ok_or_else(|| "must be viewer, operator or admin".to_owned())
    }
}
