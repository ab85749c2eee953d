//! Listeners, and the options of their sockets.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::{Effect, Field, Section::Listen, Setting};

/// The range of a socket option.
const COUNT: Kind = Kind::Number { min: 0, max: i32::MAX as u64 };

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Listen,
        "address",
        Kind::Addresses,
        "127.0.0.1",
        Field::Config(|c| FieldMut::Addresses(&mut c.listen.addresses)),
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
        Field::Config(|c| FieldMut::U16(&mut c.listen.port)),
        "The port; also a part of the Unix socket's name.",
    )
    .ini("listen_port")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "unix_socket_dir",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.listen.unix_socket_dir)),
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
        Field::Config(|c| FieldMut::U32(&mut c.listen.unix_socket_mode)),
        "The permission bits of the Unix socket.",
    )
    .ini("unix_socket_mode")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "unix_socket_group",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.listen.unix_socket_group)),
        "The group of the Unix socket's file. Default: the process's own.",
    )
    .ini("unix_socket_group")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "backlog",
        Kind::Number { min: 1, max: 65_535 },
        "4096",
        Field::Config(|c| FieldMut::U32(&mut c.listen.backlog)),
        "Connections that the system may hold until Weir accepts them; Linux holds at most `net.core.somaxconn`. A \
         further client waits a second over TCP, and is refused by a Unix socket.",
    )
    .ini("listen_backlog")
    .ini_default("128")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "reuse_port",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.listen.reuse_port)),
        "Let several processes listen on the same port (SO_REUSEPORT).",
    )
    .ini("so_reuseport")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "defer_accept",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.listen.defer_accept)),
        "Have Linux report a TCP client when it has sent something (TCP_DEFER_ACCEPT): a login wakes Weir once less, and a \
         client that sends nothing costs no descriptor for the first second or so.",
    )
    .ini("tcp_defer_accept"),
    Setting::new(
        Listen,
        "proxy_from",
        Kind::Networks,
        "",
        Field::Config(|c| FieldMut::Networks(&mut c.listen.proxy_from)),
        "Networks of load balancers, as `address/bits`. A connection from there must start with a PROXY header \
         (version 1 or 2), whose address is then the client's.",
    )
    .ini_own("proxy_from")
    .effect(Effect::Restart),
    Setting::new(
        Listen,
        "keepalive",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.listen.keepalive.on)),
        "Have the system detect that the other end of a connection has vanished. This and the following settings \
         apply to servers too.",
    )
    .ini("tcp_keepalive"),
    Setting::new(
        Listen,
        "keepalive_idle",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.listen.keepalive.idle)),
        "The idle time before the first probe. 0: the system's own.",
    )
    .ini("tcp_keepidle"),
    Setting::new(
        Listen,
        "keepalive_interval",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.listen.keepalive.interval)),
        "The time between two probes. 0: the system's own.",
    )
    .ini("tcp_keepintvl"),
    Setting::new(
        Listen,
        "keepalive_count",
        COUNT,
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.listen.keepalive.count)),
        "The number of unanswered probes after which the connection is closed. 0: the system's own.",
    )
    .ini("tcp_keepcnt"),
    Setting::new(
        Listen,
        "user_timeout",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Millis(&mut c.listen.keepalive.user_timeout)),
        "How long sent bytes may stay unacknowledged (TCP_USER_TIMEOUT). 0: the system's own. PgBouncer counts it in \
         milliseconds.",
    )
    .ini("tcp_user_timeout"),
    Setting::new(
        Listen,
        "server_tcp_timeout",
        Kind::ANY_TIME,
        "5s",
        Field::Config(|c| FieldMut::Span(&mut c.listen.keepalive.server)),
        "How long the host of a server may acknowledge nothing until its connections count as lost: it sets keep-alive \
         probes (the first after two fifths of it, then one in each fifth, in whole seconds) of connections to servers, \
         as far as the settings above don't; and where something was sent the kernel is asked (TCP_INFO) whether it was \
         acknowledged. A server that reads nothing, as behind a lock, is not silent: its host answers. (`user_timeout` \
         ends its connection, too.) A pause of the host or the network that is longer costs the transactions on its \
         connections. 0, or `keepalive` off: the settings above.",
    )
    .ini_own("server_tcp_timeout")
    .ini_default("0"),
    Setting::new(
        Listen,
        "socket_buffer",
        COUNT,
        "0",
        Field::Config(|c| FieldMut::U32(&mut c.listen.keepalive.buffer)),
        "The system's buffers of each connection, in bytes. 0: the system's own.",
    )
    .ini("tcp_socket_buffer"),
];
