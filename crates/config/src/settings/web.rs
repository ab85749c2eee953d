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
        "Addresses to listen on for HTTP; others than those of the loopback only with `tls_cert_file` and somebody in \
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
        "The certificate of the API and those that lead to its root, PEM. With it everything is encrypted. What is in it \
         is read again with each reload.",
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
        "Who may log in, each as `name = \"role hash\"`; `weir account NAME` prints such a line. A `viewer` looks, an \
         `operator` also pauses, resumes and drops clients, an `admin` also changes pools and settings. Without users \
         and tokens, whoever can connect may do everything.",
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
        "The folder that keeps the figures of the 50 busiest pools, an hour by the second and 30 days by the minute, over \
         a restart: 2.9 MB a pool. Without one they are in memory, with a day by the minute.",
    )
    .ini_own("web_history")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "lab",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.web.lab)),
        "The folder that `weir lab` writes its reports to (`weir-lab` where it was started): the panel lists them, and links \
         the products page while it is served.",
    )
    .ini_own("web_lab")
    .effect(Effect::Restart),
];
