//! Each form of a rule: what it matches, and which errors name which line.

use super::*;

fn no_files(name: &str) -> Result<String, String> {
    Err(format!("no file {name}"))
}

fn parse(text: &str) -> Hba {
    Hba::parse(text, &no_files).unwrap()
}

/// The error of a file's only bad line, which must be its last.
fn error(text: &str) -> String {
    let errors = Hba::parse(text, &no_files).unwrap_err();
    assert_eq!((errors.len(), errors[0].line), (1, text.lines().count()), "{errors:?}");
    errors[0].message.clone()
}

fn local() -> ConnectionType {
    ConnectionType::Local
}

fn tcp(from: &str) -> ConnectionType {
    ConnectionType::Tcp { from: from.parse().unwrap(), tls: false }
}

fn tls(from: &str) -> ConnectionType {
    ConnectionType::Tcp { from: from.parse().unwrap(), tls: true }
}

fn method(hba: &Hba, database: &str, user: &str, via: ConnectionType) -> Option<RuleMethod> {
    hba.find(&HbaRequest { via, database, user, physical_replication: false }).map(|rule| rule.method)
}

/// Rules of each type, with each form of database, user and address.
const FILE: &str = r#"
# TYPE     DATABASE   USER      ADDRESS     METHOD
local      dbp        all                   peer
local      all        userp                 password
local      dbs        users                 scram-sha-256
local      all        all                   md5
hostssl    all        all       10.0.0.0/8  cert
hostnossl  all        all       11.0.0.0/8  md5
host       all        all       127.0.0.0  255.255.255.0  plain
host       db1        all       0.0.0.0/0   md5
host       all        user1     15.0.0.0/8  md5
host       tmp1,all   user1,user2 , user3   16.0.0.0/8  md5
host       d1,d2      t18user   18.0.0.0/8  trust # comment
hostssl    "all"      "all"     19.0.0.0/8  cert
hostssl    "q1""q2"   "a , b"   19.0.0.0/8  cert map="my map"
host       sameuser   all       20.0.0.0/8  trust
host       db2,replication  admin  ::1/128  trust
host       "sameuser","replication"  keyword  21.0.0.0/8  trust
host       mdb3       all       all         reject
"#;

#[test]
fn the_first_rule_that_matches_decides() {
    let hba = parse(FILE);
    use RuleMethod::{Cert, Md5, Peer, Plain, Reject, ScramSha256, Trust};
    let table = [
        ("dbp", "user", local(), Some(Peer)),
        ("db", "userp", local(), Some(Plain)),
        ("dbs", "users", local(), Some(ScramSha256)),
        ("db", "user", local(), Some(Md5)),
        ("db", "user", tls("10.1.1.1"), Some(Cert)),
        ("db", "user", tcp("10.1.1.1"), None),
        ("db", "user", tls("11.1.1.1"), None),
        ("db", "user", tcp("11.1.1.1"), Some(Md5)),
        ("db", "user", tcp("::ffff:11.1.1.1"), Some(Md5)),
        ("db", "user", tcp("127.0.0.3"), Some(Plain)),
        ("db", "user", tls("127.0.0.3"), Some(Plain)),
        ("db", "user", tcp("127.0.1.4"), None),
        ("db1", "user", tcp("127.0.1.4"), Some(Md5)),
        ("db1", "user", tcp("::1"), None),
        ("db", "user1", tcp("15.0.0.1"), Some(Md5)),
        ("db", "user2", tcp("15.0.0.1"), None),
        ("db", "user2", tcp("16.0.0.1"), Some(Md5)),
        ("db", "user3", tcp("16.0.0.1"), Some(Md5)),
        ("db", "user4", tcp("16.0.0.1"), None),
        ("d2", "t18user", tcp("18.0.0.2"), Some(Trust)),
        ("d3", "t18user", tcp("18.0.0.2"), None),
        ("db", "user", tls("19.0.0.2"), None),
        ("all", "all", tls("19.0.0.2"), Some(Cert)),
        ("q1\"q2", "a , b", tls("19.0.0.2"), Some(Cert)),
        ("same", "same", tcp("20.0.0.2"), Some(Trust)),
        ("same", "other", tcp("20.0.0.2"), None),
        ("db2", "admin", tcp("::1"), Some(Trust)),
        ("replication", "admin", tcp("::1"), None),
        ("replication", "keyword", tcp("21.0.0.1"), Some(Trust)),
        ("sameuser", "keyword", tcp("21.0.0.1"), Some(Trust)),
        ("keyword", "keyword", tcp("21.0.0.1"), None),
        ("mdb3", "user", tcp("1.2.3.4"), Some(Reject)),
        ("mdb3", "user", tls("face::1"), Some(Reject)),
    ];
    for (database, user, via, expected) in table {
        assert_eq!(method(&hba, database, user, via), expected, "{database} {user} {via:?}");
    }
}

#[test]
fn a_rule_knows_its_line_and_its_map() {
    let hba = parse(FILE);
    let rule = hba
        .find(&HbaRequest { via: tls("19.0.0.2"), database: "q1\"q2", user: "a , b", physical_replication: false })
        .unwrap();
    assert_eq!((rule.line, rule.map()), (15, Some("my map")));
    assert_eq!(hba.rules()[0].map(), None);
}

#[test]
fn without_rules_every_client_is_refused() {
    assert_eq!(method(&parse("# nothing\n\n"), "db", "user", local()), None);
    assert_eq!(method(&Hba::default(), "db", "user", tcp("127.0.0.1")), None);
}

#[test]
fn the_file_that_postgresql_installs_is_taken() {
    let hba = parse(
        "local   all             postgres                                peer\n\
         local   all             all                                     peer\n\
         host    all             all             127.0.0.1/32            scram-sha-256\n\
         host    all             all             ::1/128                 scram-sha-256\n\
         local   replication     all                                     peer\n\
         host    replication     all             127.0.0.1/32            scram-sha-256\n",
    );
    assert_eq!(method(&hba, "db", "user", tls("127.0.0.1")), Some(RuleMethod::ScramSha256));
    assert_eq!(hba.rules().len(), 6);
}

#[test]
fn what_is_not_supported_is_refused_with_its_line_and_a_fix() {
    let table = [
        ("hostgssenc all all 10.0.0.0/8 md5", "hostgssenc is not supported"),
        ("hostnogssenc all all 10.0.0.0/8 md5", "write host"),
        ("include other.conf", "copy the lines"),
        ("include_dir conf.d", "copy the lines"),
        ("Local all all md5", "unknown type \"Local\""),
        ("\"local\" all all md5", "unknown type \"local\""),
        ("host,local all all 10.0.0.0/8 md5", "TYPE takes no list"),
        ("local samerole all md5", "samerole is not supported"),
        ("local samegroup all md5", "samegroup is not supported"),
        ("local all +staff md5", "\"+staff\" is not supported"),
        ("local +staff all md5", "\"+staff\" is not supported"),
        ("local /^db all md5", "regular expressions are not supported"),
        ("local \"/^db\\d\" all md5", "regular expressions are not supported"),
        ("local all u,/x md5", "regular expressions are not supported"),
        ("local \"\" all md5", "an empty name"),
        ("local all @ md5", "@ names no file"),
        ("host all all samehost md5", "samehost is not supported"),
        ("host all all samenet md5", "samenet is not supported"),
        ("host all all \"all\" md5", "host names are not supported"),
        ("host all all db.example.org md5", "host names are not supported"),
        ("host all all .example.org md5", "host names are not supported"),
        ("host all all 10.0.0.0/8,11.0.0.0/8 md5", "ADDRESS takes no list"),
        ("host all all 10.0.0.1 md5", "\"md5\" is no mask"),
        ("host all all 10.0.0.0/33 md5", "from 0 to 32"),
        ("local all all gss", "gss is not supported"),
        ("local all all sspi", "sspi is not supported"),
        ("local all all radius", "radius is not supported"),
        ("host all all all ldap ldapserver=x", "ldap needs ldapbasedn"),
        ("host all all all ldap map=m", "not one of ldap"),
        ("host all all all ldap ldapserver", "is no option"),
        ("host all all all pam map=m", "the option \"map\" is not supported"),
        ("host all all all oauth issuer=https://a scope=b", "oauth needs audience="),
        ("host all all all oauth issuer=http://a scope=b audience=c", "issuer must be an https"),
        ("host all all all oauth validator=x", "Weir checks tokens itself"),
        ("local all all ident", "write peer"),
        ("local all all any", "any works as auth_type only"),
        ("local all all MD5", "unknown method \"MD5\""),
        ("local all all \"md5\"", "unknown method \"md5\""),
        ("local all all 127.0.0.1/32 md5", "unknown method \"127.0.0.1/32\""),
        ("host all all all peer", "write it in a local rule"),
        ("local all all cert", "write it in a hostssl rule"),
        ("hostnossl all all all cert", "write it in a hostssl rule"),
        ("host all all all md5 map=x", "map= works with cert, peer and oauth only"),
        ("hostssl all all all cert map=", "map= names no map"),
        ("hostssl all all all cert map=a map=b", "twice"),
        ("hostssl all all all cert map=a,b", "options take no list"),
        ("hostssl all all all cert clientname=DN", "the option \"clientname=DN\" is not supported"),
        ("hostssl all all all md5 clientcert=verify-ca", "clientcert is not supported"),
        ("hostssl all all all md5 extra", "the option \"extra\" is not supported"),
        ("local", "DATABASE is missing"),
        ("local all", "USER is missing"),
        ("local all all", "METHOD is missing"),
        ("host all all", "ADDRESS is missing"),
        ("host all all 10.0.0.0/8", "METHOD is missing"),
        ("host all all 10.0.0.0", "mask behind ADDRESS is missing"),
        ("local all \"all md5", "a quote is not closed"),
        ("local all, , all md5", "a comma must stand"),
        ("local al\0l all md5", "zero byte"),
    ];
    for (line, expected) in table {
        let message = error(&format!("local all all md5\n\n{line}\n"));
        assert!(message.contains(expected), "{line}: {message}");
    }
}

#[test]
fn all_invalid_lines_are_reported_at_once() {
    let errors = Hba::parse("local all all peer\nhost all\n# x\nlocal all \\\n all gss\nbad\n", &no_files).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [2, 4, 6]);
    assert!(errors[2].to_string().starts_with("line 6: unknown type \"bad\""), "{}", errors[2]);
}

#[test]
fn names_may_be_in_separate_files() {
    let read = |name: &str| match name {
        "lists/users" => Ok("# staff\nann, bob\n\"c d\" @more/rest\n".to_owned()),
        "lists/more/rest" => Ok("eve,\nall@home @/etc/last".to_owned()),
        "/etc/last" => Ok("zoe".to_owned()),
        "everybody" => Ok("all".to_owned()),
        other => Err(format!("no {other}")),
    };
    let hba = Hba::parse("local db @lists/users,tom md5\nlocal @everybody amy trust", &read).unwrap();
    for user in ["ann", "bob", "c d", "eve", "all@home", "zoe", "tom"] {
        assert_eq!(method(&hba, "db", user, local()), Some(RuleMethod::Md5), "{user}");
    }
    assert_eq!(method(&hba, "db", "lists/users", local()), None);
    assert_eq!(method(&hba, "other", "amy", local()), Some(RuleMethod::Trust));
}

#[test]
fn an_invalid_file_of_names_is_reported_with_both_lines_and_nesting_ends() {
    let read = |name: &str| match name {
        "bad" => Ok("ann\n+staff".to_owned()),
        "loop" => Ok("@loop".to_owned()),
        "wide" => Ok("@wide2 ".repeat(40)),
        "wide2" => Ok("@leaf ".repeat(40)),
        "leaf" => Ok(String::new()),
        _ => Err("no such file".to_owned()),
    };
    let refused = |field: &str| {
        let errors = Hba::parse(&format!("\nlocal all {field} md5"), &read).unwrap_err();
        assert_eq!((errors.len(), errors[0].line), (1, 2));
        errors[0].message.clone()
    };
    assert!(refused("@bad").starts_with("\"bad\" line 2: \"+staff\" is not supported"));
    assert_eq!(refused("@gone"), "can not read the file of names \"gone\": no such file");
    assert!(refused("@loop").ends_with("is 10 files deep: name fewer files in files"));
    assert!(refused("@wide").contains("more than 1000 files of names"));
}

#[test]
fn a_rule_whose_map_is_missing_is_reported() {
    let hba = parse("local all all peer map=here\nlocal all all peer map=gone\nlocal all all peer");
    let maps = IdentMaps::parse("here a b").unwrap();
    let errors = hba.check_maps(&maps).unwrap_err();
    assert_eq!((errors.len(), errors[0].line), (1, 2));
    assert!(errors[0].message.contains("no map \"gone\""), "{}", errors[0].message);
    assert_eq!(parse("local all all peer map=here").check_maps(&maps), Ok(()));
}

#[test]
fn a_physical_replication_connection_is_in_no_database_but_replication() {
    let rules = "local all all reject\nlocal replication u trust\nlocal all u md5\n";
    let hba = parse(rules);
    let found = |physical_replication| {
        hba.find(&HbaRequest { via: local(), database: "d", user: "u", physical_replication }).map(|rule| rule.method)
    };
    assert_eq!(found(true), Some(RuleMethod::Trust));
    assert_eq!(found(false), Some(RuleMethod::Reject));
}
