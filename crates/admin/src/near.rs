//! The command that a mistyped one probably means, for the hint of the error.

use crate::console::COMMANDS;
use crate::show::TABLES;

/// The verbs that have tables.
const SHOW: [&str; 2] = ["show", "select"];

/// The nearest command to a text that is none, as one would type it; `None` if none is near, as for SQL.
pub(crate) fn nearest(text: &str) -> Option<String> {
    let mut words = text.trim_end_matches([';', ' ', '\n']).split_whitespace();
    let (verb, rest) = (words.next()?, words.collect::<Vec<_>>());
    let verbs = COMMANDS.iter().filter_map(|command| command.split(' ').next());
    let verb = weir_config::nearest(verb, verbs.chain(SHOW))?;
    let is_show = SHOW.iter().any(|show| verb.eq_ignore_ascii_case(show));
    let meant = match (is_show, rest.as_slice()) {
        (true, []) => return None,
        // As in SHOW LOST STATE.
        (true, words) => {
            let table = weir_config::nearest(&words.join("_"), TABLES.iter().map(|(_, name)| *name))?;
            format!("SHOW {}", table.to_ascii_uppercase())
        }
        (false, []) => verb.to_ascii_uppercase(),
        (false, words) => format!("{} {}", verb.to_ascii_uppercase(), words.join(" ")),
    };
    // What is wrong is elsewhere, as in PAUSE one two.
    let is_same = meant.split_whitespace().map(str::to_lowercase).eq(text.split_whitespace().map(str::to_lowercase));
    (!is_same).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_found_and_sql_is_not() {
        for (text, meant) in [
            ("SHOW POOL", "SHOW POOLS"),
            ("show client;", "SHOW CLIENTS"),
            ("SHWO SERVERS", "SHOW SERVERS"),
            ("SHOW LOST STATE", "SHOW LOST_STATE"),
            ("relaod", "RELOAD"),
            ("PUASE app", "PAUSE app"),
        ] {
            assert_eq!(nearest(text).as_deref(), Some(meant), "{text}");
            assert!(crate::command::parse(text).is_err(), "{text} is a command");
        }
        for text in
            ["", ";", "SHOW", "SELECT 1", "PAUSE one two", "SELECT * FROM orders", "INSERT INTO t VALUES (1)", "\\d"]
        {
            assert_eq!(nearest(text), None, "{text}");
        }
    }
}
