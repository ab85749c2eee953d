//! All mistakes are reported at once: in each kind of file, in the order of files and lines, and none twice.

use crate::common::{load_ini, load_with};
use weir_config::{Config, ConfigErrors};

/// The beginnings of the mistakes, up to what is to be done about them.
fn mistakes(result: Result<Config, ConfigErrors>) -> Vec<String> {
    let mistakes = result.map(|_| ()).unwrap_err();
    let begin = |error: &weir_config::ConfigError| {
        let text = error.to_string().replace("/etc/weir/", "");
        text.split(';').next().unwrap().to_owned()
    };
    mistakes.iter().map(begin).collect()
}

#[test]
fn every_key_value_and_section_of_a_toml_is_judged_in_one_reading() {
    let text = "[general]\nmax_clients = \"many\"\n[listen]\nprot = 1\nport = 99999\n[colours]\n[limits]\nsize = -1\n\
                [pools.a]\nhost = 5\nmode = \"sesion\"\n[pools.b]\nhost = \"h:1\"\npassword_env = \"NO_SUCH\"\n\
                [pools.c]\n[pools.weir]\nhost = \"h\"\n[auth]\ntype = \"trust\"\nquery_database = \"weir\"\n";
    assert_eq!(
        mistakes(load_with(text, &[], &[])),
        [
            "weir.toml:2: \"max_clients\" in [general] must be a whole number from 1 to 10000000, not text",
            "weir.toml:4: unknown key \"prot\" in [listen]",
            "weir.toml:5: \"port\" in [listen] must be a whole number from 1 to 65535, not 99999",
            "weir.toml:6: unknown section [colours]",
            "weir.toml:8: \"size\" in [limits] must be a whole number from 0 to 1000000, not -1",
            "weir.toml:10: \"host\" in [pools.a] must be a host or a list of hosts, as in \"127.0.0.1\" or \
             [\"one\", \"two\"], not a whole number",
            "weir.toml:11: \"mode\" in [pools.a] must be one of session, transaction, statement, auto, not \"sesion\"",
            "weir.toml:13: \"host\" in [pools.b] is not a host: \"h:1\"",
            "weir.toml:14: the environment variable NO_SUCH of [pools.b] is not set",
            "weir.toml:15: [pools.c] has no host",
            "weir.toml:16: the pool name \"weir\" is reserved for the console",
            "weir.toml:20: cannot use the reserved \"weir\" database as an auth_dbname",
        ]
    );
}

#[test]
fn lines_that_are_no_toml_are_reported_with_what_is_wrong_in_the_others() {
    let text = "[auth]\ntype = trust\n[pools.a]\nhost = 127.0.0.1\nsize = 1\nsizes = 2\nsize = 3\n[pools.b]\nprt = 1\n";
    assert_eq!(
        mistakes(load_with(text, &[], &[])),
        [
            "weir.toml:2: the value of \"type\" has no quotes, and is no number and not true or false",
            "weir.toml:4: the value of \"host\" has no quotes, and is no number and not true or false",
            "weir.toml:6: unknown key \"sizes\" in [pools.a]",
            "weir.toml:7: \"size\" is there twice",
            "weir.toml:9: unknown key \"prt\" in [pools.b]",
        ]
    );
    let open = "[auth.users]\na = \"\"\n[pools.a]\nhost = [\"h\"\nsize = 1\n[pools.b]\nprt = 1\n";
    let open = load_with(open, &[], &[]).unwrap_err().to_string().replace("/etc/weir/", "");
    assert!(open.starts_with("weir.toml:4: ") && open.contains("what begins in this line must be closed"), "{open}");
    assert!(open.contains("\nweir.toml:7: unknown key \"prt\""), "{open}");
}

#[test]
fn a_section_that_is_there_twice_is_named() {
    let text = "[auth]\ntype = \"trust\"\n[pools.a]\nhost = \"h\"\n[pools.a] # again\nhost = \"i\"\n";
    assert_eq!(mistakes(load_with(text, &[], &[])), ["weir.toml:5: the section [pools.a] is there twice"]);
}

#[test]
fn what_is_missing_because_of_a_mistake_is_not_reported_as_well() {
    for text in ["[auth]\ntipe = \"trust\"\n[pools.a]\nhots = \"h\"\n", "[auth]\nfile = 5\n[pools.a]\nhost = []\n"] {
        let reported = mistakes(load_with(text, &[], &[]));
        assert!(!reported.iter().any(|line| line.contains("no users")), "{reported:?}");
        assert_eq!(reported.len(), 2, "{reported:?}");
    }
}

#[test]
fn every_line_of_an_ini_and_of_what_it_includes_is_judged_in_one_reading() {
    let text = "[pgbouncer]\nlisten_prot = 1\npool_mode = sesion\nwhat is this\n%include more.ini\n[databases]\n\
                a = hots=x\nb = host=x port=y pool_size=z\n%include gone.ini\n[user]\nann = pool_mode=session\n\
                [users]\nann = pool_mod=session\n[peers]\nx = host=h\n1 = port=5 color=2\n";
    let more = "max_client_conn = lots\n[unclosed\n";
    let files = [("more.ini", more)];
    assert_eq!(
        mistakes(load_ini(text, &files)),
        [
            "pgbouncer.ini:2: unknown parameter \"listen_prot\" in [pgbouncer]",
            "pgbouncer.ini:3: \"pool_mode\" in [pgbouncer] must be one of session, transaction, statement, auto, not \
             \"sesion\"",
            "pgbouncer.ini:4: syntax error",
            "pgbouncer.ini:7: unrecognized connection parameter \"hots\" in database a",
            "pgbouncer.ini:8: \"port\" in database b must be a whole number from 1 to 65535, or a list of them, not \
             \"y\"",
            "pgbouncer.ini:8: \"pool_size\" in database b must be a whole number from 0 to 1000000, not \"z\"",
            "pgbouncer.ini:9: the included file gone.ini can't be read: No such file or directory",
            "pgbouncer.ini:10: unknown section [user]",
            "pgbouncer.ini:13: unrecognized user parameter \"pool_mod\" in user ann",
            "pgbouncer.ini:15: peer x is no number from 1 to 16383",
            "pgbouncer.ini:16: unrecognized connection parameter \"color\" in peer 1",
            "pgbouncer.ini:16: host was not provided for peer 1",
            "more.ini:1: \"max_client_conn\" in [pgbouncer] must be a whole number from 1 to 10000000, not \"lots\"",
            "more.ini:2: the section's ] is missing",
        ]
    );
}

#[test]
fn every_line_of_users_rules_and_maps_is_judged_beside_the_settings() {
    let text = "[auth]\ntype = \"hba\"\nfile = \"users.txt\"\nhba_file = \"hba\"\nident_file = \"ident\"\n\
                [pools.a]\nhost = \"h\"\nsizee = 1\n";
    let files = [
        ("users.txt", "\"ann\" \"hush\"\nbob hush\n\"eve\"\n"),
        ("hba", "local all all\nlocal all all trust\nhost all all 1.2.3.4/33 trust\n"),
        ("ident", "m a\nm a b c\n"),
    ];
    let reported = mistakes(load_with(text, &files, &[]));
    let places: Vec<_> = reported.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["weir.toml:8", "hba:1", "hba:3", "ident:1", "ident:2", "users.txt:2", "users.txt:3"]);
    assert!(!reported.iter().any(|line| line.contains("hush")), "{reported:?}");
}

#[test]
fn files_that_are_missing_are_all_reported() {
    let text = "[auth]\ntype = \"hba\"\nfile = \"users.txt\"\nhba_file = \"hba\"\nident_file = \"ident\"\n\
                [tls.client]\nmode = \"require\"\n[web]\ntls_key_file = \"k\"\n[pools.a]\nhost = \"h\"\n\
                password_file = \"gone\"\n";
    let reported = mistakes(load_with(text, &[], &[]));
    let places: Vec<_> = reported.iter().map(|line| line.split(": ").next().unwrap()).collect();
    assert_eq!(places, [3, 4, 5, 7, 9, 12].map(|line| format!("weir.toml:{line}")), "{reported:#?}");
}

#[test]
fn a_file_of_nothing_but_mistakes_is_cut_short() {
    let text = format!("[listen]\n{}", (0..100_000).map(|i| format!("colour{i} = 1\n")).collect::<String>());
    let reported = load_with(&text, &[], &[]).unwrap_err();
    assert_eq!((reported.iter().count(), reported.first().line), (50, Some(2)));
    assert!(reported.to_string().ends_with("\nand 950 more"), "{reported}");
    let ini = format!("[pgbouncer]\n{}", "what\n".repeat(100_000));
    assert_eq!(load_ini(&ini, &[]).unwrap_err().iter().count(), 50);
    let users = "x\n".repeat(100_000);
    let reported = load_with("[auth]\nfile = \"users.txt\"\n", &[("users.txt", &users)], &[]).unwrap_err();
    assert_eq!((reported.iter().count(), reported.first().line), (50, Some(1)));
}
