//! Settings of DNS and of the process itself.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::WatchFiles;
use crate::table::Section::{Dns, Process};
use crate::table::{Effect, Field, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Dns,
        "max_ttl",
        Kind::ANY_TIME,
        "15s",
        Field::Config(|c| FieldMut::Span(&mut c.dns.max_ttl)),
        "The longest time that the addresses of a server's name are used, even if their own time to live is longer.",
    )
    .ini("dns_max_ttl"),
    Setting::new(
        Dns,
        "nxdomain_ttl",
        Kind::ANY_TIME,
        "15s",
        Field::Config(|c| FieldMut::Span(&mut c.dns.nxdomain_ttl)),
        "How long a name that was not found is not looked up again.",
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
        "The operating-system user that Weir switches to when root has started it.",
    )
    .ini("user")
    .effect(Effect::Restart),
    Setting::new(
        Process,
        "core_dumps",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.process.core_dumps)),
        "Let a crash write a core dump, which contains passwords and keys. Otherwise the limit on core dumps is 0, \
         and dumps by other means contain no memory of the process.",
    )
    .ini_own("core_dumps")
    .ini_default("true")
    .effect(Effect::Restart),
    Setting::new(
        Process,
        "watch_files",
        Kind::Word(WatchFiles::WORDS),
        "named",
        Field::Config(|c| FieldMut::WatchFiles(&mut c.process.watch_files)),
        "Which files are read again when they change, within three seconds and without a RELOAD: `off`: none; `users`: \
         `auth.file`; `named`: each file that a setting names (certificates, keys, authorities, users, rules, \
         passwords); `all`: this file, too. If the result is invalid, the old one stays, and the log has the reason.",
    )
    .ini_own("watch_files")
    .ini_default("users")
    .effect(Effect::Restart),
];
