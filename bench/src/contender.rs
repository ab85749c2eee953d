//! The programs that can be measured: one entry each, and its particulars.
//!
//! A new one is a variant of [`Kind`] and an entry in [`CONTENDERS`]; all else reads the entry. A second limit is an
//! entry with [`Role::Limit`].

use std::fmt;

use weir_uring::{Ring, RingSize};

use crate::cases::{Case, Protocol, Way};
use crate::error::{Error, Outcome};
use crate::find::{self, Program};
use crate::others;
use crate::setup::{self, Configuration, Login, Setup};

/// Clients that PostgreSQL has connections for where each takes one, beside its own and the poolers'.
pub(crate) const MAX_SESSIONS: u32 = 200;

/// A small ring, to see whether io_uring is available.
const SMALL: RingSize = RingSize { entries: 8, completions: 8, buffers: 8, buffer_size: 64 };

/// Whether there is io_uring here.
pub(crate) fn has_ring() -> bool {
    Ring::new(SMALL).is_ok()
}

/// What is between pgbench and PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// PgBouncer, to which all others are compared.
    Pgbouncer,
    /// Weir with its default: by io_uring where the kernel has it.
    Weir,
    /// Weir by epoll, its default without io_uring.
    WeirEpoll,
    /// Pgpool-II: a process and a server for each client.
    Pgpool,
    /// Odyssey, where it is on the PATH.
    Odyssey,
    /// PgCat, where it is on the PATH.
    Pgcat,
    /// pg_doorman, where it is on the PATH.
    #[value(name = "pg_doorman")]
    PgDoorman,
    /// A pooler that is running already, named by its address and its process.
    #[value(skip)]
    Other,
    /// A bare forwarder, the limit: it pools pgbench's small queries, and nothing else.
    Forwarder,
    /// Nothing: PostgreSQL itself. It has TPS and latency, but no pooler whose CPU time could be taken.
    Direct,
}

/// What one is measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The one that ratios are made with.
    Base,
    /// Weir, to which the budgets apply.
    Ours,
    /// Weir without io_uring; some budgets differ then.
    Epoll,
    /// Shown beside the others. What a rival can't do is noted in its row.
    Rival,
    /// What no pooler of its make can go below.
    Limit,
    /// No pooler at all.
    Nothing,
}

/// Poolers that are measured where they are found on the PATH, with their one pool by TCP.
pub(crate) const OTHERS: [Kind; 3] = [Kind::Odyssey, Kind::Pgcat, Kind::PgDoorman];

/// A file's name, and its text.
type File = (&'static str, fn(&Configuration) -> String);

/// One that can be measured.
pub(crate) struct Contender {
    kind: Kind,
    /// The name that tables show.
    name: &'static str,
    role: Role,
    /// The contender's program; `None` where there is nothing to start.
    program: fn(&Setup) -> Outcome<Option<Program>>,
    /// The program's arguments; `user`: the user to switch to, where that is set on the command line.
    arguments: fn(&Configuration, Option<&str>) -> Vec<String>,
    /// The name and text of the contender's configuration file.
    file: Option<File>,
    /// Whether root has to start it as the ordinary user; others take a flag, or run as root.
    drops_root: bool,
    /// Why a case does not apply to the contender.
    refuses: fn(&Case) -> Option<&'static str>,
    /// Why the contender can't be measured with this login.
    bars: fn(Login) -> Option<&'static str>,
}

static CONTENDERS: &[Contender] = &[
    Contender {
        kind: Kind::Pgbouncer,
        name: "PgBouncer",
        role: Role::Base,
        program: |setup| {
            let found = find::pgbouncer(setup.programs.pgbouncer.as_deref());
            found.map(Some).ok_or_else(|| Error::new(find::GET_PGBOUNCER))
        },
        // PgBouncer refuses to run as root, as PostgreSQL does, and switches to the same user.
        arguments: |configuration, user| match user {
            Some(user) => vec!["-u".to_owned(), user.to_owned(), configuration.file()],
            None => vec![configuration.file()],
        },
        file: Some(("pgbouncer.ini", setup::pgbouncer_ini)),
        drops_root: false,
        refuses: |_| None,
        bars: |_| None,
    },
    Contender {
        kind: Kind::Weir,
        name: "Weir",
        role: Role::Ours,
        program: |setup| find::weir(setup.programs.weir.as_deref()).map(Some),
        arguments: |configuration, _| vec!["serve".to_owned(), configuration.file()],
        file: Some(("weir.toml", setup::weir_toml)),
        drops_root: false,
        refuses: |_| None,
        bars: |_| None,
    },
    Contender {
        kind: Kind::WeirEpoll,
        name: "Weir epoll",
        role: Role::Epoll,
        program: |setup| find::weir(setup.programs.weir.as_deref()).map(Some),
        arguments: |configuration, _| vec!["serve".to_owned(), configuration.file()],
        file: Some(("weir.toml", setup::weir_toml)),
        drops_root: false,
        refuses: |_| None,
        bars: |_| (!has_ring()).then_some("io_uring is not available here, so the default Weir uses epoll"),
    },
    Contender {
        kind: Kind::Pgpool,
        name: "Pgpool-II",
        role: Role::Rival,
        program: |setup| {
            let found = find::pgpool(setup.programs.pgpool.as_deref());
            found.map(Some).ok_or_else(|| Error::new(find::GET_PGPOOL))
        },
        arguments: |configuration, _| {
            let (file, pcp) = (configuration.file(), configuration.beside("pcp.conf"));
            ["-n", "-D", "-f", &file, "-F", &pcp].map(str::to_owned).into()
        },
        file: Some(("pgpool.conf", setup::pgpool_conf)),
        drops_root: true,
        refuses: |case| {
            if case.clients > MAX_SESSIONS {
                Some("a process and a server for each client: PostgreSQL does not have that many connections here")
            } else if case.way == Way::ServerSocket {
                Some("one server for all its databases, here by TCP")
            } else {
                None
            }
        },
        bars: |login| (login != Login::Trust).then_some("it needs a pool_passwd file; measured with trust only"),
    },
    other(Kind::Odyssey, "Odyssey", |_| find::other("odyssey"), ("odyssey.conf", others::odyssey_conf)),
    other(Kind::Pgcat, "PgCat", |_| find::other("pgcat"), ("pgcat.toml", others::pgcat_toml)),
    other(Kind::PgDoorman, "pg_doorman", |_| find::other("pg_doorman"), ("pg_doorman.toml", others::pg_doorman_toml)),
    Contender {
        kind: Kind::Other,
        name: "rival",
        role: Role::Rival,
        program: nothing_to_start,
        arguments: |_, _| Vec::new(),
        file: None,
        drops_root: false,
        refuses: |case| {
            let socket = case.way == Way::ServerSocket;
            socket.then_some("its connection to its server is not configured here")
        },
        bars: |_| None,
    },
    Contender {
        kind: Kind::Forwarder,
        name: "bare forwarder",
        role: Role::Limit,
        program: |_| find::ourselves().map(Some),
        arguments: |configuration, _| configuration.forwarder_arguments(),
        file: None,
        drops_root: false,
        refuses: forwarder_refuses,
        bars: |login| (login != Login::Trust).then_some("it knows no passwords"),
    },
    Contender {
        kind: Kind::Direct,
        name: "direct",
        role: Role::Nothing,
        program: nothing_to_start,
        arguments: |_, _| Vec::new(),
        file: None,
        drops_root: false,
        refuses: |case| {
            if case.way != Way::Plain {
                Some("PostgreSQL alone is measured by TCP, in the clear")
            } else {
                (case.clients > MAX_SESSIONS).then_some("PostgreSQL does not have that many connections here")
            }
        },
        bars: |_| None,
    },
];

/// One of [`OTHERS`].
const fn other(
    kind: Kind,
    name: &'static str,
    program: fn(&Setup) -> Outcome<Option<Program>>,
    file: File,
) -> Contender {
    Contender {
        kind,
        name,
        role: Role::Rival,
        program,
        arguments: |configuration, _| vec![configuration.file()],
        file: Some(file),
        drops_root: false,
        refuses: |case| (case.way == Way::ServerSocket).then_some("here it reaches its server by TCP"),
        bars: |_| None,
    }
}

fn nothing_to_start(_: &Setup) -> Outcome<Option<Program>> {
    Ok(None)
}

fn forwarder_refuses(case: &Case) -> Option<&'static str> {
    if case.way != Way::Plain {
        Some("it knows TCP in the clear")
    } else {
        (case.protocol == Protocol::Prepared).then_some("it knows no names of statements")
    }
}

impl Kind {
    fn entry(self) -> &'static Contender {
        CONTENDERS.iter().find(|entry| entry.kind == self).expect("each kind has its entry")
    }

    pub(crate) fn role(self) -> Role {
        self.entry().role
    }

    pub(crate) fn program(self, setup: &Setup) -> Outcome<Option<Program>> {
        (self.entry().program)(setup)
    }

    pub(crate) fn arguments(self, configuration: &Configuration, user: Option<&str>) -> Vec<String> {
        (self.entry().arguments)(configuration, user)
    }

    /// The name and the text of the contender's configuration file.
    pub(crate) fn file(self) -> Option<File> {
        self.entry().file
    }

    pub(crate) fn drops_root(self) -> bool {
        self.entry().drops_root
    }

    /// Why this case does not apply to the contender; `None` where it does.
    pub(crate) fn refuses(self, case: &Case) -> Option<&'static str> {
        (self.entry().refuses)(case)
    }

    /// Why the contender can't be measured with this login; `None` where it can.
    pub(crate) fn bars(self, login: Login) -> Option<&'static str> {
        (self.entry().bars)(login)
    }

    /// Whether one of [`OTHERS`] is installed.
    pub(crate) fn is_installed(self) -> bool {
        match self {
            Kind::Odyssey => find::is_installed("odyssey"),
            Kind::Pgcat => find::is_installed("pgcat"),
            Kind::PgDoorman => find::is_installed("pg_doorman"),
            _ => false,
        }
    }

    /// All that mark a limit.
    pub(crate) fn limits() -> impl Iterator<Item = Kind> {
        CONTENDERS.iter().filter(|entry| entry.role == Role::Limit).map(|entry| entry.kind)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry().name)
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_kind_has_one_entry_and_one_of_them_is_the_base() {
        for kind in Kind::value_variants() {
            assert_eq!(CONTENDERS.iter().filter(|entry| entry.kind == *kind).count(), 1, "{kind:?}");
        }
        assert_eq!(CONTENDERS.iter().filter(|entry| entry.role == Role::Base).count(), 1);
        assert!(Kind::limits().any(|kind| kind == Kind::Forwarder));
    }
}
