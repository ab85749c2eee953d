//! Database servers whose connections several pools share.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::ServerRules;
use crate::table::{Field, Section::Server, Setting};

pub(super) static SETTINGS: &[Setting] = &[Setting::new(
    Server,
    "max_connections",
    Kind::Number { min: 1, max: 1_000_000 },
    "",
    Field::Server(|s| FieldMut::U32(&mut s.max_connections)),
    "The most connections that the pools of this server (`server = \"NAME\"`) have together: less than what the server \
     takes, since administrators and others connect, too. Of this process: nodes of a cluster have as many each. Required.",
)];

impl ServerRules {
    /// A server of which nothing is known yet.
    pub(crate) fn blank() -> ServerRules {
        ServerRules { max_connections: 0, guaranteed: 0 }
    }
}
