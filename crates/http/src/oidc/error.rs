//! Why a login through the provider failed: a word for the login page, and a sentence for the log.

/// Why a login failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SsoError {
    /// No provider is configured.
    Off,
    /// The login was not begun in this browser, was used before, or took too long.
    Expired,
    /// The provider can't be used: why.
    Provider(String),
    /// The provider refused the user, with this error.
    Refused(String),
    /// The identity that the provider sent is not valid: why.
    Token(String),
    /// No group of this user has a role.
    Group(String),
    /// Too many attempts from this address.
    TooMany,
}

impl SsoError {
    /// The word in the address of the login page, which has a text for each. A text in the address could be anybody's.
    pub fn word(&self) -> &'static str {
        match self {
            SsoError::Off => "off",
            SsoError::Expired => "expired",
            SsoError::Provider(_) => "provider",
            SsoError::Refused(_) => "refused",
            SsoError::Token(_) => "token",
            SsoError::Group(_) => "group",
            SsoError::TooMany => "attempts",
        }
    }

    /// What an operator must know beyond the word, on one line.
    pub fn line(&self) -> Option<String> {
        match self {
            SsoError::Off | SsoError::Expired | SsoError::TooMany => None,
            SsoError::Provider(why) => Some(format!("the provider can't be used: {why}")),
            SsoError::Refused(why) => Some(format!("the provider refused a login: {why}")),
            SsoError::Token(why) => Some(format!("the provider's identity token is refused: {why}")),
            SsoError::Group(user) => Some(format!("no group of {user} has a role")),
        }
    }
}
