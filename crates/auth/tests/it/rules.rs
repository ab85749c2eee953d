//! HBA and ident files with arbitrary and hostile text, and compared with a second implementation of the rules.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use weir_auth::{ConnectionType, Hba, HbaRequest, IdentMaps, RuleError, RuleMethod};

fn no_files(_: &str) -> Result<String, String> {
    Err("there are no files".into())
}

/// Logins that reach every branch of a rule.
fn asks() -> Vec<(ConnectionType, &'static str, &'static str)> {
    let addresses = ["127.0.0.1", "10.0.0.1", "::1", "::ffff:10.0.0.1", "fe80::1"];
    let tcp = addresses.iter().flat_map(|from| {
        let from: IpAddr = from.parse().unwrap();
        [ConnectionType::Tcp { from, tls: false }, ConnectionType::Tcp { from, tls: true }]
    });
    let ways: Vec<ConnectionType> = tcp.chain([ConnectionType::Local]).collect();
    let names = [("a", "a"), ("a", "b"), ("all", "all"), ("", ""), ("replication", "sameuser")];
    ways.iter().flat_map(|&via| names.map(|(database, user)| (via, database, user))).collect()
}

/// A valid file must give results; an invalid one must report where and why.
fn check(text: &str, read: Result<Hba, Vec<RuleError>>) {
    let lines = text.lines().count();
    match read {
        Ok(hba) => {
            for (via, database, user) in asks() {
                let found = hba.find(&HbaRequest { via, database, user, physical_replication: false });
                assert!(found.is_none_or(|rule| (1..=lines).contains(&rule.line)));
            }
        }
        Err(errors) => check_errors(lines, &errors),
    }
}

fn check_errors(lines: usize, errors: &[RuleError]) {
    assert!(!errors.is_empty() && errors.is_sorted_by_key(|error| error.line));
    for error in errors {
        assert!((1..=lines).contains(&error.line), "{error}");
        assert!(!error.message.is_empty() && error.message.len() < 1000, "{} bytes", error.message.len());
        assert!(!error.message.contains(char::is_control), "{:?}", error.message);
    }
}

/// Pieces of valid and invalid rules.
const PIECES: &[&str] = &[
    "local",
    "host",
    "hostssl",
    "hostnossl",
    "all",
    "sameuser",
    "replication",
    "a",
    "b",
    "md5",
    "trust",
    "peer",
    "cert",
    "map=m",
    "10.0.0.0/8",
    "::/0",
    "255.0.0.0",
    "@f",
    "+r",
    "/x",
    "\"",
    "\"\"",
    "\"a\"",
    ",",
    "#",
    "\\",
    "\n",
    "\\\n",
    "\0",
    "\t",
    " ",
    "=",
    "/",
    "\u{a0}",
    "é",
    "\u{feff}",
    "include",
];

proptest! {
    #[test]
    fn no_text_makes_a_file_of_rules_panic(text in any::<String>()) {
        check(&text, Hba::parse(&text, &no_files));
        if let Err(errors) = IdentMaps::parse(&text) {
            check_errors(text.lines().count(), &errors);
        }
    }

    #[test]
    fn no_heap_of_pieces_makes_a_file_of_rules_panic(
        pieces in vec((select(PIECES), any::<bool>()), 0..60),
        file in vec(select(PIECES), 0..20),
    ) {
        let text: String = pieces.iter().flat_map(|&(piece, blank)| [piece, if blank { " " } else { "" }]).collect();
        let file = file.join(" ");
        check(&text, Hba::parse(&text, &|_| Ok(file.clone())));
        if let Err(errors) = IdentMaps::parse(&text) {
            check_errors(text.lines().count(), &errors);
        }
    }

    #[test]
    fn a_quoted_name_is_that_name_whatever_it_says(
        name in prop_oneof!["[^\0\r\n/][^\0\r\n]{0,30}", select(PIECES).prop_map(str::to_owned)],
        other in "[a-z]{1,5}",
    ) {
        prop_assume!(!name.starts_with('/') && !name.contains(['\0', '\n']) && !name.ends_with('\\') && name != other);
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let hba = Hba::parse(&format!("local {quoted} {quoted} trust"), &no_files).unwrap();
        let lets_in = |database, user| hba.find(&HbaRequest { via: ConnectionType::Local, database, user, physical_replication: false }).is_some();
        prop_assert!(lets_in(&name, &name));
        prop_assert!(!lets_in(&other, &name) && !lets_in(&name, &other) && !lets_in(&other, &other));
        let maps = IdentMaps::parse(&format!("m {quoted} {quoted}")).unwrap();
        prop_assert!(maps.allows("m", &name, &name) && !maps.allows("m", &name, &other));
    }
}

#[test]
fn very_long_lines_are_read_or_refused_with_short_errors() {
    let long = "x".repeat(1 << 20);
    let many = vec!["u"; 1 << 18].join(",");
    for line in [
        format!("local {long} {long} md5"),
        format!("local all {many} md5"),
        format!("local all \"{long}"),
        long.clone(),
        format!("host all all {long} md5"),
        format!("local all all {long}"),
        format!("local all all peer map={long}"),
        format!("local all all peer {long}"),
        format!("local all +{long} md5"),
        format!("local all @{long} md5"),
        " ".repeat(1 << 20),
        "\\\n".repeat(1 << 18),
        ",".repeat(1 << 20),
        "\"".repeat((1 << 20) + 1),
        "\"\u{1b}\u{202e}\0".repeat(1 << 10),
    ] {
        check(&line, Hba::parse(&line, &no_files));
        if let Err(errors) = IdentMaps::parse(&line) {
            check_errors(line.lines().count(), &errors);
        }
    }
}

/// A rule as the test models it.
#[derive(Clone, Debug)]
struct Model {
    kind: &'static str,
    databases: Vec<&'static str>,
    users: Vec<&'static str>,
    network: (&'static str, u32),
    method: &'static str,
}

/// The networks of [`Model`], with the test addresses that they contain.
const NETWORKS: &[(&str, u32, &[&str])] = &[
    ("10.1.0.0", 16, &["10.1.2.3", "10.1.255.255"]),
    ("10.1.2.3", 32, &["10.1.2.3"]),
    ("10.0.0.0", 7, &["10.1.2.3", "10.1.255.255", "11.9.9.9"]),
    ("0.0.0.0", 0, &["10.1.2.3", "10.1.255.255", "11.9.9.9", "192.0.2.1"]),
    ("fd00::", 8, &["fd00::1", "fdff::2"]),
    ("::", 0, &["fd00::1", "fdff::2", "2001:db8::1"]),
];

const CLIENTS: &[&str] =
    &["10.1.2.3", "10.1.255.255", "11.9.9.9", "192.0.2.1", "fd00::1", "fdff::2", "2001:db8::1", "local"];

fn model() -> impl Strategy<Value = Model> {
    (
        select(&["local", "host", "hostssl", "hostnossl"][..]),
        vec(select(&["all", "sameuser", "replication", "d", "e", "u"][..]), 1..4),
        vec(select(&["all", "u", "v", "w"][..]), 1..3),
        select(NETWORKS),
        select(&["trust", "reject", "md5", "password", "scram-sha-256"][..]),
    )
        .prop_map(|(kind, databases, users, network, method)| {
            let network = (network.0, network.1);
            Model { kind, databases, users, network, method }
        })
}

impl Model {
    fn write(&self, separate_mask: bool) -> String {
        let (address, bits) = self.network;
        let from = match (self.kind, address.parse().unwrap()) {
            ("local", _) => String::new(),
            (_, IpAddr::V4(_)) if separate_mask => {
                let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
                format!("{address}\t{}", std::net::Ipv4Addr::from_bits(mask))
            }
            _ => format!("{address}/{bits}"),
        };
        format!("{} {} {} {from} {}\n", self.kind, self.databases.join(","), self.users.join(" , "), self.method)
    }

    fn is_for(&self, client: &str, tls: bool, database: &str, user: &str) -> bool {
        let held = NETWORKS.iter().find(|network| (network.0, network.1) == self.network).unwrap().2;
        let by_way = match self.kind {
            "local" => client == "local",
            "host" => held.contains(&client),
            "hostssl" => tls && held.contains(&client),
            _ => !tls && held.contains(&client),
        };
        let by_database = self.databases.iter().any(|&name| match name {
            "all" => true,
            "sameuser" => database == user,
            "replication" => false,
            name => name == database,
        });
        by_way && by_database && self.users.iter().any(|&name| name == "all" || name == user)
    }
}

fn named(method: RuleMethod) -> &'static str {
    match method {
        RuleMethod::Ldap => "ldap ldapserver=h ldapprefix=p",
        other => other.as_str(),
    }
}

proptest! {
    #[test]
    fn rules_mean_what_a_plain_reading_says(models in vec((model(), any::<bool>()), 0..12)) {
        let text: String = models.iter().map(|(model, mask)| model.write(*mask)).collect();
        let hba = Hba::parse(&text, &no_files).unwrap();
        for &client in CLIENTS {
            for tls in [false, true] {
                let via = client.parse().map_or(ConnectionType::Local, |from| ConnectionType::Tcp { from, tls });
                for (database, user) in [("d", "u"), ("e", "v"), ("u", "u"), ("replication", "w"), ("x", "x")] {
                    let expected = models.iter().position(|(model, _)| model.is_for(client, tls, database, user));
                    let found = hba.find(&HbaRequest { via, database, user, physical_replication: false });
                    let found = found.map(|rule| (rule.line, named(rule.method)));
                    prop_assert_eq!(found, expected.map(|at| (at + 1, models[at].0.method)), "{}", text);
                }
            }
        }
    }
}
