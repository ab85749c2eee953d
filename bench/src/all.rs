//! `weir-bench all`: runs every group, and prints one table at the end: which budgets hold.
//!
//! A group that fails does not keep the others from being measured: its budgets are open, and the table says why.

use std::time::Instant;

use clap::{Args, ValueEnum as _};

use serde_json::{Value, json};

use crate::budgets::{self, Finding, Findings, Measured};
use crate::contender::{Kind, OTHERS};
use crate::error::{Error, Outcome};
use crate::options::{Group, Output};
use crate::out::Out;
use crate::{auto, bulk, burst, idle, noisy, open, own, rounds, syscalls, tail, workers};

/// The options of `all`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only these groups, in this order
    #[arg(long, value_delimiter = ',', value_name = "GROUP")]
    groups: Vec<String>,
    /// All cases of the rounds
    #[arg(long, conflicts_with = "quick")]
    full: bool,
    /// What has a budget relative to PgBouncer, by both back ends, beside every other pooler on the PATH: 15 minutes,
    /// and five more for each other pooler
    #[arg(long, conflicts_with_all = ["quick", "full", "groups"])]
    rivals: bool,
    /// Each for a second and small: that everything runs; its figures mean nothing
    #[arg(long)]
    quick: bool,
    /// Flags for all of these groups, each of which must know them, such as `--pgbouncer PATH`, `--rival …` (after --)
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<String>,
    #[command(flatten)]
    output: Output,
}

/// A group as `all` runs it.
struct Entry {
    name: &'static str,
    /// Runs it with these flags.
    run: fn(&[String], &mut Out) -> Outcome<Findings>,
    /// Whether the group knows these flags.
    knows: fn(&[String]) -> Outcome<()>,
    /// Whether the group has the flags that choose the poolers.
    has_rig: bool,
    /// The group's flags for a quick run.
    quick: &'static str,
    /// The group's flags with `--rivals`; `None` if the group is left out then.
    rivals: Option<&'static str>,
}

const fn entry<G: Group>(quick: &'static str, rivals: Option<&'static str>, has_rig: bool) -> Entry {
    Entry {
        name: G::NAME,
        run: |flags, out| G::with(flags)?.run(out),
        knows: |flags| G::with(flags).map(drop),
        has_rig,
        quick,
        rivals,
    }
}

/// The cases that both back ends have budgets in.
const BUDGETED: &str = "--only simple-1,simple-4,simple-20,simple-50,simple-200,prepared-50,extended-50,connect-10,\
                        tpcb-50 --rounds 5 --poolers @installed";

/// In the flags of an entry: PgBouncer, Weir by both back ends, and each of [`OTHERS`] that is on the PATH.
const INSTALLED: &str = "@installed";

static GROUPS: &[Entry] = &[
    entry::<rounds::Options>("--rounds 1 --seconds 1 --scale 1 --only simple-50,connect-10", Some(BUDGETED), true),
    entry::<own::Options>("--quick --transactions 1000", None, false),
    entry::<syscalls::Options>("--seconds 1", None, true),
    entry::<tail::Options>("--rounds 1 --seconds 1 --clients 100", Some("--rounds 4 --seconds 3"), true),
    entry::<idle::Options>("--clients 100,200 --idle 200 --active 10 --rate 200 --rounds 1 --seconds 1", None, true),
    entry::<noisy::Options>("--rounds 1 --seconds 1 --idle 10", None, true),
    entry::<open::Options>("--rounds 1 --seconds 1 --clients 40 --load 50,120", Some("--few --rounds 5"), true),
    entry::<bulk::Options>("--rounds 1 --megabytes 10", Some("--rounds 3 --poolers @installed"), true),
    entry::<burst::Options>("--rounds 1 --clients 200", None, true),
    entry::<auto::Options>("--rounds 1 --seconds 1", None, true),
    entry::<workers::Options>("--rounds 1 --seconds 1", None, true),
];

impl Group for Options {
    const NAME: &'static str = "budgets";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let groups = self.chosen()?;
        // A flag that one of them does not know is better reported now than after a quarter of an hour.
        groups.iter().try_for_each(|group| (group.knows)(&self.flags_of(group)))?;
        let (begin, mut found, mut figures) = (Instant::now(), Vec::new(), Vec::new());
        for group in groups {
            println!("\n=== {} ===\n", group.name);
            let mut said = Out::new();
            match (group.run)(&self.flags_of(group), &mut said) {
                Ok(findings) => {
                    found.extend(findings.budgets);
                    self.output.write_page(group.name, &said)?;
                    figures.push(json!({ "group": group.name, "figures": findings.json }));
                }
                Err(error) => {
                    eprintln!("weir-bench {}: {error}", group.name);
                    found.extend(left_open(group.name, &error));
                }
            }
        }
        println!("\n=== budgets ===\n");
        budgets::print_table(out, &found);
        println!("({} min)", begin.elapsed().as_secs().div_ceil(60));
        let json = json!({ "budgets": budgets::json(&found), "groups": Value::Array(figures) });
        Ok(Findings { budgets: found, json })
    }
}

impl Options {
    fn chosen(&self) -> Outcome<Vec<&'static Entry>> {
        if self.groups.is_empty() {
            return Ok(GROUPS.iter().filter(|group| !self.rivals || group.rivals.is_some()).collect());
        }
        let of = |name: &String| {
            let names: Vec<_> = GROUPS.iter().map(|group| group.name).collect();
            let unknown = || Error::new(format!("--groups {name}: there are {}", names.join(", ")));
            GROUPS.iter().find(|group| group.name == name).ok_or_else(unknown)
        };
        self.groups.iter().map(of).collect()
    }

    fn flags_of(&self, group: &Entry) -> Vec<String> {
        let mut flags: Vec<_> = if group.has_rig { self.flags.clone() } else { Vec::new() };
        if let (true, Some(rivals)) = (self.rivals, group.rivals) {
            let poolers = |flag: &str| if flag == INSTALLED { installed() } else { flag.to_owned() };
            flags.extend(rivals.split_whitespace().map(poolers));
        }
        if self.quick {
            flags.extend(group.quick.split_whitespace().map(str::to_owned));
        }
        if self.full && group.name == <rounds::Options as Group>::NAME {
            flags.push("--full".to_owned());
        }
        flags
    }
}

/// The value of `--poolers` that [`INSTALLED`] is replaced by.
fn installed() -> String {
    let others = OTHERS.into_iter().filter(|kind| kind.is_installed());
    let kinds = [Kind::Pgbouncer, Kind::Weir, Kind::WeirEpoll].into_iter().chain(others);
    let names = kinds.filter_map(|kind| kind.to_possible_value());
    names.map(|name| name.get_name().to_owned()).collect::<Vec<_>>().join(",")
}

/// The budgets of a group that has failed.
fn left_open<'a>(group: &'a str, error: &'a Error) -> impl Iterator<Item = Finding> + 'a {
    let of_group = move |command: Measured| match command {
        Measured::By(command) => command.split(' ').next() == Some(group),
        Measured::Test(_) => false,
    };
    let of_group = budgets::all().filter(move |budget| of_group(budget.command));
    of_group.map(move |budget| Finding::none(budget.id, format!("{group} failed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> Options {
        Options::with(&flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn every_budget_is_measured_by_a_group_that_there_is() {
        for budget in budgets::all() {
            let Measured::By(command) = budget.command else { continue };
            let name = command.split(' ').next().unwrap();
            assert!(GROUPS.iter().any(|group| group.name == name), "{}: {command}", budget.id);
        }
    }

    #[test]
    fn the_flags_of_a_shorter_run_are_flags_that_the_groups_have() {
        for flag in ["--quick", "--rivals"] {
            let options = options(&[flag]);
            for group in options.chosen().unwrap() {
                let known = (group.knows)(&options.flags_of(group));
                assert!(known.is_ok(), "{}: {}", group.name, known.unwrap_err());
            }
        }
    }

    #[test]
    fn flags_after_the_dashes_go_to_the_groups_that_know_them() {
        let all = options(&["--full", "--", "--pgbouncer", "/x"]);
        let flags = |name: &str| all.flags_of(GROUPS.iter().find(|group| group.name == name).unwrap()).join(" ");
        assert_eq!(flags("rounds"), "--pgbouncer /x --full");
        assert_eq!((flags("tail").as_str(), flags("own").as_str()), ("--pgbouncer /x", ""));
    }

    #[test]
    fn an_unknown_group_is_answered_with_those_there_are() {
        let error = options(&["--groups", "tail,tails"]).chosen().err().unwrap().to_string();
        assert!(error.starts_with("--groups tails: there are rounds, own,"), "{error}");
        assert_eq!(options(&["--groups", "tail,own"]).chosen().unwrap()[1].name, "own");
    }

    #[test]
    fn the_budgets_of_a_group_that_failed_are_open() {
        let found: Vec<_> = left_open("bulk", &Error::new("no psql")).collect();
        assert_eq!(found.iter().map(|finding| finding.id).collect::<Vec<_>>(), ["bulk-plain", "bulk-tls"]);
        assert_eq!(found[0].figure, Err("bulk failed: no psql".to_owned()));
    }
}
