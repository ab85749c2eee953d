//! Settings of one pool: its server, how to log in there, and the rules of sharing.

use weir_base::{Mode, OnDirty};

use crate::table::{Effect, Kind, Place, Section::Pool, Setting, Slot};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Pool,
        "host",
        Kind::Text,
        "",
        Place::Pool(|p| Slot::Text(&mut p.host)),
        "The server: an address, a name, or the folder of its socket. Must be given.",
    )
    .database("host")
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "port",
        Kind::Number { min: 1, max: 65_535 },
        "5432",
        Place::Pool(|p| Slot::U16(&mut p.port)),
        "The server's port.",
    )
    .database("port")
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "database",
        Kind::Text,
        "",
        Place::Pool(|p| Slot::Text(&mut p.database)),
        "The database on the server. Default: the pool's name.",
    )
    .database("dbname")
    .aliases(&["dbname"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "user",
        Kind::Text,
        "",
        Place::Pool(|p| Slot::Text(&mut p.user)),
        "The user on the server. Default: each client's own, with servers of their own for each user.",
    )
    .database("user")
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "password",
        Kind::Secret,
        "",
        Place::Pool(|p| Slot::Text(&mut p.password)),
        "The password of `user` on the server.",
    )
    .database("password")
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "password_file",
        Kind::Text,
        "",
        Place::Pool(|p| Slot::Text(&mut p.password_file)),
        "A file that holds the password, in place of `password`; a line end after it is dropped. Relative to the \
         folder of this file.",
    )
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "password_env",
        Kind::Text,
        "",
        Place::Pool(|p| Slot::Text(&mut p.password_env)),
        "An environment variable that holds the password, in place of `password`.",
    )
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "mode",
        Kind::Word(Mode::WORDS),
        "",
        Place::Pool(|p| Slot::Mode(&mut p.mode)),
        "How long a client keeps a server of this pool. Default: that of `[general]`.",
    )
    .database("pool_mode")
    .aliases(&["pool_mode"]),
    Setting::new(
        Pool,
        "on_dirty",
        Kind::Word(OnDirty::WORDS),
        "",
        Place::Pool(|p| Slot::OnDirty(&mut p.on_dirty)),
        "What happens to a server of this pool on which a client left state. Default: that of `[general]`.",
    ),
];
