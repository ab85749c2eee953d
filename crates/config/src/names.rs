//! Names of databases with a special meaning, and the address that no file has to name.

use std::net::{IpAddr, Ipv4Addr};

/// Database names that belong to the console.
pub const RESERVED_DATABASES: [&str; 2] = ["weir", "pgbouncer"];

/// The name of the pool for every database without its own.
pub(crate) const FALLBACK: &str = "*";

/// Where the panel is if the file has no setting.
pub(crate) const BLANK_PANEL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The variable of the environment that has the machine's name; a program gives it also where it is not set.
pub const HOST_NAME: &str = "HOSTNAME";
