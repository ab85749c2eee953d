//! Settings of DNS and of the process itself.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::table::Section::{Dns, Process};
use crate::table::{Effect, Field, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Dns,
        "max_ttl",
        Kind::ANY_TIME,
        "15s",
        Field::Config(|c| FieldMut::Span(&mut c.dns.max_ttl)),
        "The longest time that the addresses of a server's name are used, whatever their own time to live says.",
    )
    .ini("dns_max_ttl"),
    Setting::new(
        Dns,
        "nxdomain_ttl",
        Kind::ANY_TIME,
        "15s",
        Field::Config(|c| FieldMut::Span(&mut c.dns.nxdomain_ttl)),
        "How long a name that could not be found is not asked for again.",
    )
    .ini("dns_nxdomain_ttl"),
    Setting::new(
        Dns,
        "resolv_conf",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.dns.resolv_conf)),
        "The file that names the DNS servers, in place of `/etc/resolv.conf`.",
    )
    .ini("resolv_conf")
    .effect(Effect::Restart),
    Setting::new(
        Process,
        "pid_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.process.pid_file)),
        "Where the process's id is written.",
    )
    .ini("pidfile")
    .aliases(&["pidfile"])
    .effect(Effect::Restart),
    Setting::new(
        Process,
        "user",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.process.user)),
        "The user of the operating system that Weir becomes when root has started it.",
    )
    .ini("user")
    .effect(Effect::Restart),
    Setting::new(
        Process,
        "core_dumps",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.process.core_dumps)),
        "Let a crash leave an image of the memory, in which passwords and keys are. Without it the limit on core dumps is 0, \
         and what the system dumps elsewhere holds none of the memory.",
    )
    .ini_own("core_dumps")
    .ini_default("true")
    .effect(Effect::Restart),
];
