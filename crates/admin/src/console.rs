//! The console's database: its names and its help.

use crate::show::Show;

/// The console's database in tables.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// The database names of the console; no pool may have one of them.
pub const CONSOLE_NAMES: [&str; 2] = weir_config::RESERVED_DATABASES;

/// Whether `database` is the console.
pub fn is_console(database: &str) -> bool {
    CONSOLE_NAMES.contains(&database)
}

/// The commands besides SHOW, as the help prints them.
pub(crate) const COMMANDS: [&str; 20] = [
    "SET key = arg",
    "RELOAD",
    "PAUSE [<db>]",
    "RESUME [<db>]",
    "DISABLE <db>",
    "ENABLE <db>",
    "RECONNECT [<db>]",
    "RETRY [<db>]",
    "SWITCH <db> <host>",
    "RESET STATEMENTS",
    "START_RECORD [<db>] [<seconds>]",
    "STOP_RECORD [<db>]",
    "KILL [<db>]",
    "KILL_CLIENT <client_id>",
    "SUSPEND",
    "SHUTDOWN",
    "SHUTDOWN DRAIN",
    "SHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS",
    "WAIT_CLOSE [<db>]",
    "SELECT is another word for SHOW",
];

/// The tables, grouped by line of the help.
const GROUPS: [&[Show]; 6] = [
    &[Show::Help, Show::Config, Show::Databases, Show::Pools, Show::Clients, Show::Servers, Show::Users, Show::Version],
    &[Show::Peers, Show::PeerPools],
    &[Show::Fds, Show::Sockets, Show::ActiveSockets, Show::Lists, Show::Mem, Show::State],
    &[Show::DnsHosts, Show::DnsZones],
    &[Show::Stats, Show::StatsTotals, Show::StatsAverages, Show::Totals],
    &[
        Show::Refusals,
        Show::LostState,
        Show::Statements,
        Show::Records,
        Show::DryRun,
        Show::Cluster,
        Show::Patroni,
        Show::Primaries,
        Show::Faults,
    ],
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
    use crate::show::TABLES;

    #[test]
    fn the_help_names_every_table() {
        for show in TABLES.iter().map(|(show, _)| *show) {
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
            let rest = rest
                .replace("[<db>]", "app")
                .replace("<db>", "app")
                .replace("<host>", "db2:5432")
                .replace("<client_id>", "7")
                .replace("[<seconds>]", "60");
            for choice in rest.split('|') {
                let command = parse(&format!("{verb} {choice}"));
                assert!(command.is_ok(), "{verb} {choice}: {command:?}");
            }
        }
    }

    #[test]
    fn the_page_lists_the_commands_of_the_help_and_no_other() {
        let section = section(&page(), "Commands");
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")).map(|line| {
            let command = line.split('`').next().unwrap_or_default();
            command.replace("\\|", "|")
        });
        let commands: Vec<String> = rows.collect();
        assert_eq!(commands, COMMANDS[..COMMANDS.len() - 1]);
    }

    #[test]
    fn the_page_lists_every_table_with_all_its_columns_in_their_order() {
        let page = page();
        let tables = section(&page, "Tables");
        let mut listed = Vec::new();
        for part in tables.split("\n### SHOW ").skip(1) {
            let names: Vec<&str> = part.lines().next().unwrap_or_default().split(", ").collect();
            let cells = part.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split(" | ").next());
            let columns: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
            for name in names {
                let (show, _) = TABLES.iter().find(|(_, table)| table.eq_ignore_ascii_case(name)).expect(name);
                let wanted: Vec<&str> = crate::columns(*show).iter().map(|column| column.name).collect();
                assert_eq!(columns, wanted, "{name}");
                listed.push(*show);
            }
        }
        assert_eq!(listed, GROUPS.concat());
    }

    fn page() -> String {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/console.md");
        std::fs::read_to_string(path).expect("the page of the console")
    }

    /// The text under a heading of the second level.
    fn section(page: &str, heading: &str) -> String {
        let after = page.split(&format!("\n## {heading}\n")).nth(1).expect(heading);
        after.split("\n## ").next().unwrap_or_default().to_owned()
    }

    #[test]
    fn two_names_lead_to_the_console() {
        assert!(is_console(CONSOLE_DATABASE) && is_console("weir"));
        assert!(!is_console("Weir") && !is_console("app"));
    }
}
