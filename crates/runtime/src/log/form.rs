//! The formats of log lines: PgBouncer's, JSON, the journal's, syslog's.
//!
//! Every format is one line, whatever a client's text contains.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use weir_admin::{LogLine, LogTexts};
use weir_base::{Printable, is_hidden};
use weir_engine::port::{About, Level, Side};

/// One line, before formatting.
pub(super) struct Line {
    pub(super) level: Level,
    /// Microseconds since 1970.
    pub(super) at: u64,
    pub(super) who: Who,
    pub(super) text: String,
}

/// The subject of a line, stored until the line is written.
pub(super) enum Who {
    Process,
    Connection { side: Side, id: u64, database: String, user: String, address: String, logged_in: bool },
}

impl Line {
    /// The line as it is kept for readers elsewhere.
    pub(super) fn into_recent(self) -> LogLine {
        let texts = LogTexts { text: &self.text, ..LogTexts::default() };
        let (about, texts) = match &self.who {
            Who::Process => (None, texts),
            Who::Connection { side, id, database, user, address, logged_in } => {
                let side = if *side == Side::Client { "client" } else { "server" };
                (Some((side, *id, *logged_in)), LogTexts { database, user, address, ..texts })
            }
        };
        let mut line = LogLine::new(self.at, self.level as u8, texts);
        if let Some((side, id, logged_in)) = about {
            (line.peer, line.logged_in) = (Some((side, id)), logged_in);
        }
        line
    }
}

impl Who {
    /// Whether the subject is a client without a login.
    pub(super) fn is_stranger(&self) -> bool {
        matches!(self, Who::Connection { logged_in: false, .. })
    }

    pub(super) fn of(about: About<'_>) -> Who {
        match about {
            About::Process => Who::Process,
            About::Connection { side, id, database, user, address, logged_in } => Who::Connection {
                side,
                id,
                database: database.to_owned(),
                user: user.to_owned(),
                address: address.to_owned(),
                logged_in,
            },
        }
    }

    fn about(&self) -> About<'_> {
        match self {
            Who::Process => About::Process,
            Who::Connection { side, id, database, user, address, logged_in } => {
                About::Connection { side: *side, id: *id, database, user, address, logged_in: *logged_in }
            }
        }
    }
}

/// PgBouncer's format: `TIMESTAMP TZ [PID] LEVEL text`, in the machine's time zone.
pub(super) fn text(into: &mut Vec<u8>, line: &Line, zone: &TimeZone) {
    let (time, pid, label) = (moment(line.at, zone), std::process::id(), label(line.level));
    // Writing to memory never fails, here and below.
    let _ = writeln!(into, "{time} [{pid}] {label} {}", one_line(line));
}

/// For the journal, which adds time and process itself: `<priority>text` (systemd's sd-daemon(3)).
pub(super) fn journal(into: &mut Vec<u8>, line: &Line) {
    let _ = writeln!(into, "<{}>{}", severity(line.level), one_line(line));
}

/// One line as JSON, with its fields in this order.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    level: String,
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    side: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    database: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    user: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    address: &'a str,
    message: &'a str,
}

/// One JSON object: time, level, pid, message, and for a connection its side, id, database, user and address.
pub(super) fn json(into: &mut Vec<u8>, line: &Line) {
    let (side, id, database, user, address) = match line.who.about() {
        About::Process => (None, None, "", "", ""),
        About::Connection { side: Side::Client, id, database, user, address, .. } => {
            (Some("client"), Some(id), database, user, address)
        }
        About::Connection { side: Side::Server, id, database, user, address, .. } => {
            (Some("server"), Some(id), database, user, address)
        }
    };
    let time = format!("{:.3}", Timestamp::from_microsecond(line.at as i64).unwrap_or_default());
    let level = label(line.level).to_ascii_lowercase();
    let object =
        Object { time, level, pid: std::process::id(), side, id, database, user, address, message: &line.text };
    // Control characters that JSON allows are only in strings, where an escape means the same.
    for c in serde_json::to_string(&object).unwrap_or_default().chars() {
        if is_hidden(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| drop(write!(into, "\\u{unit:04x}")));
        } else {
            into.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    into.push(b'\n');
}

/// A syslog datagram (RFC 3164, as the C library writes it); `facility` is its number.
pub(super) fn syslog(line: &Line, facility: u8, ident: &str, zone: &TimeZone) -> String {
    let priority = facility * 8 + severity(line.level);
    let time = Timestamp::from_microsecond(line.at as i64).unwrap_or_default().to_zoned(zone.clone());
    format!("<{priority}>{} {ident}[{}]: {}", time.strftime("%b %e %H:%M:%S"), std::process::id(), one_line(line))
}

fn label(level: Level) -> &'static str {
    match level {
        Level::Noise => "NOISE",
        Level::Debug => "DEBUG",
        Level::Info => "LOG",
        Level::Warning => "WARNING",
        Level::Error => "ERROR",
        Level::Fatal => "FATAL",
    }
}

/// The severities of syslog (RFC 3164, section 4.1.1).
fn severity(level: Level) -> u8 {
    match level {
        Level::Noise | Level::Debug => 7,
        Level::Info => 6,
        Level::Warning => 4,
        Level::Error => 3,
        Level::Fatal => 2,
    }
}

fn moment(at: u64, zone: &TimeZone) -> String {
    let time = Timestamp::from_microsecond(at as i64).unwrap_or_default().to_zoned(zone.clone());
    time.strftime("%Y-%m-%d %H:%M:%S.%3f %Z").to_string()
}

/// A line with control characters escaped: a client's text must not forge lines, nor change how others are displayed.
fn one_line(line: &Line) -> String {
    Printable(&format!("{}{}", line.who.about(), line.text)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line { level: Level::Info, at: 1_795_255_200_123_456, who: Who::Process, text: text.into() }
    }

    fn client(text: &str) -> Line {
        let who = Who::Connection {
            side: Side::Client,
            id: 31,
            database: "app".into(),
            user: "ann".into(),
            address: "10.0.0.1:5".into(),
            logged_in: true,
        };
        Line { who, ..line(text) }
    }

    fn written(form: impl Fn(&mut Vec<u8>)) -> String {
        let mut into = Vec::new();
        form(&mut into);
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn a_line_has_pgbouncers_form() {
        let pid = std::process::id();
        let text =
            written(|into| text(into, &client("closing because: client close request (age=3s)"), &TimeZone::UTC));
        let expected = format!(
            "2026-11-21 10:00:00.123 UTC [{pid}] LOG C-0x1f: app/ann@10.0.0.1:5 closing because: client close request (age=3s)\n"
        );
        assert_eq!(text, expected);
    }

    #[test]
    fn a_clients_words_forge_no_line_in_any_form() {
        let evil = "no such user: x\n2026-11-21 10:00:00.123 UTC [1] LOG all is well";
        let forms = [
            written(|into| text(into, &client(evil), &TimeZone::UTC)),
            written(|into| journal(into, &client(evil))),
            written(|into| json(into, &client(evil))),
        ];
        for form in forms {
            assert_eq!(form.lines().count(), 1, "{form}");
        }
        assert!(!syslog(&client(evil), 3, "pgbouncer", &TimeZone::UTC).contains('\n'));
    }

    #[test]
    fn what_a_client_hides_in_its_words_is_seen_in_every_form() {
        let evil = "no such user: \u{202e}nimda\u{2066} \u{9b}2J\u{1b}[2J\u{e0041}";
        let forms = [
            written(|into| text(into, &client(evil), &TimeZone::UTC)),
            written(|into| journal(into, &client(evil))),
            written(|into| json(into, &client(evil))),
            syslog(&client(evil), 3, "pgbouncer", &TimeZone::UTC),
        ];
        for form in &forms {
            assert!(!form.trim_end().chars().any(is_hidden) && form.contains("202e"), "{form}");
        }
        let value: serde_json::Value = serde_json::from_str(&forms[2]).unwrap();
        assert_eq!(value["message"], evil, "the same for a program");
        let name = Who::Connection {
            side: Side::Client,
            id: 1,
            database: "\u{202e}app".into(),
            user: "ann\n".into(),
            address: String::new(),
            logged_in: true,
        };
        let line = Line { who: name, ..line("x") };
        assert!(written(|into| text(into, &line, &TimeZone::UTC)).contains("\\u{202e}app/ann\\n"));
    }

    #[test]
    fn json_tells_peer_and_message_apart() {
        let text = written(|into| json(into, &client("a \"quote\"")));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["time"], "2026-11-21T10:00:00.123Z");
        assert_eq!((&value["side"], &value["id"]), (&"client".into(), &31.into()));
        assert_eq!((&value["database"], &value["message"]), (&"app".into(), &"a \"quote\"".into()));
    }

    #[test]
    fn the_system_logs_receive_priorities() {
        assert_eq!(written(|into| journal(into, &line("hello"))), "<6>hello\n");
        let pid = std::process::id();
        assert_eq!(
            syslog(&line("hello"), 3, "weir", &TimeZone::UTC),
            format!("<30>Nov 21 10:00:00 weir[{pid}]: hello")
        );
    }
}
