//! Other processes behind the same address, to which requests to cancel are passed on.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{MAX_PEER_ID, PeerRules};
use crate::table::{Field, Section::Peer, Section::Process, Setting};

/// The range of a peer's number.
const ID: Kind = Kind::Number { min: 0, max: MAX_PEER_ID as u64 };

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Process,
        "peer_id",
        ID,
        "0",
        Field::Config(|c| FieldMut::U16(&mut c.peer_id)),
        "The number of this process among its peers, which is a part of every cancel key. 0: it has none, and passes no \
         request on.",
    )
    .ini("peer_id"),
    Setting::new(
        Peer,
        "host",
        Kind::Host,
        "",
        Field::Peer(|p| FieldMut::Line(&mut p.host)),
        "Where the peer alone is reached: an address, a name, or the folder of its Unix socket.",
    ),
    Setting::new(
        Peer,
        "port",
        Kind::Number { min: 1, max: 65_535 },
        "6432",
        Field::Peer(|p| FieldMut::U16(&mut p.port)),
        "Its port; of a Unix socket a part of the name.",
    ),
    Setting::new(
        Peer,
        "pool_size",
        Kind::Number { min: 0, max: 1_000_000 },
        "",
        Field::Peer(|p| FieldMut::MaybeU32(&mut p.pool_size)),
        "How many requests are passed on to it at once; others wait. Default: `size` of `[limits]`. 0: any number.",
    ),
];

impl PeerRules {
    /// A peer of which nothing is known yet.
    pub(crate) fn blank() -> PeerRules {
        PeerRules { host: String::new(), port: 6432, pool_size: None }
    }
}
