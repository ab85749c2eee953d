//! PgBouncer's settings without effect here. They are accepted and shown, and `weir check` gives the reason.

use crate::kind::Kind;
use crate::table::{Effect, Setting};

const COUNT: Kind = Kind::Number { min: 0, max: u32::MAX as u64 };

pub(super) static SETTINGS: &[Setting] = &[
    Setting::inert("client_tls_dheparams", Kind::Text, "auto", "keys are exchanged over elliptic curves only"),
    Setting::inert(
        "client_tls_ecdhcurve",
        Kind::Text,
        "auto",
        "the curves of the TLS library are offered (X25519, P-256, P-384), and the client chooses",
    ),
    Setting::inert("conffile", Kind::Text, "", "a reload reads the file that Weir was started with"),
    Setting::inert(
        "dns_zone_check_period",
        Kind::ANY_TIME,
        "0",
        "names are looked up again after their time to live, so zones are not watched",
    ),
    Setting::inert("job_name", Kind::Text, "pgbouncer", "it names a service of Windows").effect(Effect::Restart),
    Setting::inert(
        "pkt_buf",
        COUNT,
        "4096",
        "connections hold no buffer between messages, and a worker reads with one that is large enough",
    )
    .effect(Effect::Restart),
    Setting::inert("sbuf_loopcnt", COUNT, "5", "each connection gets one read per iteration, so that all are served"),
];
