//! The alerts that fire, kept over a restart in the folder of `[web] history`: one that still lasts is no new one.

use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_admin::{AlertKey, Condition, FiredAlert};

use crate::journal::{Journal, JournalBounds};

/// Only the last list counts.
const BOUNDS: JournalBounds = JournalBounds { records: 1, bytes: 1 << 20 };
const FILE: &str = "alerts.firing";

#[derive(Clone, Serialize, Deserialize)]
struct Record {
    rule: String,
    pool: Option<String>,
    critical: bool,
    summary: String,
    advice: String,
    clients: u64,
    /// Microseconds since 1970, like the others.
    started: u64,
    fired: u64,
    sent: Option<u64>,
}

/// The list on disk.
pub(super) struct Firing(Journal<Vec<Record>>);

impl Firing {
    pub(super) fn open(folder: Option<&Path>) -> Firing {
        Firing(Journal::open(folder, FILE, BOUNDS))
    }

    /// What fired when the list was written last.
    pub(super) fn last(&self) -> Vec<FiredAlert> {
        let list = self.0.newest_first(|all| all.next().cloned());
        list.unwrap_or_default().into_iter().map(FiredAlert::from).collect()
    }

    /// Takes a list; returns whether it is to be written out.
    pub(super) fn put(&self, fired: &[FiredAlert]) -> bool {
        self.0.push(fired.iter().map(Record::from).collect())
    }

    /// Writes the list. Blocks on the disk; returns the error when there was none before.
    pub(super) fn write_out(&self) -> Option<String> {
        self.0.write_out()
    }
}

impl From<&FiredAlert> for Record {
    fn from(of: &FiredAlert) -> Record {
        let Condition { key, critical, summary, advice, clients, .. } = of.condition.clone();
        let FiredAlert { started, fired, sent, .. } = *of;
        Record { rule: key.rule, pool: key.pool, critical, summary, advice, clients, started, fired, sent }
    }
}

impl From<Record> for FiredAlert {
    fn from(of: Record) -> FiredAlert {
        let Record { rule, pool, critical, summary, advice, clients, started, fired, sent } = of;
        let condition = Condition {
            key: AlertKey { rule, pool },
            critical,
            summary,
            advice,
            clients,
            since: started,
            server: None,
        };
        FiredAlert { condition, started, fired, sent, seen: fired }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_list_is_read_again_and_a_damaged_file_is_none() {
        let folder = std::env::temp_dir().join(format!("weir-firing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let key = AlertKey { rule: "stalled".to_owned(), pool: Some("app".to_owned()) };
        let (summary, advice) = ("s".to_owned(), "a".to_owned());
        let condition = Condition { key, critical: true, summary, advice, clients: 3, since: 5, server: None };
        let fired = FiredAlert { condition, started: 5, fired: 7, sent: Some(8), seen: 7 };
        let first = Firing::open(Some(&folder));
        assert!(first.last().is_empty());
        for list in [vec![fired.clone(), fired.clone()], vec![fired.clone()]] {
            assert!(first.put(&list));
            assert_eq!(first.write_out(), None);
        }
        assert_eq!(Firing::open(Some(&folder)).last(), [fired]);
        std::fs::write(folder.join(FILE), "no list\n").expect("it is written");
        assert!(Firing::open(Some(&folder)).last().is_empty());
        std::fs::remove_dir_all(&folder).expect("it was there");
    }
}
