//! The console's own database: its names and its help.

use crate::command::Show;

/// The console's database as tables show it.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// The database names that lead to the console; no pool may have one of them.
pub const CONSOLE_NAMES: [&str; 2] = weir_config::RESERVED;

/// Whether a client that asks for `database` gets the console.
pub fn is_console(database: &str) -> bool {
    CONSOLE_NAMES.contains(&database)
}

/// The commands besides SHOW, as the help prints them.
const COMMANDS: [&str; 14] = [
    "SET key = arg",
    "RELOAD",
    "PAUSE [<db>]",
    "RESUME [<db>]",
    "DISABLE <db>",
    "ENABLE <db>",
    "RECONNECT [<db>]",
    "KILL [<db>]",
    "KILL_CLIENT <client_id>",
    "SUSPEND",
    "SHUTDOWN",
    "SHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS",
    "WAIT_CLOSE [<db>]",
    "SELECT is another word for SHOW",
];

/// The tables, in the groups that share a line of the help.
const GROUPS: [&[Show]; 5] = [
    &[Show::Help, Show::Config, Show::Databases, Show::Pools, Show::Clients, Show::Servers, Show::Users, Show::Version],
    &[Show::Peers, Show::PeerPools],
    &[Show::Fds, Show::Sockets, Show::ActiveSockets, Show::Lists, Show::Mem, Show::State],
    &[Show::DnsHosts, Show::DnsZones],
    &[Show::Stats, Show::StatsTotals, Show::StatsAverages, Show::Totals],
];

/// The answer to SHOW HELP: the DETAIL of a NOTICE (SQLSTATE 00000) whose message is `Console usage`. Each line begins
/// with a newline and a tab, as psql prints it best.
pub fn help_text() -> String {
    let mut text = String::new();
    for group in GROUPS {
        let names: Vec<String> = group.iter().map(|show| show.name().to_ascii_uppercase()).collect();
        text.push_str("\n\tSHOW ");
        text.push_str(&names.join("|"));
    }
    for command in COMMANDS {
        text.push_str("\n\t");
        text.push_str(command);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::parse;
    use crate::tables::TABLES;

    #[test]
    fn the_help_names_every_table() {
        for show in TABLES.iter().map(|entry| entry.show) {
            assert_eq!(GROUPS.iter().flat_map(|group| group.iter()).filter(|s| **s == show).count(), 1, "{show:?}");
        }
        assert!(
            help_text().starts_with("\n\tSHOW HELP|CONFIG|DATABASES|POOLS|CLIENTS|SERVERS|USERS|VERSION\n\tSHOW P")
        );
    }

    #[test]
    fn what_the_help_says_is_understood() {
        for line in help_text().split("\n\t").filter(|line| !line.is_empty() && !line.starts_with("SELECT")) {
            let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
            let rest = rest.replace("[<db>]", "app").replace("<db>", "app").replace("<client_id>", "7");
            for choice in rest.split('|') {
                let command = parse(&format!("{verb} {choice}"));
                assert!(matches!(command, Ok(Some(_))), "{verb} {choice}: {command:?}");
            }
        }
    }

    #[test]
    fn two_names_lead_to_the_console() {
        assert!(is_console(CONSOLE_DATABASE) && is_console("weir"));
        assert!(!is_console("Weir") && !is_console("app"));
    }
}
