//! An application and its user in words.

use weir_admin::{NamedClients, identifier, quoted};

/// An application and its user.
pub(crate) fn named(of: &NamedClients) -> String {
    match of.application_name.as_str() {
        "" => format!("a client of {}", identifier(&of.user)),
        name => format!("{} of {}", quoted(name), identifier(&of.user)),
    }
}
