//! What operators write: settings as TOML and as ini, HBA rules, connection strings, cipher lists, commands.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use weir_admin::Command;
use weir_auth::{ConnectionType, Hba, HbaRequest};
use weir_config::{
    Assignment, CipherSuite, Config, Edit, Edits, FileFormat, HostLimits, Listen, load, resolve_ciphers, resolve_tls13,
    to_toml,
};

use crate::passwords::rules_are_named;
use crate::tape::Tape;

/// The files that a settings file may refer to.
const FILES: &[(&str, &str)] = &[
    ("users.txt", "\"u\" \"x\"\n\"admin\" \"md501234567890123456789012345678901\"\n"),
    ("hba.conf", "local all all peer\nhost all all 10.0.0.0/8 scram-sha-256\n"),
    ("ident.conf", "m system user\n"),
    ("other.ini", "[databases]\nother = host=x\n"),
    ("password", "secret\n"),
];

fn read(path: &Path, main: (&str, &str)) -> io::Result<String> {
    let name = path.to_str().unwrap_or_default();
    let found = FILES.iter().copied().chain([main]).find(|(known, _)| *known == name);
    found.map(|(_, text)| text.to_owned()).ok_or_else(|| io::Error::other("No such file or directory"))
}

fn read_settings(name: &str, text: &str) -> Option<Config> {
    let env = |name: &str| (name == "SECRET").then(|| "from the environment".to_owned());
    match load(Path::new(name), &|path| read(path, (name, text)), &env) {
        Ok(config) => Some(config),
        Err(error) => {
            for error in error.iter() {
                assert!(!error.to_string().chars().any(char::is_control), "{error:?}");
            }
            None
        }
    }
}

/// A configuration is shown, is reviewed, and means the same when it is written as TOML.
fn use_settings(name: &str, text: &str) {
    let Some(config) = read_settings(name, text) else { return };
    let _ = weir_config::show(&config);
    let _ = weir_config::review(&config, &HostLimits { descriptors: 1024, cores: 2 });
    assert!(weir_config::differences(&config, &config).is_empty());
    if config.remarks.iter().any(|remark| remark.text.starts_with("could not open")) {
        // PgBouncer ignores a missing userlist; TOML reports an error and refuses it.
        return;
    }
    let toml = to_toml(&config);
    let again = load(Path::new("weir.toml"), &|path| read(path, ("weir.toml", &toml)), &|_| None);
    let again = again.unwrap_or_else(|error| panic!("the written text can't be read: {error}\n{toml}"));
    let (before, after) = (meaning(config), meaning(again));
    for (name, pool) in &before.pools {
        assert_eq!(after.pools.get(name), Some(pool), "{toml}");
    }
    assert_eq!(after, before, "{toml}");
}

/// The settings, without where and how they were written.
fn meaning(config: Config) -> Config {
    let Config { locations, inert, .. } = Config::default();
    let (password_files, warnings) = (Vec::new(), Vec::new());
    // Only an ini has this: PgBouncer starts without an address that it can't use.
    let listen = Listen { skip_unusable: false, ..config.listen };
    Config {
        source: "".into(),
        format: FileFormat::Toml,
        locations,
        remarks: Vec::new(),
        inert,
        password_files,
        warnings,
        listen,
        ..config
    }
}

/// PgBouncer's ini.
pub(crate) fn ini_file(data: &[u8]) {
    use_settings("pgbouncer.ini", &String::from_utf8_lossy(data));
}

/// Weir's TOML.
pub(crate) fn toml_file(data: &[u8]) {
    use_settings("weir.toml", &String::from_utf8_lossy(data));
}

/// The connection string of a database, and the settings of a user.
pub(crate) fn connection_string(data: &[u8]) {
    let text = String::from_utf8_lossy(data).replace(['\n', '\r'], " ");
    let base = "[pgbouncer]\nlisten_addr = 127.0.0.1\nauth_type = trust\nauth_file = users.txt\n";
    use_settings("pgbouncer.ini", &format!("{base}[databases]\na = {text}\n"));
    use_settings("pgbouncer.ini", &format!("{base}[users]\nu = {text}\n[databases]\na = host=b\n"));
}

/// HBA rules are read or refused with their lines. A rule accepts only connections that it is for.
pub(crate) fn hba_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let named = |name: &str| match name {
        "missing" => Err("No such file".to_owned()),
        _ => Ok(text.chars().take(200).collect()),
    };
    let hba = match Hba::parse(&text, &named) {
        Ok(hba) => hba,
        Err(errors) => return rules_are_named(&text, errors.iter().map(|e| (e.line, e.message.as_str()))),
    };
    assert!(hba.rules().windows(2).all(|two| two[0].line < two[1].line), "rules keep the file's order");
    let addresses: [IpAddr; 3] = [
        Ipv4Addr::LOCALHOST.into(),
        Ipv4Addr::new(10, 1, 2, 3).into(),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    ];
    let ways = addresses
        .into_iter()
        .flat_map(|from| [true, false].map(|tls| ConnectionType::Tcp { from, tls }))
        .chain([ConnectionType::Local]);
    for via in ways {
        for (database, user) in [("app", "app"), ("all", "u"), ("", ""), ("replication", "sameuser")] {
            if let Some(rule) =
                hba.find(&HbaRequest { via, database, user, physical_replication: database == "replication" })
            {
                assert!(hba.rules().iter().any(|known| known == rule));
            }
        }
    }
}

/// OpenSSL's cipher lists: each yields a set, and a list of the set's names yields the same set.
pub(crate) fn cipher_list(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for resolve in [resolve_ciphers, resolve_tls13] {
        let (suites, _) = resolve(&text);
        assert!(suites.iter().enumerate().all(|(at, suite)| !suites[..at].contains(suite)), "a suite twice");
        let names: Vec<&str> = suites.iter().copied().map(CipherSuite::name).collect();
        assert!(suites.is_empty() || resolve(&names.join(":")) == (suites, Vec::new()));
    }
    let text = text.replace(|c: char| c.is_control(), " ").replace(['"', '\\'], " ");
    use_settings("weir.toml", &format!("[listen]\naddress = \"127.0.0.1\"\n[tls.client]\nciphers = \"{text}\"\n"));
}

/// A command of the console: a parsed name is not empty, and SET is done or refused.
pub(crate) fn console_command(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let command = match weir_admin::parse(&text) {
        Ok(command) => command,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    assert!(command.database() != Some(""), "an empty name would mean all databases");
    let _ = (command.tag(), command.issued(), command.name(), command.needs());
    if let Command::Set { key, value } = &command
        && let Ok(config) = weir_config::set(&Config::default(), key, value)
    {
        let _ = weir_config::show(&config);
    }
}

/// An assignment in a file means the same as an assignment on top of the file.
fn assign(key: &str, value: &str) {
    const FILE: &str = "[auth.users]\na = \"b\"\n[pools.p]\nhost = \"h\"\n";
    let Ok(assign) = Assignment::new(key, value) else { return };
    let edits = Edits::from(Edit::Setting(assign));
    let load = |text: &str, edits: &Edits| {
        let read = |path: &Path| if path == Path::new("weir.toml") { Ok(text.to_owned()) } else { Ok(String::new()) };
        weir_config::load_with(Path::new("weir.toml"), &read, &|_| None, edits).ok()
    };
    let written = weir_config::rewrite(FILE, &edits).and_then(|text| load(&text, &Edits::default()));
    let shown = |config: Option<Config>| config.map(|config| (weir_config::show(&config), config.pools));
    assert_eq!(shown(written), shown(load(FILE, &edits)));
}

/// SET of each setting, by name, and each value.
pub(crate) fn set_command(data: &[u8]) {
    let mut tape = Tape::new(data);
    let shown = weir_config::show(&Config::default());
    let key = &shown[usize::from(tape.byte()) % shown.len()].key;
    let value = String::from_utf8_lossy(tape.rest());
    assign(key, &value);
    let Ok(config) = weir_config::set(&Config::default(), key, &value) else { return };
    assert_eq!(weir_config::show(&config).len(), shown.len());
    assert!(weir_config::differences(&config, &config).is_empty());
}
