//! Settings of the process: its workers, where it listens, who may come in, what it logs.

use weir_base::{Mode, OnDirty, Span};

use crate::model::Method;
use crate::table::{Effect, Kind, Place, Section, Setting, Slot};

use Section::{Auth, General, Listen, Log};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        General,
        "workers",
        Kind::Number { min: 1, max: 256 },
        "1",
        Place::Config(|c| Slot::U16(&mut c.workers)),
        "Worker threads. Each pool lives on one of them; one is enough until it keeps a core busy.",
    )
    .effect(Effect::Restart),
    Setting::new(
        General,
        "max_clients",
        Kind::Number { min: 1, max: 10_000_000 },
        "10000",
        Place::Config(|c| Slot::U32(&mut c.max_clients)),
        "The most clients at once. Lowered to what the limit of open files allows, which is said at start.",
    )
    .ini("max_client_conn")
    .aliases(&["max_client_conn"])
    .ini_default("100"),
    Setting::new(
        General,
        "mode",
        Kind::Word(Mode::WORDS),
        "transaction",
        Place::Config(|c| Slot::Mode(&mut c.mode)),
        "How long a client keeps a server, in pools that do not say otherwise: `session` until it disconnects, \
         `transaction` until its transaction ends, `statement` until its statement ends.",
    )
    .ini("pool_mode")
    .aliases(&["pool_mode"])
    .ini_default("session"),
    Setting::new(
        General,
        "on_dirty",
        Kind::Word(OnDirty::WORDS),
        "reset",
        Place::Config(|c| Slot::OnDirty(&mut c.on_dirty)),
        "What happens, in pools that do not say otherwise, to a server on which a client left state (SET, LISTEN, \
         PREPARE, temporary tables): `keep` hands it on as it is, as PgBouncer does; `reset` runs DISCARD ALL first; \
         `close` closes it.",
    )
    .ini_default("keep"),
    Setting::new(
        General,
        "admin_users",
        Kind::Names,
        "",
        Place::Config(|c| Slot::Names(&mut c.admin_users)),
        "Users who may do everything on the console.",
    )
    .ini("admin_users"),
    Setting::new(
        General,
        "stats_users",
        Kind::Names,
        "",
        Place::Config(|c| Slot::Names(&mut c.stats_users)),
        "Users who may look at everything on the console.",
    )
    .ini("stats_users"),
    Setting::new(
        General,
        "stats_period",
        Kind::Time { min: Span::from_secs(1) },
        "60s",
        Place::Config(|c| Slot::Span(&mut c.stats_period)),
        "How often averages are formed and, if asked for, logged.",
    )
    .ini("stats_period"),
    Setting::new(
        General,
        "ignore_startup_parameters",
        Kind::Names,
        "",
        Place::Config(|c| Slot::Names(&mut c.ignore_startup_parameters)),
        "Startup parameters that are dropped instead of refused.",
    )
    .ini("ignore_startup_parameters"),
    Setting::new(
        General,
        "track_extra_parameters",
        Kind::Names,
        "IntervalStyle",
        Place::Config(|c| Slot::Names(&mut c.track_extra_parameters)),
        "Parameters that follow a client from server to server, besides client_encoding, DateStyle, TimeZone, \
         standard_conforming_strings and application_name. The server must report them.",
    )
    .ini("track_extra_parameters"),
    Setting::new(
        General,
        "client_login_timeout",
        Kind::ANY_TIME,
        "60s",
        Place::Config(|c| Slot::Span(&mut c.client_login_timeout)),
        "How long a client may take to log in. 0: any time.",
    )
    .ini("client_login_timeout"),
    Setting::new(
        General,
        "shutdown_timeout",
        Kind::ANY_TIME,
        "0",
        Place::Config(|c| Slot::Span(&mut c.shutdown_timeout)),
        "After this long a shutdown stops waiting for clients. 0: it waits as long as it takes.",
    ),
    Setting::new(
        Listen,
        "address",
        Kind::Addresses,
        "127.0.0.1",
        Place::Config(|c| Slot::Addresses(&mut c.listen.addresses)),
        "Addresses to listen on. `*` is every address, `localhost` is 127.0.0.1, an empty list turns TCP off.",
    )
    .ini("listen_addr")
    .aliases(&["addresses"])
    .ini_default("")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "port",
        Kind::Number { min: 1, max: 65_535 },
        "6432",
        Place::Config(|c| Slot::U16(&mut c.listen.port)),
        "The port; also a part of the Unix socket's name.",
    )
    .ini("listen_port")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "unix_socket_dir",
        Kind::Text,
        "",
        Place::Config(|c| Slot::Path(&mut c.listen.unix_socket_dir)),
        "The folder of the Unix socket. Without it there is none.",
    )
    .ini("unix_socket_dir")
    .ini_default("/tmp")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "unix_socket_mode",
        Kind::Permissions,
        "0777",
        Place::Config(|c| Slot::U32(&mut c.listen.unix_socket_mode)),
        "The permission bits of the Unix socket.",
    )
    .ini("unix_socket_mode")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "backlog",
        Kind::Number { min: 1, max: 65_535 },
        "128",
        Place::Config(|c| Slot::U32(&mut c.listen.backlog)),
        "Connections that the system may hold ready for Weir to accept.",
    )
    .ini("listen_backlog")
    .effect(Effect::Restart),
    Setting::new(
        Auth,
        "type",
        Kind::Word(Method::WORDS),
        "scram-sha-256",
        Place::Config(|c| Slot::Method(&mut c.auth.method)),
        "How clients prove who they are. `trust` takes their word, but they must be listed; `plain` asks for the \
         password as it is; `md5` for a hash of it, and for SCRAM from users with a SCRAM secret; `scram-sha-256` \
         can't use md5 secrets.",
    )
    .ini("auth_type")
    .ini_default("md5"),
    Setting::new(
        Auth,
        "file",
        Kind::Text,
        "",
        Place::Config(|c| Slot::Path(&mut c.auth.file)),
        "The file of users: lines of `\"user\" \"secret\"`, where a secret is a password, `md5…` or \
         `SCRAM-SHA-256$…`. Relative to the folder of this file.",
    )
    .ini("auth_file"),
    Setting::new(
        Auth,
        "users",
        Kind::Users,
        "",
        Place::Apart,
        "Users and their secrets in place of a file: `[auth.users]` with lines of `name = \"secret\"`.",
    ),
    Setting::new(
        Log,
        "connections",
        Kind::Flag,
        "true",
        Place::Config(|c| Slot::Flag(&mut c.log.connections)),
        "Log each login.",
    )
    .ini("log_connections")
    .aliases(&["log_connections"]),
    Setting::new(
        Log,
        "disconnections",
        Kind::Flag,
        "true",
        Place::Config(|c| Slot::Flag(&mut c.log.disconnections)),
        "Log each disconnection with its reason.",
    )
    .ini("log_disconnections")
    .aliases(&["log_disconnections"]),
    Setting::new(
        Log,
        "pooler_errors",
        Kind::Flag,
        "true",
        Place::Config(|c| Slot::Flag(&mut c.log.pooler_errors)),
        "Log each error that Weir itself sends to a client.",
    )
    .ini("log_pooler_errors")
    .aliases(&["log_pooler_errors"]),
    Setting::new(
        Log,
        "stats",
        Kind::Flag,
        "true",
        Place::Config(|c| Slot::Flag(&mut c.log.stats)),
        "Log the averages of each period.",
    )
    .ini("log_stats")
    .aliases(&["log_stats"]),
    Setting::new(
        Log,
        "verbose",
        Kind::Number { min: 0, max: 9 },
        "0",
        Place::Config(|c| Slot::U8(&mut c.log.verbose)),
        "Log more detail with each step.",
    )
    .ini("verbose"),
];
