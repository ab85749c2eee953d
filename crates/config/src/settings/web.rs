//! Where the control plane is reached by HTTP.

use crate::slot::Slot;
use crate::table::{Effect, Kind, Place, Section::Web, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Web,
        "address",
        Kind::Addresses,
        "",
        Place::Config(|c| Slot::Addresses(&mut c.web.addresses)),
        "Addresses to listen on for HTTP, of the loopback only: there are no logins yet, so whoever can connect may do \
         everything. Without one there is no API.",
    )
    .aliases(&["addresses"])
    .ini_own("web_address")
    .effect(Effect::Restart),
    Setting::new(
        Web,
        "port",
        Kind::Number { min: 1, max: 65_535 },
        "8432",
        Place::Config(|c| Slot::U16(&mut c.web.port)),
        "The port for HTTP.",
    )
    .ini_own("web_port")
    .effect(Effect::Restart),
];
