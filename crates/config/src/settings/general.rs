//! Settings of the process as a whole: workers, clients, modes, the console, what the protocol allows.

use weir_base::{OnDirty, PoolMode, Span};

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{SocketIo, Spread, UntrackedParameters};
use crate::table::{Effect, Field, Section::General, Setting};

/// More users or clients than any machine has.
const MANY: Kind = Kind::Number { min: 0, max: 10_000_000 };

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        General,
        "workers",
        Kind::CountOrAuto { max: 256 },
        "1",
        Field::Config(|c| FieldMut::CountOrAuto(&mut c.workers)),
        "Worker threads; `auto` is one for each core that the process may use (its CPU affinity and its cgroup's quota, \
         rounded down), and at most 64. Each pool is owned by one of them, which also serves its clients unless \
         `spread_clients` distributes them. One is enough until it keeps a core busy.",
    )
    .of_node()
    .ini_own("workers")
    .effect(Effect::Restart),
    Setting::new(
        General,
        "spread_clients",
        Kind::Word(Spread::WORDS),
        "busy",
        Field::Config(|c| FieldMut::Spread(&mut c.spread)),
        "When clients of one pool are served by several workers, which lend each other its servers: `busy`, if the \
         pool's worker is busy and another one is not; `always`, alternately; `never`. Decided when a client \
         connects; with `busy`, connected clients move, too, between two transactions ([scale.md](scale.md)).",
    )
    .of_node()
    .ini_own("spread_clients"),
    Setting::new(
        General,
        "io",
        Kind::Word(SocketIo::WORDS),
        "auto",
        Field::Config(|c| FieldMut::SocketIo(&mut c.io)),
        "How workers serve their sockets: `io_uring`, which costs less for short queries and more for large results \
         (docs/performance.md) and needs Linux 6.1 and a kernel that allows it, or `epoll`. `auto` is io_uring where \
         it is available, and epoll elsewhere; `io_uring` is the same, with a warning if it is not available. The \
         log's first line has the one in use.",
    )
    .of_node()
    .ini_own("io")
    .effect(Effect::Restart),
    Setting::new(
        General,
        "max_clients",
        Kind::Number { min: 1, max: 10_000_000 },
        "10000",
        Field::Config(|c| FieldMut::U32(&mut c.max_clients)),
        "The most clients at once. Lowered to what the limit of open files allows; the log reports this at the \
         start.",
    )
    .ini("max_client_conn")
    .aliases(&["max_client_conn"])
    .ini_default("100"),
    Setting::new(
        General,
        "mode",
        Kind::Word(PoolMode::WORDS),
        "auto",
        Field::Policy(|p| FieldMut::PoolMode(&mut p.mode)),
        "How long a client keeps a server: `session` until it disconnects, \
         `transaction` until its transaction ends, `statement` until its statement ends; `auto` until its transaction \
         ends, or as long as it has state on the server that can't follow it (LISTEN, temporary tables …).",
    )
    .ini("pool_mode")
    .database(&["pool_mode"])
    .aliases(&["pool_mode"])
    .ini_default("session"),
    Setting::new(
        General,
        "on_dirty",
        Kind::Word(OnDirty::WORDS),
        "reset",
        Field::Policy(|p| FieldMut::OnDirty(&mut p.on_dirty)),
        "What happens to a server on which a client left state (SET, LISTEN, \
         PREPARE, temporary tables): `keep` assigns it to the next client unchanged, as PgBouncer does; `reset` \
         resets it first; `close` closes it; `refuse` answers a request that would certainly leave state with an \
         error, and resets other state.",
    )
    .ini_own("on_dirty")
    .ini_default("keep"),
    Setting::new(
        General,
        "warn_on_dirty",
        Kind::Flag,
        "true",
        Field::Policy(|p| FieldMut::Flag(&mut p.warn_on_dirty)),
        "Send a client a WARNING, once for each kind, when its session state (SET, LISTEN, PREPARE, temporary \
         tables, WITH HOLD, advisory locks) is lost at the end of its transaction.",
    )
    .ini_own("warn_on_dirty")
    .ini_default("false"),
    Setting::new(
        General,
        "server_reset_query",
        Kind::Query,
        "DISCARD ALL",
        Field::Policy(|p| FieldMut::Line(&mut p.reset_query)),
        "Run on a server when a client of session mode disconnects. Its errors are ignored. Empty: no query.",
    )
    .ini("server_reset_query"),
    Setting::new(
        General,
        "server_reset_query_always",
        Kind::Flag,
        "false",
        Field::Policy(|p| FieldMut::Flag(&mut p.reset_always)),
        "Run `server_reset_query` in the other modes too, each time a server is released.",
    )
    .ini("server_reset_query_always"),
    Setting::new(
        General,
        "server_check_query",
        Kind::Query,
        "<empty>",
        Field::Policy(|p| FieldMut::Query(&mut p.check_query)),
        "Run on a server that was unused for longer than `server_check_delay`, before it is assigned. `<empty>` is \
         an empty query, which costs the least; an empty text turns the check off.",
    )
    .ini("server_check_query"),
    Setting::new(
        General,
        "require_auth",
        Kind::Text,
        "auto",
        Field::Policy(|p| FieldMut::RequireAuth(&mut p.require_auth)),
        "How a server may request authentication when Weir logs in, in libpq's words: a list of `password`, `md5`, \
         `scram-sha-256` and `none`, or of forbidden methods, each with `!` before it. With `auto`, the default, \
         unless the server's certificate is verified (`mode` of `[tls.server]`): a server receives no password in \
         clear text, and a server that requests no authentication is refused if the pool has a password, unless it is \
         on this machine (a Unix socket, or a loopback address). `any` accepts every request, as PgBouncer does.",
    )
    .ini_own("require_auth")
    .database_own(&["require_auth"])
    .ini_default("any")
    .effect(Effect::Reconnect),
    Setting::new(
        General,
        "server_fast_close",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.server_fast_close)),
        "Close servers of session mode as soon as their transaction has ended, with their clients, if a RECONNECT or \
         a changed address requires it; otherwise they are closed when their clients disconnect.",
    )
    .ini("server_fast_close"),
    Setting::new(
        General,
        "admin_users",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.admin_users)),
        "Users who may do everything on the console.",
    )
    .ini("admin_users"),
    Setting::new(
        General,
        "stats_users",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.stats_users)),
        "Users who may use SHOW on the console.",
    )
    .ini("stats_users"),
    Setting::new(
        General,
        "stats_period",
        Kind::Time { min: Span::from_secs(1) },
        "60s",
        Field::Config(|c| FieldMut::Span(&mut c.stats_period)),
        "The period of averages, and of the log's line with them.",
    )
    .ini("stats_period"),
    Setting::new(
        General,
        "track_statements",
        Kind::Number { min: 0, max: 10_000 },
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.track_statements)),
        "How many statements each worker counts by their fingerprints, in at most 4 KiB each, for SHOW STATEMENTS. 0: none. A \
         change counts from zero again.",
    )
    .ini_own("track_statements"),
    Setting::new(
        General,
        "ignore_startup_parameters",
        Kind::Names,
        "",
        Field::Config(|c| FieldMut::Names(&mut c.ignore_startup_parameters)),
        "Startup parameters that are dropped instead of refused.",
    )
    .ini("ignore_startup_parameters"),
    Setting::new(
        General,
        "untracked_startup_parameters",
        Kind::Word(UntrackedParameters::WORDS),
        "refuse",
        Field::Config(|c| FieldMut::Untracked(&mut c.untracked_startup_parameters)),
        "What happens to other startup parameters that are not tracked, as `work_mem` and `my.own`: the client is refused, \
         they are dropped, or they are set on each server that the client gets, and for no other client. A value that \
         PostgreSQL refuses is the error of the client's first query.",
    )
    .ini_own("untracked_startup_parameters"),
    Setting::new(
        General,
        "track_extra_parameters",
        Kind::Names,
        "IntervalStyle",
        Field::Config(|c| FieldMut::Names(&mut c.track_extra_parameters)),
        "Parameters that a client may give at its login, and that follow it from server to server, besides \
         [those that always do](pooling.md#what-follows-a-client). A later SET follows if the server reports the \
         parameter, whether it is listed here or not.",
    )
    .ini("track_extra_parameters")
    .effect(Effect::Restart),
    Setting::new(
        General,
        "application_name_add_host",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.application_name_add_host)),
        "Add the client's address and port to its application_name when it logs in.",
    )
    .ini("application_name_add_host"),
    Setting::new(
        General,
        "login_notify_message",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.login_notify_message)),
        "A notice that each client receives after its login. Empty: none.",
    )
    .ini("login_notify_message"),
    Setting::new(
        General,
        "disable_pqexec",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.disable_pqexec)),
        "Refuse queries of the simple protocol, which can hold several statements.",
    )
    .ini("disable_pqexec")
    .effect(Effect::Restart),
    Setting::new(
        General,
        "max_packet_size",
        Kind::Number { min: 1_024, max: u32::MAX as u64 },
        "2147483647",
        Field::Config(|c| FieldMut::U32(&mut c.max_packet_size)),
        "The longest message that is relayed, in bytes.",
    )
    .ini("max_packet_size"),
    Setting::new(
        General,
        "client_login_timeout",
        Kind::ANY_TIME,
        "60s",
        Field::Config(|c| FieldMut::Span(&mut c.client_login_timeout)),
        "How long a client may take to log in. 0: any time.",
    )
    .ini("client_login_timeout"),
    Setting::new(
        General,
        "shutdown_timeout",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.shutdown_timeout)),
        "The longest wait of a shutdown for clients; of a drain, after `drain_time`. 0: no limit.",
    )
    .ini_own("shutdown_timeout"),
    Setting::new(
        General,
        "shutdown_delay",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.shutdown_delay)),
        "How long after INT or TERM new clients are still accepted, while `/readyz` already answers 503, so that load \
         balancers send no more clients. The shutdown begins after it. Where it is set, TERM drains: see `drain_time`.",
    )
    .ini_own("shutdown_delay"),
    Setting::new(
        General,
        "drain_time",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.drain_time)),
        "Over how long a drain closes clients (57P01), each between two of its transactions. 0: at once. Clients in a \
         transaction have `shutdown_timeout` after it. TERM drains where this or `shutdown_delay` is set, else it waits for \
         clients to disconnect; `weir drain` and `SHUTDOWN DRAIN` do always.",
    )
    .ini_own("drain_time"),
    Setting::new(
        General,
        "upgrade_timeout",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.upgrade_timeout)),
        "After another process has taken over (`weir upgrade`), clients in a transaction, or in session mode with a \
         server, stay with the old process for so long; then they get an error, and it ends. 0: no limit.",
    )
    .ini_own("upgrade_timeout"),
    Setting::new(
        General,
        "suspend_timeout",
        Kind::ANY_TIME,
        "10s",
        Field::Config(|c| FieldMut::Span(&mut c.suspend_timeout)),
        "After this time a SUSPEND closes the connections that could not be flushed. 0: no limit.",
    )
    .ini("suspend_timeout"),
    Setting::new(
        General,
        "autodb_idle_timeout",
        Kind::ANY_TIME,
        "3600s",
        Field::Config(|c| FieldMut::Span(&mut c.autodb_idle_timeout)),
        "A pool that was created on demand of `[pools.\"*\"]` is removed when it was unused for this time. 0: never.",
    )
    .ini("autodb_idle_timeout"),
    Setting::new(
        General,
        "pool_idle_timeout",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.pool_idle_timeout)),
        "A pool that had no clients for this time closes its servers and is removed. 0: never.",
    )
    .ini("pool_idle_timeout"),
    Setting::new(
        General,
        "max_user_connections",
        MANY,
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.max_user_connections)),
        "The most server connections of a user, over all pools. 0: any number.",
    )
    .ini("max_user_connections"),
    Setting::new(
        General,
        "max_logins_per_host",
        MANY,
        "64",
        Field::Config(|c| FieldMut::U32(&mut c.max_logins_per_host)),
        "The most logins in progress at one host and port, over all pools, divided equally among the workers, at \
         least one each: so a restarted server is not overloaded with logins. 0: any number.",
    )
    .ini_own("max_logins_per_host"),
    Setting::new(
        General,
        "max_user_client_connections",
        MANY,
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.max_user_client_connections)),
        "The most clients of a user, over all pools. 0: any number.",
    )
    .ini("max_user_client_connections"),
    Setting::new(
        General,
        "max_address_connections",
        MANY,
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.max_address_connections)),
        "The most clients from one address. 0: any number.",
    )
    .ini_own("max_address_connections"),
];
