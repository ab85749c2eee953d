//! The file of a custom experiment: its keys, their defaults, and invalid combinations.
//!
//! `lab/examples/my-load.toml` shows every key; a test compares that example with this file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::reader::{self, Complaint, Section};
use crate::servers::Mode;
use crate::steps::LabError;

const ROOT: &[&str] = &["title", "repetitions", "seed", "workload", "targets"];

const WORKLOAD: &[&str] = &[
    "builtin",
    "script",
    "sql",
    "scale",
    "init",
    "setup",
    "clients",
    "threads",
    "duration",
    "reconnect",
    "rate",
    "think_time_ms",
    "protocol",
];

const TARGET: &[&str] = &[
    "name",
    "kind",
    "host",
    "port",
    "user",
    "database",
    "password_env",
    "max_connections",
    "settings",
    "before",
    "mode",
    "size",
];

/// The limit of every number in a file, so that a mistyped zero does not fork a thousand processes.
const MANY: u32 = 5_000;

/// The parsed file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) title: String,
    pub(super) repetitions: u32,
    /// The seed of the shuffled order.
    pub(super) seed: u64,
    pub(super) workload: Workload,
    pub(super) targets: Vec<Target>,
    /// A hash of the file's text and of the files that it names.
    pub(super) fingerprint: u64,
}

/// The load on each target.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) script: Script,
    /// pgbench's scale; `None` if its tables are not filled.
    pub(super) scale: Option<u32>,
    /// Whether to fill servers that are not the lab's, too.
    pub(super) init: bool,
    /// SQL that creates tables on the lab's own servers.
    pub(super) setup: Option<String>,
    pub(super) clients: Vec<u32>,
    pub(super) threads: u32,
    /// Seconds of a run.
    pub(super) duration: u32,
    pub(super) reconnect: bool,
    /// The offered rate, in transactions a second.
    pub(super) rate: Option<u32>,
    pub(super) think_time_ms: u32,
    /// In the form of pgbench's `-M`.
    pub(super) protocol: &'static str,
}

/// The transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// A built-in of pgbench, by name.
    Builtin(&'static str),
    /// A script for `pgbench -f`.
    Text(String),
}

/// A target to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: String,
    /// The name in the form of a file's name; unique, too.
    pub(super) slug: String,
    pub(super) kind: Kind,
}

/// The kind of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server that the lab starts.
    Own { max_connections: u32, settings: Vec<(String, String)> },
    /// An existing server, without a pooler.
    Direct(Login),
    /// Weir, which the lab starts in front of the target of this number.
    Weir { before: usize, mode: Mode, size: u32 },
    /// An existing server or pooler.
    Address(Login),
}

/// Address and user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) user: String,
    pub(super) database: String,
    /// The environment variable with the password.
    pub(super) password_env: Option<String>,
}

impl Kind {
    /// Whether clients reach the server without a pooler.
    pub(super) fn is_direct(&self) -> bool {
        matches!(self, Kind::Own { .. } | Kind::Direct(_))
    }
}

/// Reads a file, and the files that it names.
///
/// # Errors
/// What is wrong, in which line, and what would be valid.
pub(super) fn read(file: &Path) -> Result<Plan, LabError> {
    let text = fs::read_to_string(file).map_err(|e| LabError::at(format!("read {}", file.display()), e))?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| fs::read_to_string(folder.join(name)).map_err(|e| e.to_string());
    let plan = parse(&text, &beside).map_err(|Complaint { line, text }| {
        let place = line.map(|line| format!(", line {line}")).unwrap_or_default();
        LabError::Failed(format!("{}{place}: {text}", file.display()))
    })?;
    Ok(plan)
}

/// Parses a file's text; `beside` reads a file beside it, or returns an error.
pub(super) fn parse(text: &str, beside: &dyn Fn(&str) -> Result<String, String>) -> Result<Plan, Complaint> {
    reader::read(text, ROOT, |root| {
        let section = root.section("workload", "[workload]", WORKLOAD)?;
        let workload = workload(section, beside)?;
        let targets = targets(&root)?;
        check_scale(section, &workload, &targets)?;
        let script = if let Script::Text(text) = &workload.script { text.as_str() } else { "" };
        let fingerprint = fingerprint(&[text, script, workload.setup.as_deref().unwrap_or_default()]);
        Ok(Plan {
            title: root.text("title")?.unwrap_or_else(|| "A load of one's own".to_owned()),
            repetitions: root.number("repetitions", 1..=1000)?.unwrap_or(3),
            seed: root.number("seed", 0..=u32::MAX)?.map_or(fingerprint % 1_000_000, u64::from),
            workload,
            targets,
            fingerprint,
        })
    })
}

fn workload(section: Section<'_>, beside: &dyn Fn(&str) -> Result<String, String>) -> Result<Workload, Complaint> {
    let file = |key: &str| -> Result<Option<String>, Complaint> {
        let Some(name) = section.text(key)? else { return Ok(None) };
        beside(&name).map(Some).map_err(|error| section.at(key, format!("`{key}`: {name} can't be read: {error}")))
    };
    let clients = section.numbers("clients", 1..=MANY)?;
    Ok(Workload {
        script: script(section, &file)?,
        scale: section.number("scale", 1..=10_000)?,
        init: section.flag("init")?.unwrap_or(false),
        setup: file("setup")?,
        clients: clients.ok_or_else(|| section.lacks("clients", "how many at once, as in clients = [10, 50, 150]"))?,
        threads: section.number("threads", 1..=256)?.unwrap_or(2),
        duration: section.number("duration", 1..=86_400)?.unwrap_or(20),
        reconnect: section.flag("reconnect")?.unwrap_or(false),
        rate: section.number("rate", 1..=1_000_000)?,
        think_time_ms: section.number("think_time_ms", 0..=3_600_000)?.unwrap_or(0),
        protocol: section
            .word("protocol", &["simple", "extended", "prepared"].map(|word| (word, word)))?
            .unwrap_or("simple"),
    })
}

fn script(section: Section<'_>, file: &dyn Fn(&str) -> Result<Option<String>, Complaint>) -> Result<Script, Complaint> {
    let given: Vec<_> = ["builtin", "script", "sql"].into_iter().filter(|key| section.has(key)).collect();
    if let [first, second, ..] = given[..] {
        return Err(section.at(second, format!("`{second}` and `{first}` exclude each other: keep one of them")));
    }
    let builtin = section.word("builtin", &["tpcb-like", "simple-update", "select-only"].map(|word| (word, word)))?;
    let text = file("script")?.or(section.text("sql")?);
    Ok(match (builtin, text) {
        (_, Some(text)) => Script::Text(text),
        (builtin, None) => Script::Builtin(builtin.unwrap_or("tpcb-like")),
    })
}

/// A scale is required where tables are filled, and where a script uses it.
fn check_scale(section: Section<'_>, workload: &Workload, targets: &[Target]) -> Result<(), Complaint> {
    let own = targets.iter().any(|target| matches!(target.kind, Kind::Own { .. }));
    let builtin = matches!(workload.script, Script::Builtin(_));
    if workload.scale.is_some() {
        return Ok(());
    }
    if workload.init {
        return Err(section.at("init", "`init` fills pgbench's tables, so it needs a `scale`"));
    }
    if builtin && (own || workload.think_time_ms > 0) {
        return Err(section.lacks("scale", "pgbench's own transactions need its tables, 100,000 accounts each"));
    }
    Ok(())
}

fn targets(root: &Section<'_>) -> Result<Vec<Target>, Complaint> {
    let sections = root.sections("targets", "[[targets]]", TARGET)?;
    let mut seen = BTreeSet::new();
    let mut names = Vec::new();
    for section in &sections {
        let name = section.required("name", "how the report calls it")?;
        let slug = slug(&name);
        if slug.is_empty() || !seen.insert(slug.clone()) {
            return Err(
                section.at("name", format!("`name`: there must be letters in it, and no other like \"{name}\""))
            );
        }
        names.push((name, slug));
    }
    let direct: Vec<_> = sections.iter().map(is_direct).collect::<Result<_, _>>()?;
    let of = |(section, (name, slug)): (&Section<'_>, &(String, String))| {
        let kind = kind(section, &names, &direct)?;
        Ok(Target { name: name.clone(), slug: slug.clone(), kind })
    };
    sections.iter().zip(&names).map(of).collect()
}

/// The kinds of targets by name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Direct,
    Weir,
    Address,
}

fn word(section: &Section<'_>) -> Result<Word, Complaint> {
    let words = [("direct", Word::Direct), ("weir", Word::Weir), ("address", Word::Address)];
    section.word("kind", &words)?.ok_or_else(|| section.lacks("kind", "\"direct\", \"weir\" or \"address\""))
}

fn is_direct(section: &Section<'_>) -> Result<bool, Complaint> {
    Ok(word(section)? == Word::Direct)
}

fn kind(section: &Section<'_>, names: &[(String, String)], direct: &[bool]) -> Result<Kind, Complaint> {
    const LOGIN: [&str; 5] = ["host", "port", "user", "database", "password_env"];
    const OWN: [&str; 2] = ["max_connections", "settings"];
    const WEIR: [&str; 3] = ["before", "mode", "size"];
    let refuse = |keys: &[&str], why: &str| match keys.iter().find(|key| section.has(key)) {
        Some(key) => Err(section.at(key, format!("`{key}` {why}"))),
        None => Ok(()),
    };
    match word(section)? {
        Word::Direct if section.has("host") => {
            refuse(&OWN, "is for a server that the lab starts: leave out the host, or this")?;
            refuse(&WEIR, "is for a target of kind \"weir\"")?;
            Ok(Kind::Direct(login(section)?))
        }
        Word::Direct => {
            refuse(&LOGIN, "belongs to a `host`, which is missing")?;
            refuse(&WEIR, "is for a target of kind \"weir\"")?;
            let max_connections = section.number("max_connections", 4..=MANY)?.unwrap_or(100);
            Ok(Kind::Own { max_connections, settings: section.settings("settings")? })
        }
        Word::Weir => {
            refuse(&LOGIN, "is not for a Weir that the lab starts; for one of yours, the kind is \"address\"")?;
            refuse(&OWN, "belongs to the target that Weir is before")?;
            let modes = [("session", Mode::Session), ("transaction", Mode::Transaction)];
            Ok(Kind::Weir {
                before: before(section, names, direct)?,
                mode: section.word("mode", &modes)?.unwrap_or(Mode::Transaction),
                size: section.number("size", 1..=MANY)?.unwrap_or(20),
            })
        }
        Word::Address => {
            refuse(&OWN, "is for a server that the lab starts: kind \"direct\" without a host")?;
            refuse(&WEIR, "is for a target of kind \"weir\"")?;
            Ok(Kind::Address(login(section)?))
        }
    }
}

fn before(section: &Section<'_>, names: &[(String, String)], direct: &[bool]) -> Result<usize, Complaint> {
    let Some(wanted) = section.text("before")? else {
        let first = direct.iter().position(|direct| *direct);
        return first.ok_or_else(|| section.at("kind", "Weir needs a target of kind \"direct\" to stand before"));
    };
    let place = names.iter().position(|(name, _)| *name == wanted).filter(|place| direct[*place]);
    place.ok_or_else(|| section.at("before", format!("`before`: no target of kind \"direct\" is called \"{wanted}\"")))
}

fn login(section: &Section<'_>) -> Result<Login, Complaint> {
    let port = section.number("port", 1..=65_535)?.unwrap_or(5432);
    Ok(Login {
        host: section.required("host", "a name, an address, or the folder of a Unix socket")?,
        port: u16::try_from(port).unwrap_or(5432),
        user: section.required("user", "the user to connect as")?,
        database: section.required("database", "the database, or the pool's name")?,
        password_env: section.text("password_env")?,
    })
}

/// A name in the form of a file's name: `Our pooler (old)` → `our-pooler-old`.
fn slug(name: &str) -> String {
    let letters = name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' });
    letters.collect::<String>().split_whitespace().collect::<Vec<_>>().join("-")
}

/// FNV-1a of some texts: equal texts have equal numbers in every version of every program.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../../examples/my-load.toml");

    fn plan(text: &str) -> Result<Plan, Complaint> {
        parse(text, &|name| if name == "here.sql" { Ok("SELECT 1;".into()) } else { Err("no such file".into()) })
    }

    fn complaint(text: &str) -> (Option<usize>, String) {
        let Complaint { line, text } = plan(text).unwrap_err();
        (line, text)
    }

    const DIRECT: &str = "[[targets]]\nname = \"d\"\nkind = \"direct\"\n";
    const LOAD: &str = "[workload]\nscale = 1\nclients = 5\n";

    #[test]
    fn the_example_is_understood_and_shows_every_key() {
        let plan = plan(EXAMPLE).unwrap();
        assert_eq!(plan.title, "Web requests, as our shop makes them");
        assert_eq!((plan.repetitions, plan.workload.clients.as_slice()), (3, [10, 50, 150].as_slice()));
        assert_eq!(plan.targets[0].kind, Kind::Own { max_connections: 100, settings: Vec::new() });
        assert_eq!(plan.targets[1].kind, Kind::Weir { before: 0, mode: Mode::Transaction, size: 20 });
        let shown: Vec<_> = EXAMPLE.lines().map(|line| line.trim_start_matches("# ")).collect();
        for key in ROOT.iter().chain(WORKLOAD).chain(TARGET) {
            let shows = |line: &&str| {
                line.starts_with(&format!("{key} ="))
                    || [format!("[{key}]"), format!("[[{key}]]")].contains(&(*line).to_owned())
            };
            assert!(shown.iter().any(shows), "{key}");
        }
    }

    #[test]
    fn the_examples_other_keys_are_understood_too() {
        let drop = ["# script", "# sql", "# setup", "# host = \"db", "# [[targets]]\n# name"];
        let lines = EXAMPLE.lines().filter(|line| !drop.iter().any(|drop| line.starts_with(drop)));
        let key = |line: &str| {
            line.strip_prefix("# ").filter(|rest| rest.contains(" = ") || rest.starts_with("[[")).map(str::to_owned)
        };
        let text: String = lines.map(|line| key(line).unwrap_or_else(|| line.to_owned()) + "\n").collect();
        let plan = plan(&text).unwrap_or_else(|c| panic!("{c:?}\n{text}"));
        let Kind::Address(login) = &plan.targets[2].kind else { panic!("{:?}", plan.targets[2]) };
        assert_eq!((login.port, login.password_env.as_deref()), (6432, Some("SHOP_PASSWORD")));
        let Kind::Own { settings, .. } = &plan.targets[0].kind else { panic!("{:?}", plan.targets[0]) };
        assert_eq!(settings[0], ("shared_buffers".to_owned(), "1GB".to_owned()));
        assert_eq!((plan.workload.rate, plan.seed, plan.targets[2].slug.as_str()), (Some(500), 1, "our-pooler"));
    }

    #[test]
    fn what_does_not_go_together_is_said_with_its_line() {
        for (text, line, says) in [
            (
                format!("[workload]\nbuiltin = \"select-only\"\nsql = \"x\"\nclients = 1\n{DIRECT}"),
                3,
                "exclude each other",
            ),
            (
                format!("[workload]\nscript = \"gone.sql\"\nclients = 1\n{DIRECT}"),
                2,
                "gone.sql can't be read: no such file",
            ),
            (format!("[workload]\nscale = 1\n{DIRECT}"), 1, "[workload] lacks `clients`"),
            (format!("[workload]\nclients = 1\n{DIRECT}"), 1, "[workload] lacks `scale`"),
            (format!("{LOAD}{DIRECT}user = \"x\""), 7, "`user` belongs to a `host`"),
            (format!("{LOAD}{DIRECT}size = 3"), 7, "is for a target of kind \"weir\""),
            (format!("{LOAD}{DIRECT}host = \"x\"\nmax_connections = 9"), 8, "leave out the host"),
            (format!("{LOAD}{DIRECT}{DIRECT}"), 8, "no other like \"d\""),
            (
                format!("{LOAD}{DIRECT}[[targets]]\nname = \"w\"\nkind = \"weir\"\nbefore = \"e\""),
                10,
                "is called \"e\"",
            ),
            (format!("{LOAD}[[targets]]\nname = \"w\"\nkind = \"weir\""), 6, "needs a target of kind \"direct\""),
            (
                format!("{LOAD}[[targets]]\nname = \"w\"\nkind = \"pooler\""),
                6,
                "one of \"direct\", \"weir\", \"address\"",
            ),
            (format!("{LOAD}[[targets]]\nname = \"w\"\nkind = \"address\""), 4, "lacks `host`"),
        ] {
            let (at, said) = complaint(&text);
            assert!(said.contains(says), "{text}: {said}");
            assert_eq!(at, Some(line), "{text}: {said}");
        }
        assert!(complaint(LOAD).1.contains("[[targets]] is missing"));
    }

    #[test]
    fn a_changed_file_or_script_has_another_fingerprint() {
        let with = |script: &str| {
            let text = format!("[workload]\nscript = \"x\"\nclients = 1\n{DIRECT}");
            parse(&text, &|_| Ok(script.to_owned())).unwrap().fingerprint
        };
        assert_eq!(with("SELECT 1;"), with("SELECT 1;"));
        assert_ne!(with("SELECT 1;"), with("SELECT 2;"));
        assert_ne!(plan(EXAMPLE).unwrap().fingerprint, plan(&format!("{EXAMPLE}\n")).unwrap().fingerprint);
    }

    #[test]
    fn a_servers_own_scale_need_not_be_given() {
        let address = "[[targets]]\nname = \"p\"\nkind = \"address\"\nhost = \"h\"\nuser = \"u\"\ndatabase = \"d\"\n";
        assert_eq!(plan(&format!("[workload]\nclients = 1\n{address}")).unwrap().workload.scale, None);
        let said = complaint(&format!("[workload]\nclients = 1\ninit = true\n{address}"));
        assert_eq!(said.0, Some(3));
    }
}
