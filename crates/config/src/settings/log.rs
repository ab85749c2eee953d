//! Settings of the log.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::LogFormat;
use crate::names::SYSLOG_FACILITIES;
use crate::table::{Field, Section::Log, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Log,
        "file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.log.file)),
        "The file to which lines are appended; opened again at each reload. Default: standard error.",
    )
    .ini("logfile")
    .aliases(&["logfile"]),
    Setting::new(
        Log,
        "format",
        Kind::Word(LogFormat::WORDS),
        "text",
        Field::Config(|c| FieldMut::LogFormat(&mut c.log.format)),
        "`text` is PgBouncer's form, `json` one object a line, `journal` for systemd's journal.",
    )
    .ini_own("log_format"),
    Setting::new(
        Log,
        "syslog",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.log.syslog)),
        "Log to the system's log too.",
    )
    .ini("syslog"),
    Setting::new(
        Log,
        "syslog_ident",
        Kind::Text,
        "weir",
        Field::Config(|c| FieldMut::Line(&mut c.log.syslog_ident)),
        "Under which name.",
    )
    .ini("syslog_ident")
    .ini_default("pgbouncer"),
    Setting::new(
        Log,
        "syslog_facility",
        Kind::Word(&FACILITIES),
        "daemon",
        Field::Config(|c| FieldMut::Line(&mut c.log.syslog_facility)),
        "Under which facility.",
    )
    .ini("syslog_facility"),
    Setting::new(
        Log,
        "connections",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.log.connections)),
        "Log each login.",
    )
    .ini("log_connections")
    .aliases(&["log_connections"]),
    Setting::new(
        Log,
        "disconnections",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.log.disconnections)),
        "Log each disconnection with its reason.",
    )
    .ini("log_disconnections")
    .aliases(&["log_disconnections"]),
    Setting::new(
        Log,
        "pooler_errors",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.log.pooler_errors)),
        "Log each error that Weir itself sends to a client.",
    )
    .ini("log_pooler_errors")
    .aliases(&["log_pooler_errors"]),
    Setting::new(
        Log,
        "stats",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.log.stats)),
        "Log the averages of each period.",
    )
    .ini("log_stats")
    .aliases(&["log_stats"]),
    Setting::new(
        Log,
        "min_duration_statement",
        Kind::ANY_TIME,
        "0",
        Field::Config(|c| FieldMut::Span(&mut c.log.min_duration_statement)),
        "Log statements that run at least this long, by their fingerprint, without values. 0: none. Counts 100 statements if \
         `track_statements` counts fewer.",
    )
    .ini_own("log_min_duration_statement")
    .aliases(&["log_min_duration_statement"]),
    Setting::new(
        Log,
        "statement_sample_percent",
        Kind::Number { min: 0, max: 100 },
        "100",
        Field::Config(|c| FieldMut::U8(&mut c.log.statement_sample_percent)),
        "How many of them are logged, chosen at random, in per cent.",
    )
    .ini_own("log_statement_sample_percent")
    .aliases(&["log_statement_sample_percent"]),
    Setting::new(
        Log,
        "verbose",
        Kind::Number { min: 0, max: 9 },
        "0",
        Field::Config(|c| FieldMut::U8(&mut c.log.verbose)),
        "Log more detail with each step. 1: logins at servers, parameters that are set. 2 and more: also which client gets which \
         server, requests for encryption, the line of the HBA file that decides.",
    )
    .ini("verbose"),
];

/// The words of `syslog_facility`.
static FACILITIES: [&str; SYSLOG_FACILITIES.len()] = {
    let (mut names, mut at) = ([""; SYSLOG_FACILITIES.len()], 0);
    while at < names.len() {
        names[at] = SYSLOG_FACILITIES[at].0;
        at += 1;
    }
    names
};
