//! Settings of one pool: its server, the login there, and the rules of pooling.

use weir_base::Span;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{Balance, SessionAttrs};
use crate::table::{Effect, Field, Section::Pool, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Pool,
        "host",
        Kind::Hosts,
        "",
        Field::Pool(|p| FieldMut::Names(&mut p.hosts)),
        "The server: an address, a name, or the folder of its socket. Several are alternatives for one database: see \
         `load_balance_hosts`. Required; in an ini the default is the folder of Weir's own Unix socket.",
    )
    .database(&["host"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "port",
        Kind::Ports,
        "5432",
        Field::Pool(|p| FieldMut::Ports(&mut p.ports)),
        "The server's port; of several hosts one for all, or one for each.",
    )
    .database(&["port"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "database",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.database)),
        "The database on the server. Default: the pool's name; of `[pools.\"*\"]` the name that the client \
         requested.",
    )
    .database(&["dbname"])
    .aliases(&["dbname"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "user",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.user)),
        "The user on the server. Default: each client's own, with servers of their own for each user.",
    )
    .database(&["user"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "password",
        Kind::Secret,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.password)),
        "The password of `user` on the server. Another one is used by the next login; servers that are logged in stay.",
    )
    .database(&["password"]),
    Setting::new(
        Pool,
        "password_file",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.password_file)),
        "A file that holds the password, in place of `password`; a line end after it is dropped. Relative to the \
         folder of this file.",
    ),
    Setting::new(
        Pool,
        "password_env",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.password_env)),
        "An environment variable that holds the password, in place of `password`.",
    ),
    Setting::new(
        Pool,
        "password_command",
        Kind::Names,
        "",
        Field::Pool(|p| FieldMut::Names(&mut p.password_command.argv)),
        "A program that prints the password, in place of `password`, and its arguments, as in `[\"/usr/local/bin/token\", \"app\"]`: for \
         tokens that expire. It is run before a login, by no shell, with Weir's user and environment; what it prints is \
         kept for `password_command_lifetime`, and never logged. Only in this file. See \
         [Tokens instead of passwords](howto/tokens.md).",
    ),
    Setting::new(
        Pool,
        "password_command_timeout",
        Kind::Time { min: Span::from_millis(1) },
        "10s",
        Field::Pool(|p| FieldMut::Span(&mut p.password_command.timeout)),
        "How long `password_command` may run; then it is killed, and the login has failed. `server_connect_timeout` counts, too.",
    ),
    Setting::new(
        Pool,
        "password_command_lifetime",
        Kind::ANY_TIME,
        "5min",
        Field::Pool(|p| FieldMut::Span(&mut p.password_command.lifetime)),
        "How long logins use what `password_command` has printed before it is run again: less than the token is valid. A password \
         that the server refuses is not used again. 0: it is run for each login.",
    ),
    Setting::new(
        Pool,
        "password_source",
        Kind::Names,
        "",
        Field::Pool(|p| FieldMut::Names(&mut p.password_source)),
        "The service that makes the password, in place of `password`: `[\"aws-iam\"]`, `[\"azure\"]`, `[\"google\"]` \
         or `[\"vault\", \"path=database/static-creds/app\"]`, with options as `\"name=value\"`. Weir asks it before \
         a login, keeps its token until shortly before that expires, and never logs it. Only in this file. See \
         [Tokens instead of passwords](howto/tokens.md).",
    ),
    Setting::new(
        Pool,
        "load_balance_hosts",
        Kind::Word(Balance::WORDS),
        "round-robin",
        Field::Pool(|p| FieldMut::Balance(&mut p.balance)),
        "How connections are distributed over several hosts: alternately, or (`disable`) all to the first that is \
         reachable.",
    )
    .database(&["load_balance_hosts"]),
    Setting::new(
        Pool,
        "target_session_attrs",
        Kind::Word(SessionAttrs::WORDS),
        "any",
        Field::Pool(|p| FieldMut::SessionAttrs(&mut p.session_attrs)),
        "Which hosts are used, as libpq's setting of that name: `primary`: not in recovery; `read-write`: accepts \
         writes by default.",
    )
    .database_own(&["target_session_attrs"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "patroni_api",
        Kind::Origins,
        "",
        Field::Pool(|p| FieldMut::Names(&mut p.patroni.api)),
        "The REST API of Patroni for each of the hosts, in their order, as in `[\"http://10.0.0.1:8008\", \
         \"http://10.0.0.2:8008\"]`. It is asked for `/primary`, or for `/replica` where `target_session_attrs` wants a \
         standby: a host that answers 200 is tried at once and first. It is a hint: a host is used if PostgreSQL says that it fits. \
         See [Failover](howto/failover.md#patroni).",
    )
    .database_own(&["patroni_api"]),
    Setting::new(
        Pool,
        "patroni_interval",
        Kind::Time { min: Span::from_millis(100) },
        "1s",
        Field::Pool(|p| FieldMut::Span(&mut p.patroni.interval)),
        "How often each `patroni_api` is asked; ten times a second for up to a minute while Patroni knows no primary, or another \
         one than the pool has.",
    )
    .database_own(&["patroni_interval"]),
    Setting::new(
        Pool,
        "patroni_max_lag",
        Kind::Size { min: 0, max: 1 << 50 },
        "0",
        Field::Pool(|p| FieldMut::U64(&mut p.patroni.max_lag)),
        "How far a standby may be behind the primary to be tried first, as Patroni knows it (`/replica?lag=`). 0: it does not matter.",
    )
    .database_own(&["patroni_max_lag"]),
    Setting::new(
        Pool,
        "patroni_ca_file",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Path(&mut p.patroni.ca_file)),
        "The authorities that the certificate of a `patroni_api` with `https` is checked against, PEM; read for each request. Default: \
         those of the operating system.",
    )
    .database_own(&["patroni_ca_file"]),
    Setting::new(
        Pool,
        "connect_query",
        Kind::Query,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.connect_query)),
        "Run on each new server connection before its first client. Its errors are logged and ignored.",
    )
    .database(&["connect_query"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "client_encoding",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.client_encoding)),
        "Requested by new server connections.",
    )
    .database(&["client_encoding"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "datestyle",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.datestyle)),
        "Requested by new server connections.",
    )
    .database(&["datestyle"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "timezone",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.timezone)),
        "Requested by new server connections.",
    )
    .database(&["timezone"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "application_name",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.application_name)),
        "Requested by new server connections.",
    )
    .database(&["application_name"])
    .effect(Effect::Reconnect),
    Setting::new(
        Pool,
        "auth_user",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.auth_user)),
        "The user for `auth_query`. Default: `query_user` of `[auth]`.",
    )
    .database(&["auth_user"]),
    Setting::new(
        Pool,
        "auth_query",
        Kind::Query,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.auth_query)),
        "The query. Default: `query` of `[auth]`.",
    )
    .database(&["auth_query"]),
    Setting::new(
        Pool,
        "auth_dbname",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.auth_database)),
        "The pool for this query. Default: `query_database` of `[auth]`.",
    )
    .database(&["auth_dbname"]),
    Setting::new(
        Pool,
        "server",
        Kind::Text,
        "",
        Field::Pool(|p| FieldMut::Text(&mut p.server)),
        "The section of `[servers]` whose `max_connections` the pool shares with others, whatever their hosts. Default: \
         none, and only the pool's own limits hold.",
    ),
    Setting::new(
        Pool,
        "guaranteed_connections",
        Kind::Number { min: 0, max: 1_000_000 },
        "0",
        Field::Pool(|p| FieldMut::U32(&mut p.guaranteed_connections)),
        "How many connections of its `server` the pool gets whenever it needs them, over all users: what others have of \
         them is taken back, an idle one at once, and one in use when it is released. Until then others may use them.",
    ),
    Setting::new(
        Pool,
        "weight",
        Kind::Number { min: 1, max: 1000 },
        "1",
        Field::Pool(|p| FieldMut::U32(&mut p.weight)),
        "The pool's part of the connections of its `server` while several pools want more than there are: with 3 it gets three \
         times as many as one with 1. The guaranteed ones count.",
    ),
];
