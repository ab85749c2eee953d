//! The experiment `reconnect`: a new connection for every transaction, with and without poolers.
//!
//! Source: an article after ScaleGrid's (`docs/articles/pgpool-pgbouncer.md`). Owns the plan: the order of the cases
//! and their durations. The columns of one number of clients are measured one after another, and the first one changes
//! from row to row, so that a machine that becomes slower or faster favours none.

mod evaluate;
mod published;
mod stage;

use std::fmt;
use std::time::Duration;

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::model;
use crate::servers::{DEFAULT_CHILDREN, Mode};
use crate::steps::{Experiment, LabError, Results, Stage, Step};

/// The options of `weir lab reconnect` beside the common ones.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Options {
    /// pgbench's scale: 100,000 accounts each [default: 100; with --quick 20]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    scale: Option<u32>,
    /// Seconds a run [default: 300; with --standard 20, with --quick 3]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    duration: Option<u32>,
}

/// The experiment at this length.
pub(crate) fn new(length: Length, options: &Options) -> Box<dyn Experiment> {
    Box::new(Reconnect { plan: Plan::new(length, options) })
}

/// The program between pgbench and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    None,
    Pgbouncer,
    Pgpool,
    Weir,
}

impl Column {
    const ALL: [Column; 4] = [Column::None, Column::Pgbouncer, Column::Pgpool, Column::Weir];

    fn id(self) -> &'static str {
        match self {
            Column::None => "none",
            Column::Pgbouncer => "pgbouncer",
            Column::Pgpool => "pgpool",
            Column::Weir => "weir",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Column::None => "no pooler",
            Column::Pgbouncer => "PgBouncer",
            Column::Pgpool => "Pgpool-II",
            Column::Weir => "Weir",
        }
    }
}

/// A pooler's settings: those of the article's table, or others that show the effect of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Table,
    /// The pool mode, if it is not the pooler's default.
    Mode(Mode),
    /// Pgpool-II with its default number of children.
    DefaultChildren,
}

/// One run: a column, its settings, a number of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    column: Column,
    setting: Setting,
    clients: u32,
}

impl Case {
    /// The step's id, and the name of the raw output.
    fn id(self) -> String {
        let Case { column, setting, clients } = self;
        match setting {
            Setting::Table => format!("{}-{clients}", column.id()),
            Setting::Mode(Mode::Session) => format!("{}-session-{clients}", column.id()),
            Setting::Mode(Mode::Transaction) => format!("{}-transaction-{clients}", column.id()),
            Setting::DefaultChildren => format!("{}-{DEFAULT_CHILDREN}-children-{clients}", column.id()),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.column.name())?;
        match self.setting {
            Setting::Table => Ok(()),
            Setting::Mode(Mode::Session) => f.write_str(" in session mode"),
            Setting::Mode(Mode::Transaction) => f.write_str(" in transaction mode"),
            Setting::DefaultChildren => write!(f, " with {DEFAULT_CHILDREN} children"),
        }?;
        write!(f, ", {} clients", self.clients)
    }
}

/// The cases, and their duration.
#[derive(Clone, Debug)]
struct Plan {
    scale: u32,
    /// Seconds of a run.
    duration: u32,
    clients: Vec<u32>,
    /// The number of clients of the cases with other settings.
    aside: u32,
    /// Other settings, to show the effect of a setting.
    others: Vec<(Column, Setting)>,
}

impl Plan {
    fn new(length: Length, options: &Options) -> Plan {
        let all = published::LINES.map(|line| line.clients).to_vec();
        let hangs = (Column::Pgpool, Setting::DefaultChildren);
        let modes = [
            (Column::Pgbouncer, Setting::Mode(Mode::Transaction)),
            (Column::Weir, Setting::Mode(Mode::Session)),
            hangs,
        ];
        Plan {
            scale: options.scale.unwrap_or(length.pick(1, 20, 100, 100)),
            duration: options.duration.unwrap_or(length.pick(1, 3, 20, 300)),
            clients: length.pick(vec![10, 200], all.clone(), all.clone(), all),
            aside: 40,
            others: length.pick(vec![hangs], modes.to_vec(), modes.to_vec(), modes.to_vec()),
        }
    }

    /// The cases of this number of clients, in order: the first one is different each time.
    fn row(&self, clients: u32) -> Vec<Case> {
        let place = self.clients.iter().position(|at| *at == clients).unwrap_or(0);
        let mut columns = Column::ALL;
        columns.rotate_left(place % Column::ALL.len());
        columns.map(|column| Case { column, setting: Setting::Table, clients }).to_vec()
    }

    fn others(&self) -> Vec<Case> {
        self.others.iter().map(|&(column, setting)| Case { column, setting, clients: self.aside }).collect()
    }

    fn cases(&self) -> Vec<Case> {
        self.clients.iter().flat_map(|clients| self.row(*clients)).chain(self.others()).collect()
    }

    /// The timeout of a run: clients log in, and tables are vacuumed, before its time begins.
    fn timeout(&self) -> Duration {
        Duration::from_secs(u64::from(self.duration) + 5 + u64::from(self.duration.clamp(0, 30)))
    }
}

struct Reconnect {
    plan: Plan,
}

impl Experiment for Reconnect {
    fn id(&self) -> &'static str {
        "reconnect"
    }

    fn options(&self) -> String {
        format!("scale={} duration={}", self.plan.scale, self.plan.duration)
    }

    fn steps(&self) -> Vec<Step> {
        let seconds = |case: &Case| match case.setting {
            Setting::DefaultChildren => self.plan.timeout().as_secs_f64() + 1.0,
            Setting::Table | Setting::Mode(_) => f64::from(self.plan.duration) + 0.8,
        };
        let step = |case: Case| Step { id: case.id(), title: case.to_string(), seconds: seconds(&case) };
        self.plan.cases().into_iter().map(step).collect()
    }

    fn opening_seconds(&self) -> f64 {
        3.0 + 0.3 * f64::from(self.plan.scale)
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(stage::Bench::open(lab, self.plan.clone())?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(&self.plan, results)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_case_is_measured_once_and_none_always_begins() {
        let plan = Plan::new(Length::Quick, &Options::default());
        let cases = plan.cases();
        assert_eq!(cases.len(), 6 * 4 + 3);
        assert_eq!(cases.iter().map(|case| case.id()).collect::<BTreeSet<_>>().len(), cases.len());
        let first: Vec<_> = plan.clients.iter().map(|clients| plan.row(*clients)[0].column).collect();
        assert_eq!(first[..4], [Column::None, Column::Pgbouncer, Column::Pgpool, Column::Weir]);
    }

    #[test]
    fn a_run_that_is_stuck_is_given_up_and_a_long_one_is_not() {
        let plan = |duration| Plan::new(Length::Article, &Options { scale: None, duration: Some(duration) });
        assert!(plan(3).timeout() < Duration::from_secs(15));
        assert!(plan(300).timeout() > Duration::from_secs(330));
    }
}
