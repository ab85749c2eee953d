//! Names of databases with a special meaning, and the address that no file has to name.

use std::net::{IpAddr, Ipv4Addr};

/// Database names that belong to the console.
pub const RESERVED_DATABASES: [&str; 2] = ["weir", "pgbouncer"];

/// The states of a pool's health, from the best to the worst.
pub const HEALTH_STATES: [&str; 14] = [
    "not tried yet",
    "healthy",
    "waiting",
    "disabled",
    "paused",
    "slow",
    "cannot grow",
    "saturated",
    "stalled",
    "blocked",
    "failing",
    "not answering",
    "cannot connect",
    "login rejected",
];

/// The facilities of syslog and their numbers (RFC 3164, section 4.1.1).
pub const SYSLOG_FACILITIES: [(&str, u8); 13] = [
    ("user", 1),
    ("mail", 2),
    ("daemon", 3),
    ("auth", 4),
    ("authpriv", 10),
    ("local0", 16),
    ("local1", 17),
    ("local2", 18),
    ("local3", 19),
    ("local4", 20),
    ("local5", 21),
    ("local6", 22),
    ("local7", 23),
];

/// The name of the pool for every database without its own.
pub(crate) const FALLBACK: &str = "*";

/// Where the panel is if the file has no setting.
pub(crate) const BLANK_PANEL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The variable of the environment that has the machine's name; a program gives it also where it is not set.
pub const HOST_NAME: &str = "HOSTNAME";
