//! Settings of the control plane's HTTP server.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::{Effect, Field, Section::Web, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Web,
        "address",
        Kind::Addresses,
        "",
        Field::Config(|c| FieldMut::Addresses(&mut c.web.addresses)),
        "Addresses to listen on for HTTP. Addresses other than the loopback need `tls_cert_file` and an entry in \
         `users`. Without an address there is no API.",
    )
    .aliases(&["addresses"])
    .ini_own("web_address")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "port",
        Kind::Number { min: 1, max: 65_535 },
        "8432",
        Field::Config(|c| FieldMut::U16(&mut c.web.port)),
        "The port for HTTP.",
    )
    .ini_own("web_port")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "tls_cert_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.web.tls_cert_file)),
        "The certificate of the API and its chain, PEM; all connections are encrypted then. Its contents are read \
         again at each reload.",
    )
    .ini_own("web_tls_cert_file")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "tls_key_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.web.tls_key_file)),
        "Its private key, PEM.",
    )
    .ini_own("web_tls_key_file")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "users",
        Kind::Accounts,
        "",
        Field::Apart,
        "Users of the API, each as `name = \"role hash\"`; `weir account NAME` prints such a line. A `viewer` may \
         look, an `operator` may also pause, resume and close clients, an `admin` may also change pools and \
         settings. Without users and tokens, everyone who can connect may do everything.",
    ),
    Setting::new(
        Web,
        "tokens",
        Kind::Accounts,
        "",
        Field::Apart,
        "The same for programs, which send `Authorization: Bearer TOKEN`; `weir account NAME --token` makes one.",
    ),
    Setting::new(
        Web,
        "history",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.web.history)),
        "The folder that keeps the figures of the 50 busiest pools over a restart, an hour by the second and 30 days \
         by the minute: 2.9 MB per pool; and the versions of the configuration and the audit log, at most 20 MiB. \
         Without it they are in memory, with a day by the minute.",
    )
    .ini_own("web_history")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "lab",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.web.lab)),
        "The folder with the reports of `weir lab` (`weir-lab` in its working directory): the panel lists them, and \
         links the products page while it is served.",
    )
    .ini_own("web_lab")
    .effect(Effect::Restart),
];
