//! The flags that several groups share.

use std::path::{Path, PathBuf};

use clap::Args;

use serde_json::Value;

use crate::budgets::Findings;
use crate::contender::{Kind, MAX_SESSIONS, OTHERS, Role};
use crate::error::{Error, Outcome};
use crate::find;
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::rival::Rivals;
use crate::setup::{Certificate, Key, Link, Login, Mode, Pool, Programs, SOCKET_POOL, Setup, USER};
use crate::stage::{Pooler, Stage};

/// One part of the benchmarks, a command of its own.
pub(crate) trait Group: Args {
    /// The group's command.
    const NAME: &'static str;

    /// Measures, and prints the results.
    fn run(&self, out: &mut Out) -> Outcome<Findings>;

    fn output(&self) -> &Output;

    /// The defaults of the group's flags, with these flags given.
    fn with(flags: &[String]) -> Outcome<Self> {
        let command = Self::augment_args(clap::Command::new(Self::NAME).no_binary_name(true));
        let matches = command.try_get_matches_from(flags).map_err(|e| Error::new(e.to_string()))?;
        Self::from_arg_matches(&matches).map_err(|e| Error::new(e.to_string()))
    }
}

/// Where results go besides the terminal.
#[derive(Args, Clone, Debug)]
pub(crate) struct Output {
    /// Where the results are written as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// A page in which the output takes the place of the last one, between its marks
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/MEASURED.md")]
    page: Option<PathBuf>,
    /// End with status 1 when a budget is missed
    #[arg(long)]
    pub(crate) strict: bool,
}

impl Output {
    /// Writes a group's output and findings to the places that the caller named.
    pub(crate) fn write(&self, group: &str, out: &Out, json: &Value) -> Outcome<()> {
        if let Some(path) = &self.json {
            std::fs::write(path, format!("{json}\n")).map_err(|e| Error::at(format!("write {}", path.display()), e))?;
            println!("Written to {}.", path.display());
        }
        self.write_page(group, out)
    }

    /// The page alone.
    pub(crate) fn write_page(&self, group: &str, out: &Out) -> Outcome<()> {
        let Some(page) = &self.page else { return Ok(()) };
        out.write_into(page, group)?;
        println!("{} has it now.", page.display());
        Ok(())
    }
}

/// The poolers to measure, and how they are set up.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rig {
    /// Whom to measure [default: pgbouncer,weir, mostly weir-epoll, and in `rounds` all that are on the PATH and the
    /// limits]; `direct` is PostgreSQL alone
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    pub(crate) poolers: Vec<Kind>,
    /// Weir's program [default: the release build beside this program]
    #[arg(long, value_name = "PATH")]
    weir: Option<PathBuf>,
    /// PgBouncer's program [default: the newest of target/poolers, PATH and /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pgbouncer: Option<PathBuf>,
    /// Pgpool-II's program [default: from PATH or /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pgpool: Option<PathBuf>,
    /// The pool's size, of each pooler
    #[arg(long, default_value_t = 20)]
    pub(crate) pool_size: u32,
    /// How clients and poolers log in; with scram the server trusts, otherwise on both sides alike
    #[arg(long, value_enum, default_value_t = Login::Trust)]
    pub(crate) auth: Login,
    /// The key of the poolers' certificate
    #[arg(long, value_enum, default_value_t = Key::Rsa)]
    key: Key,
    /// Worker threads of a pooler that has them
    #[arg(long, default_value_t = 1)]
    pub(crate) workers: u32,
    /// The mode of Weir's pools; other poolers are in mode transaction
    #[arg(long, value_enum, default_value_t = Mode::Transaction)]
    weir_mode: Mode,
    #[command(flatten)]
    pub(crate) rivals: Rivals,
}

impl Rig {
    /// Starts PostgreSQL with pgbench's tables.
    pub(crate) fn stage(&self, scale: u32) -> Outcome<(Stage, Pgbench)> {
        let stage = self.bare_stage()?;
        let pgbench = Pgbench::of(&stage)?;
        pgbench.initialize(&stage, scale)?;
        Ok((stage, pgbench))
    }

    /// Starts PostgreSQL and nothing else.
    pub(crate) fn bare_stage(&self) -> Outcome<Stage> {
        Stage::start(self.setup()?, &[], self.rivals.postgres_port)
    }

    /// The poolers to measure, without PgBouncer if it is missing, which is reported.
    pub(crate) fn kinds(&self, out: &mut Out) -> Outcome<Vec<Kind>> {
        let mut kinds = if self.poolers.is_empty() { vec![Kind::Pgbouncer, Kind::Weir] } else { self.poolers.clone() };
        kinds.sort_unstable();
        kinds.dedup();
        if kinds.contains(&Kind::Pgbouncer) && find::pgbouncer(self.pgbouncer.as_deref()).is_none() {
            kinds.retain(|kind| *kind != Kind::Pgbouncer);
            print_line!(out, "{}\nGoing on without it; ratios are absent.\n", find::GET_PGBOUNCER);
        }
        if kinds.is_empty() { Err(Error::new("there is no pooler to measure")) } else { Ok(kinds) }
    }

    /// The poolers of `kinds`, with Weir by epoll unless others are named.
    pub(crate) fn both_kinds(&self, out: &mut Out) -> Outcome<Vec<Kind>> {
        let mut kinds = self.kinds(out)?;
        if self.poolers.is_empty() && Kind::WeirEpoll.bars(self.auth).is_none() {
            kinds.push(Kind::WeirEpoll);
        }
        Ok(kinds)
    }

    /// The poolers of `both_kinds`, with every other pooler that is installed, and those that mark a limit.
    pub(crate) fn all_kinds(&self, out: &mut Out) -> Outcome<Vec<Kind>> {
        let mut kinds = self.both_kinds(out)?;
        if self.poolers.is_empty() && find::pgpool(self.pgpool.as_deref()).is_some() {
            kinds.push(Kind::Pgpool);
        }
        if self.poolers.is_empty() {
            kinds.extend(OTHERS.into_iter().filter(|kind| kind.is_installed()));
        }
        Ok(self.with_limits(kinds, out))
    }

    /// Adds the poolers that mark a limit, and removes those that can't be measured with this login, which is reported.
    pub(crate) fn with_limits(&self, mut kinds: Vec<Kind>, out: &mut Out) -> Vec<Kind> {
        kinds.extend(Kind::limits());
        kinds.sort_unstable();
        kinds.dedup();
        for kind in &kinds {
            if let Some(why) = kind.bars(self.auth) {
                print_line!(out, "{kind} is left out: {why}.");
            }
        }
        kinds.retain(|kind| kind.bars(self.auth).is_none());
        kinds
    }

    /// Starts all of them.
    pub(crate) fn poolers(&self, stage: &Stage, out: &mut Out) -> Outcome<Vec<Pooler>> {
        let kinds = self.kinds(out)?;
        self.start(stage, kinds, out)
    }

    /// Starts these, and joins the rivals that run already. A pooler that is only shown beside Weir and does not serve
    /// is left out, and the reason is printed.
    pub(crate) fn start(&self, stage: &Stage, kinds: Vec<Kind>, out: &mut Out) -> Outcome<Vec<Pooler>> {
        let mut poolers = Vec::new();
        let mut ours = stage.setup().clone();
        ours.pools.iter_mut().for_each(|pool| pool.mode = self.weir_mode);
        let started = kinds.into_iter().map(|kind| {
            let setup = if matches!(kind, Kind::Weir | Kind::WeirEpoll) { &ours } else { stage.setup() };
            (kind, stage.pooler_with(kind, setup))
        });
        let joined = self.rivals.list.iter().map(|rival| (Kind::Other, Pooler::of(rival, &self.rivals)));
        for (kind, pooler) in started.chain(joined) {
            match pooler {
                Ok(pooler) => poolers.push(pooler),
                Err(error) if matches!(kind.role(), Role::Rival | Role::Limit) => {
                    print_line!(out, "{error}\nGoing on without it.\n")
                }
                Err(error) => return Err(error),
            }
        }
        Ok(poolers)
    }

    /// The rig, with Weir and PgBouncer each run by what `wrap` makes of its name and program.
    pub(crate) fn wrapped(&self, wrap: impl Fn(&str, &Path) -> Outcome<PathBuf>) -> Outcome<Rig> {
        let weir = find::weir(self.weir.as_deref())?;
        let pgbouncer = find::pgbouncer(self.pgbouncer.as_deref());
        let pgbouncer = pgbouncer.map(|program| wrap("pgbouncer", &program.path)).transpose()?;
        Ok(Rig { weir: Some(wrap("weir", &weir.path)?), pgbouncer, ..self.clone() })
    }

    /// PgBouncer's version; without one, the newest rules hold.
    pub(crate) fn pgbouncer_version(&self) -> String {
        let program = find::pgbouncer(self.pgbouncer.as_deref());
        program.map_or_else(|| "1.25".to_owned(), |program| program.version)
    }

    fn pool(&self, name: &'static str, server: Link) -> Pool {
        Pool { name, mode: Mode::Transaction, size: self.pool_size, server }
    }

    fn setup(&self) -> Outcome<Setup> {
        Ok(Setup {
            pools: vec![self.pool(USER, Link::Tcp), self.pool(SOCKET_POOL, Link::UnixSocket)],
            login: self.auth,
            workers: self.workers,
            certificate: Some(Certificate::new(self.key)?),
            sessions: MAX_SESSIONS,
            programs: Programs {
                weir: self.weir.clone(),
                pgbouncer: self.pgbouncer.clone(),
                pgpool: self.pgpool.clone(),
            },
        })
    }
}
