//! Rules of single users; for unset ones the pool's or the process's value holds.

use weir_base::PoolMode;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::{Field, Section::User, Setting};

const ANY_TIME: Kind = Kind::ANY_TIME;
const COUNT: Kind = Kind::Number { min: 0, max: 10_000_000 };

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        User,
        "disabled",
        Kind::Flag,
        "",
        Field::User(|u| FieldMut::Flag(&mut u.disabled)),
        "Whether the user may not log in, also with the right password. Connected clients stay.",
    ),
    Setting::new(
        User,
        "pools",
        Kind::Names,
        "",
        Field::User(|u| FieldMut::Names(&mut u.pools)),
        "The pools that the user's clients may use; without it, all. A rule of `hba_file` must let them in as well. The \
         console is none of these pools.",
    ),
    Setting::new(
        User,
        "former_secret",
        Kind::Secret,
        "",
        Field::User(|u| FieldMut::Concealed(&mut u.former_secret.0)),
        "The secret before the present one, valid until `former_secret_until`. Both are SCRAM secrets with the same salt \
         and iterations, as a change of the password with the panel or the API makes them.",
    ),
    Setting::new(
        User,
        "former_secret_until",
        Kind::Moment,
        "",
        Field::User(|u| FieldMut::Moment(&mut u.former_secret_until)),
        "When `former_secret` ends: a time in UTC, as in `2026-07-01T12:00:00Z`.",
    ),
    Setting::new(
        User,
        "mode",
        Kind::Word(PoolMode::WORDS),
        "",
        Field::User(|u| FieldMut::MaybeMode(&mut u.mode)),
        "How long the user's clients keep a server.",
    )
    .user("pool_mode")
    .aliases(&["pool_mode"]),
    Setting::new(
        User,
        "size",
        COUNT,
        "",
        Field::User(|u| FieldMut::MaybeU32(&mut u.pool_size)),
        "The most server connections of each of the user's pools. 0: any number.",
    )
    .user("pool_size")
    .aliases(&["pool_size"]),
    Setting::new(
        User,
        "reserve_size",
        COUNT,
        "",
        Field::User(|u| FieldMut::MaybeU32(&mut u.reserve_size)),
        "Server connections beyond `size`, for clients that have waited `reserve_timeout`.",
    )
    .user("reserve_pool_size")
    .aliases(&["reserve_pool_size"]),
    Setting::new(
        User,
        "max_user_connections",
        COUNT,
        "",
        Field::User(|u| FieldMut::MaybeU32(&mut u.max_connections)),
        "The most server connections of the user, over all pools. 0: any number.",
    )
    .user("max_user_connections"),
    Setting::new(
        User,
        "max_user_client_connections",
        COUNT,
        "",
        Field::User(|u| FieldMut::MaybeU32(&mut u.max_client_connections)),
        "The most clients of the user, over all pools. 0: any number.",
    )
    .user("max_user_client_connections"),
    Setting::new(
        User,
        "query_timeout",
        ANY_TIME,
        "",
        Field::User(|u| FieldMut::MaybeSpan(&mut u.query_timeout)),
        "How long the user's queries may run.",
    )
    .user("query_timeout"),
    Setting::new(
        User,
        "query_wait_timeout",
        ANY_TIME,
        "",
        Field::User(|u| FieldMut::MaybeSpan(&mut u.query_wait_timeout)),
        "How long the user's clients may wait for a server.",
    )
    .user("query_wait_timeout"),
    Setting::new(
        User,
        "idle_transaction_timeout",
        ANY_TIME,
        "",
        Field::User(|u| FieldMut::MaybeSpan(&mut u.idle_transaction_timeout)),
        "How long the user's transactions may idle.",
    )
    .user("idle_transaction_timeout"),
    Setting::new(
        User,
        "transaction_timeout",
        ANY_TIME,
        "",
        Field::User(|u| FieldMut::MaybeSpan(&mut u.transaction_timeout)),
        "How long the user's transactions may last.",
    )
    .user("transaction_timeout"),
    Setting::new(
        User,
        "client_idle_timeout",
        ANY_TIME,
        "",
        Field::User(|u| FieldMut::MaybeSpan(&mut u.client_idle_timeout)),
        "How long the user's clients may idle without a server.",
    )
    .user("client_idle_timeout"),
];
