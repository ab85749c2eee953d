//! The console's grammar in unusual spellings, and the role of each command.

use proptest::prelude::*;

use super::*;
use crate::show::TABLES;

/// One command of each kind, with its spelling.
fn commands() -> Vec<(&'static str, Command)> {
    let app = || Some("app".to_owned());
    let mut all = vec![
        ("pause", Command::Pause(None)),
        ("Pause App", Command::Pause(Some("App".to_owned()))),
        ("RESUME", Command::Resume(None)),
        ("resume app", Command::Resume(app())),
        ("reload", Command::Reload),
        ("reconnect", Command::Reconnect(None)),
        ("reconnect app", Command::Reconnect(app())),
        ("kill", Command::Kill(None)),
        ("kill app", Command::Kill(app())),
        ("kill_client 18446744073709551615", Command::KillClient(u64::MAX)),
        ("shutdown", Command::Shutdown(ShutdownMode::Now)),
        ("shutdown wait_for_servers", Command::Shutdown(ShutdownMode::WaitForServers)),
        ("SHUTDOWN Wait_For_Clients", Command::Shutdown(ShutdownMode::WaitForClients)),
        ("shutdown drain", Command::Shutdown(ShutdownMode::Drain)),
        ("enable app", Command::Enable("app".to_owned())),
        ("disable app", Command::Disable("app".to_owned())),
        ("wait_close", Command::WaitClose(None)),
        ("wait_close app", Command::WaitClose(app())),
        ("suspend", Command::Suspend),
        ("start_record", Command::StartRecord(None, 600)),
        ("start_record app", Command::StartRecord(app(), 600)),
        ("START_RECORD app 60", Command::StartRecord(app(), 60)),
        ("start_record \"*\" 60", Command::StartRecord(None, 60)),
        ("stop_record", Command::StopRecord(None)),
        ("stop_record app", Command::StopRecord(app())),
        ("set pool_mode = session", Command::Set { key: "pool_mode".into(), value: "session".into() }),
        ("set client_encoding to 'UTF8'", Command::SetParameter(Parameter::ClientEncoding)),
        ("show timezone", Command::Show(Show::Parameter(Parameter::TimeZone))),
    ];
    all.extend(TABLES.iter().map(|(show, name)| (*name, Command::Show(*show))));
    all
}

/// The query for a command: SHOW before a table's name.
fn spelled(text: &str, command: &Command) -> String {
    match command {
        Command::Show(_) if !text.contains(' ') => format!("show {text}"),
        _ => text.to_owned(),
    }
}

#[test]
fn every_command_is_understood_however_it_is_spaced_ended_and_commented() {
    for (text, command) in commands() {
        let text = spelled(text, &command);
        let spellings = [
            text.clone(),
            format!("{text};"),
            format!("  \t\r\n{text} ;; "),
            format!("/* from a script */ {text} -- thanks"),
            text.replace(' ', " /* here */ "),
            text.replace(' ', "\n"),
        ];
        for spelling in spellings {
            assert_eq!(parse(&spelling), Ok(command.clone()), "{spelling:?}");
        }
    }
}

#[test]
fn case_matters_in_names_of_databases_only() {
    for (show, name) in TABLES {
        let upper = format!("SHOW {}", name.to_ascii_uppercase());
        assert_eq!(parse(&upper), Ok(Command::Show(show)), "{upper}");
    }
    assert_eq!(parse("PAUSE App"), Ok(Command::Pause(Some("App".into()))));
    assert_eq!(parse("SET Pool_Mode TO Session").map(|c| c.tag().into_owned()), Ok("SET pool_mode=Session".into()));
}

#[test]
fn select_is_another_word_for_show() {
    for (show, name) in TABLES {
        assert_eq!(parse(&format!("SELECT {};", name)), Ok(Command::Show(show)));
    }
    assert_eq!(parse("select 1"), Err(CommandError::Invalid("select 1".into())));
}

#[test]
fn names_of_databases_may_be_quoted_and_hold_what_names_hold() {
    let names = [
        ("\"app\"", "app"),
        ("test-pool", "test-pool"),
        ("shop.eu_1", "shop.eu_1"),
        ("\"with space\"", "with space"),
        ("\"a\"\"b;--\"", "a\"b;--"),
        ("größe", "größe"),
        ("*", "*"),
    ];
    for (text, name) in names {
        assert_eq!(parse(&format!("kill {text};")), Ok(Command::Kill(Some(name.to_owned()))), "{text}");
    }
    assert_eq!(parse("\"show\" \"Pools\""), Ok(Command::Show(Show::Pools)));
}

#[test]
fn settings_are_set_with_either_sign_and_any_quotes() {
    let set = |value: &str| Ok(Command::Set { key: "query_timeout".into(), value: value.into() });
    for text in
        ["set query_timeout=5", "SET query_timeout = '5'", "set \"query_timeout\" to 5", "SET query_timeout TO \"5\";"]
    {
        assert_eq!(parse(text), set("5"), "{text}");
    }
    assert_eq!(parse("set query_timeout = ''"), set(""));
    assert_eq!(parse("set query_timeout = 'it''s = 5; --'"), set("it's = 5; --"));
    for text in ["set", "set a", "set a =", "set a b", "set a = b c", "set = b", "set 'a' = b", "set a = = b"] {
        assert_eq!(parse(text), Err(CommandError::Invalid(text.into())), "{text}");
    }
    assert_eq!(parse("set \"\" = b"), Err(CommandError::BadArguments));
}

#[test]
fn what_drivers_set_after_connecting_is_distinguished_from_settings() {
    for parameter in Parameter::ALL {
        let name = parameter.name();
        assert_eq!(parse(&format!("SET {name} = 'x'")), Ok(Command::SetParameter(parameter)));
        assert_eq!(parse(&format!("show {name}")), Ok(Command::Show(Show::Parameter(parameter))));
    }
    assert_eq!(parse("SET DateStyle TO ISO"), Ok(Command::SetParameter(Parameter::DateStyle)));
}

#[test]
fn nothing_but_space_comments_and_semicolons_is_no_command_either() {
    for text in ["", " \n\t", ";", " ; ;; ", "-- hello", "/* a /* b */ */;", "-- a\n;-- b"] {
        assert_eq!(parse(text), Err(CommandError::Invalid(text.into())), "{text:?}");
    }
}

#[test]
fn what_is_no_command_is_reported_with_pgbouncers_text() {
    let invalid = [
        "foo",
        "show",
        "show foo",
        "show pools x",
        "show 'pools'",
        "show \"\"",
        "pause; resume",
        "; pause",
        "reload app",
        "suspend app",
        "shutdown now",
        "shutdown wait_for_servers x",
        "pause app db",
        "BEGIN",
        "select * from pools",
        "select version()",
        "pause 'app'",
        "pause \"app",
        "/* pause",
        "show_pools",
    ];
    for text in invalid {
        let error = parse(text).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid command '{text}', use SHOW HELP;"));
        assert_eq!(error.sqlstate(), "08P01");
    }
}

#[test]
fn arguments_that_cannot_be_meant_are_refused() {
    let refused = [
        ("enable", "a database is required"),
        ("disable;", "a database is required"),
        ("kill_client", "invalid client pointer supplied"),
        ("kill_client 0x7f", "invalid client pointer supplied"),
        ("kill_client -1", "invalid client pointer supplied"),
        ("kill_client 18446744073709551616", "invalid client pointer supplied"),
        ("pause \"\"", "bad arguments"),
        ("kill \"\"", "bad arguments"),
        ("start_record app 0", "bad arguments"),
        ("start_record app 86401", "bad arguments"),
        ("stop_record \"\"", "bad arguments"),
        ("shutdown \"\"", "invalid command 'shutdown \"\"', use SHOW HELP;"),
    ];
    for (text, message) in refused {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn the_console_itself_is_out_of_reach() {
    let refused = [
        ("pause pgbouncer", "cannot pause admin db: pgbouncer"),
        ("pause weir", "cannot pause admin db: weir"),
        ("kill \"pgbouncer\"", "cannot kill admin db: pgbouncer"),
        ("reconnect weir", "cannot reconnect admin db: weir"),
        ("disable pgbouncer", "cannot disable admin db: pgbouncer"),
        ("enable pgbouncer", "cannot enable admin db: pgbouncer"),
        ("wait_close pgbouncer", "cannot wait in admin db: pgbouncer"),
        ("resume pgbouncer", "database pgbouncer is not paused"),
    ];
    for (text, message) in refused {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn who_only_looks_may_show_all_but_descriptors_and_change_nothing() {
    for (text, command) in commands() {
        let looks = match command {
            Command::Show(show) => show != Show::Fds,
            Command::SetParameter(_) => true,
            _ => false,
        };
        let expected = if looks { Ok(()) } else { Err(CommandError::AdminNeeded) };
        assert_eq!(command.permit(ConsoleRole::Stats), expected, "{text}");
        assert_eq!(command.permit(ConsoleRole::Admin), Ok(()), "{text}");
        assert_eq!(command.needs() == ConsoleRole::Stats, looks, "{text}");
    }
    assert_eq!(CommandError::AdminNeeded.to_string(), "admin access needed");
}

#[test]
fn the_tag_repeats_the_command() {
    for (text, command) in commands() {
        let verb = spelled(text, &command).split(' ').next().unwrap().to_ascii_uppercase();
        assert_eq!(command.name(), verb);
        match command {
            Command::Set { .. } => assert_eq!(command.tag(), "SET pool_mode=session"),
            _ => assert_eq!(command.tag(), verb),
        }
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_mix_of_what_has_a_meaning_makes_the_parser_panic(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "show", "set", "kill_client", "pools", "to", "=", ";", "\"", "\"\"", "'", "''", "/*", "*/", "--", "\n",
                " ", "é", "9", "-", "\0",
            ]),
            0..24,
        )
    ) {
        let text = parts.concat();
        match parse(&text) {
            Ok(command) => prop_assert!(!command.name().is_empty()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_name_survives_quoting(name in "[^\0]{1,40}") {
        prop_assume!(!is_console(&name));
        let quoted = format!("PAUSE \"{}\"", name.replace('"', "\"\""));
        prop_assert_eq!(parse(&quoted), Ok(Command::Pause(Some(name))));
    }
}
