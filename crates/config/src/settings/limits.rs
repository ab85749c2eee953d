//! Limits, numbers and times: in `[limits]` for all pools, in a pool for itself.

use weir_base::{STATE_KINDS, Span};

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{ListenBy, OnServerDown};
use crate::table::{Field, Reach, Section::Limits, Setting};

const ANY_TIME: Kind = Kind::ANY_TIME;
/// More server connections than any PostgreSQL can have.
const CONNECTIONS: u64 = 1_000_000;

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Limits,
        "size",
        Kind::Number { min: 0, max: CONNECTIONS },
        "20",
        Field::Limits(|l| FieldMut::U32(&mut l.size)),
        "The most server connections of a pool. 0: any number.",
    )
    .ini("default_pool_size")
    .database(&["pool_size"])
    .aliases(&["pool_size", "default_pool_size"]),
    Setting::new(
        Limits,
        "min_size",
        Kind::Number { min: 0, max: CONNECTIONS },
        "0",
        Field::Limits(|l| FieldMut::U32(&mut l.min_size)),
        "Server connections that are kept open even when idle. Needs a `user` in the pool, or a client.",
    )
    .ini("min_pool_size")
    .database(&["min_pool_size"])
    .aliases(&["min_pool_size"]),
    Setting::new(
        Limits,
        "reserve_size",
        Kind::Number { min: 0, max: CONNECTIONS },
        "0",
        Field::Limits(|l| FieldMut::U32(&mut l.reserve_size)),
        "Server connections beyond `size`, for clients that have waited `reserve_timeout`.",
    )
    .ini("reserve_pool_size")
    .database(&["reserve_pool_size", "reserve_pool"])
    .aliases(&["reserve_pool_size", "reserve_pool"]),
    Setting::new(
        Limits,
        "reserve_timeout",
        ANY_TIME,
        "5s",
        Field::Limits(|l| FieldMut::Span(&mut l.reserve_timeout)),
        "How long a client must have waited before the reserve is used. 0: it is not used.",
    )
    .ini("reserve_pool_timeout")
    .aliases(&["reserve_pool_timeout"]),
    Setting::new(
        Limits,
        "max_pinned",
        Kind::Number { min: 0, max: 100 },
        "80",
        Field::Limits(|l| FieldMut::U32(&mut l.max_pinned)),
        "With `mode = \"auto\"`: how many of a pool's servers clients may keep between transactions for the state that they \
         have left (LISTEN, temporary tables …), in percent of `size`, at least one. One client more is disconnected, with the \
         reason. The server that listens for all clients counts, too. 0: no limit.",
    )
    .ini_own("max_pinned"),
    Setting::new(
        Limits,
        "listen",
        Kind::Word(ListenBy::WORDS),
        "auto",
        Field::Limits(|l| FieldMut::ListenBy(&mut l.listen)),
        "By which connection clients listen (LISTEN). `shared`: by one of the pool's servers for all of them, in the modes \
         auto and transaction. `own`: each by its own server, which it keeps in mode auto; in mode transaction it loses its \
         channels with the transaction. `auto`: `shared` in mode auto, `own` in the others. A pool whose `size` is not \
         greater than the number of workers, or whose servers are limited together with others', has none to share. \
         Clients that are logged in keep what they have. See [pooling.md](pooling.md#listen).",
    )
    .ini_own("listen"),
    Setting::new(
        Limits,
        "pin_refuse",
        Kind::Words(&STATE_KINDS),
        "",
        Field::Limits(|l| FieldMut::StateKinds(&mut l.pin_refuse)),
        "With `mode = \"auto\"`: the kinds of state for which no client may keep a server, of `settings`, `listen`, \
         `statements`, `cursors`, `temporary_objects`, `advisory_locks` and `sequences`. A statement that would certainly leave such \
         state gets an ERROR; a client whose state is found afterwards is disconnected; of `sequences` only what an earlier \
         transaction has drawn is lost. See [pooling.md](pooling.md#auto).",
    )
    .ini_own("pin_refuse"),
    Setting::new(
        Limits,
        "max_prepared_statements",
        Kind::Number { min: 0, max: 1_000_000 },
        "200",
        Field::Limits(|l| FieldMut::U32(&mut l.max_prepared_statements)),
        "Prepared statements kept on each server, the least used replaced first. 0: clients share none, and named \
         statements work in session mode only.",
    )
    .ini("max_prepared_statements"),
    Setting::new(
        Limits,
        "query_wait_timeout",
        ANY_TIME,
        "120s",
        Field::Limits(|l| FieldMut::Span(&mut l.query_wait_timeout)),
        "How long a client may wait for a server before it is refused. 0: any time.",
    )
    .ini("query_wait_timeout")
    .database(&["query_wait_timeout"]),
    Setting::new(
        Limits,
        "query_wait_notify",
        ANY_TIME,
        "5s",
        Field::Limits(|l| FieldMut::Span(&mut l.query_wait_notify)),
        "After this time a waiting client receives a notice. 0: never.",
    )
    .ini("query_wait_notify"),
    Setting::new(
        Limits,
        "query_timeout",
        ANY_TIME,
        "0",
        Field::Limits(|l| FieldMut::Span(&mut l.query_timeout)),
        "How long a reply of a server to a query may take before the server and its client are disconnected. 0: any \
         time.",
    )
    .ini("query_timeout"),
    Setting::new(
        Limits,
        "idle_transaction_timeout",
        ANY_TIME,
        "0",
        Field::Limits(|l| FieldMut::Span(&mut l.idle_transaction_timeout)),
        "How long a client may hold its server without progress (in a transaction, a pipeline without a Sync, an \
         unfinished message or COPY, a result that it does not read) before both are disconnected. 0: any time.",
    )
    .ini("idle_transaction_timeout"),
    Setting::new(
        Limits,
        "transaction_timeout",
        ANY_TIME,
        "0",
        Field::Limits(|l| FieldMut::Span(&mut l.transaction_timeout)),
        "How long a transaction may last, including one of a single statement, before its client and its server are \
         disconnected. 0: any time.",
    )
    .ini("transaction_timeout"),
    Setting::new(
        Limits,
        "client_idle_timeout",
        ANY_TIME,
        "0",
        Field::Limits(|l| FieldMut::Span(&mut l.client_idle_timeout)),
        "How long a client without a server may idle before it is disconnected. 0: any time.",
    )
    .ini("client_idle_timeout"),
    Setting::new(
        Limits,
        "server_lifetime",
        ANY_TIME,
        "3600s",
        Field::Limits(|l| FieldMut::Span(&mut l.server_lifetime)),
        "The age at which a server connection is replaced when it is free. Replacements are spread over time. 0: \
         each is used once.",
    )
    .ini("server_lifetime")
    .database(&["server_lifetime"]),
    Setting::new(
        Limits,
        "server_idle_timeout",
        ANY_TIME,
        "600s",
        Field::Limits(|l| FieldMut::Span(&mut l.server_idle_timeout)),
        "How long a server connection beyond `min_size` may be unused before it is closed. 0: any time.",
    )
    .ini("server_idle_timeout"),
    Setting::new(
        Limits,
        "server_connect_timeout",
        ANY_TIME,
        "15s",
        Field::Limits(|l| FieldMut::Span(&mut l.server_connect_timeout)),
        "How long connecting and logging in to a server may take. 0: any time.",
    )
    .ini("server_connect_timeout"),
    Setting::new(
        Limits,
        "server_login_retry",
        ANY_TIME,
        "15s",
        Field::Limits(|l| FieldMut::Span(&mut l.server_login_retry)),
        "The longest pause between a failed login and the next attempt. While clients wait for a server that is away, there \
         is an attempt at least every 50 ms.",
    )
    .ini("server_login_retry"),
    Setting::new(
        Limits,
        "on_server_down",
        Kind::Word(OnServerDown::WORDS),
        "wait",
        Field::Limits(|l| FieldMut::OnServerDown(&mut l.on_server_down)),
        "What clients get while no server of their pool can be reached (a restart, a failover): `wait`, a server as soon \
         as there is one, within `query_wait_timeout`; `refuse`, the error at once, which suits drivers that know \
         several hosts. What waiting does not change, such as a wrong password, is always an error at once.",
    )
    .ini_own("on_server_down")
    .database_own(&["on_server_down"]),
    Setting::new(
        Limits,
        "old_primary_timeout",
        ANY_TIME,
        "1s",
        Field::Limits(|l| FieldMut::Span(&mut l.old_primary_timeout)),
        "How long transactions at the old primary may go on when a pool with `target_session_attrs` `read-write` or \
         `primary` has found another one. Clients wait for them, and then get servers of the new primary; clients whose \
         transactions take longer are disconnected. 0: at once.",
    )
    .ini_own("old_primary_timeout")
    .database_own(&["old_primary_timeout"]),
    Setting::new(
        Limits,
        "switch_timeout",
        Kind::Time { min: Span::from_secs(1) },
        "30s",
        Field::Limits(|l| FieldMut::Span(&mut l.switch_timeout)),
        "How long the console's `SWITCH` waits until the transactions at the old host have ended, and the new one takes \
         writes. Then the pool goes back to the old host.",
    )
    .ini_own("switch_timeout")
    .database_own(&["switch_timeout"]),
    Setting::new(
        Limits,
        "first_server_timeout",
        ANY_TIME,
        "5s",
        Field::Limits(|l| FieldMut::Span(&mut l.first_server_timeout)),
        "How long a client that logs in waits while no server of its pool has been reached since the start, which often is a \
         wrong host or port. It gets the reason then. 0: as long as `client_login_timeout` allows. Does not apply once a \
         server of the pool has logged in, nor while a server starts up: then `on_server_down` and `query_wait_timeout` do.",
    )
    .ini_own("first_server_timeout")
    .ini_default("0"),
    Setting::new(
        Limits,
        "server_check_delay",
        ANY_TIME,
        "30s",
        Field::Limits(|l| FieldMut::Span(&mut l.server_check_delay)),
        "A server that was unused for longer is checked before it is assigned. 0: always.",
    )
    .ini("server_check_delay"),
    Setting::new(
        Limits,
        "cancel_wait_timeout",
        ANY_TIME,
        "10s",
        Field::Limits(|l| FieldMut::Span(&mut l.cancel_wait_timeout)),
        "How long a cancel request may wait for its connection. 0: any time.",
    )
    .ini("cancel_wait_timeout"),
    Setting::new(
        Limits,
        "server_round_robin",
        Kind::Flag,
        "false",
        Field::Limits(|l| FieldMut::Flag(&mut l.server_round_robin)),
        "Assign the server that was unused the longest, instead of the one used last.",
    )
    .ini("server_round_robin"),
    Setting::new(
        Limits,
        "connects_per_second",
        Kind::Number { min: 1, max: 100_000 },
        "100",
        Field::Limits(|l| FieldMut::U32(&mut l.connects_per_second)),
        "The most connections to its server that a pool opens per second.",
    )
    .ini_own("connects_per_second"),
    Setting::new(
        Limits,
        "max_db_connections",
        Kind::Number { min: 0, max: CONNECTIONS },
        "0",
        Field::Limits(|l| FieldMut::U32(&mut l.max_db_connections)),
        "The most server connections of a database, by the name that clients use, over all users. 0: any number.",
    )
    .ini("max_db_connections")
    .database(&["max_db_connections"]),
    Setting::new(
        Limits,
        "max_db_client_connections",
        Kind::Number { min: 0, max: 10_000_000 },
        "0",
        Field::Limits(|l| FieldMut::U32(&mut l.max_db_client_connections)),
        "The most clients of a database, by the name that they use, over all users. 0: any number.",
    )
    .ini("max_db_client_connections")
    .database(&["max_db_client_connections"]),
    Setting::new(
        Limits,
        "client_statements",
        Kind::Number { min: 1, max: 10_000_000 },
        "10000",
        Field::Limits(|l| FieldMut::U32(&mut l.client_statements)),
        "The most prepared statements that a client may hold; the Parse of one more fails.",
    )
    .ini_own("client_statements"),
    Setting::new(
        Limits,
        "client_statement_memory",
        Kind::Size { min: 0, max: 1 << 40 },
        "0B",
        Field::Limits(|l| FieldMut::U64(&mut l.client_statement_memory)),
        "The most bytes of statements that a client may hold, shared ones included; beyond it a Parse fails. 0: an \
         eighth of `statement_memory`.",
    )
    .ini_own("client_statement_memory"),
    Setting::new(
        Limits,
        "pool_statement_memory",
        Kind::Size { min: 0, max: 1 << 40 },
        "0B",
        Field::Limits(|l| FieldMut::U64(&mut l.pool_statement_memory)),
        "The most bytes of statements that the clients of a pool may hold together, on all workers; beyond it a Parse fails. \
         0: half of `statement_memory`.",
    )
    .ini_own("pool_statement_memory"),
    Setting::new(
        Limits,
        "statement_memory",
        Kind::Size { min: 1 << 20, max: 1 << 40 },
        "256MiB",
        Field::Limits(|l| FieldMut::U64(&mut l.statement_memory)),
        "The most bytes of statements that the process keeps, for all pools and workers together; beyond it a Parse of a new \
         statement fails.",
    )
    .ini_own("statement_memory")
    .reach(Reach::One),
];
