//! The suites and the ways to run them: which program, which pool in front of the server.

use std::fmt;

/// A suite of PostgreSQL's sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Suite {
    /// `src/test/regress`: scripts for psql, up to twenty at once.
    Regression,
    /// `src/test/isolation`: several sessions, whose steps are interleaved.
    Isolation,
}

impl Suite {
    pub(crate) const ALL: [Suite; 2] = [Suite::Regression, Suite::Isolation];

    pub(crate) fn named(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.to_string() == name)
    }

    /// Its folder in `src/test`.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Suite::Regression => "regress",
            Suite::Isolation => "isolation",
        }
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Suite::Regression => "pg_regress",
            Suite::Isolation => "pg_isolation_regress",
        }
    }

    pub(crate) fn schedule(self) -> &'static str {
        match self {
            Suite::Regression => "parallel_schedule",
            Suite::Isolation => "isolation_schedule",
        }
    }

    /// Without it nearly no other test runs.
    pub(crate) fn first_test(self) -> Option<&'static str> {
        (self == Suite::Regression).then_some("test_setup")
    }

    /// The lines of a pool's settings. Session mode: a server for each of the twenty clients of the largest group, and
    /// for psql's reconnects. Auto: three for all of them, of which each may be pinned. The sessions of one isolation
    /// test can each be in a transaction, so there the pool has a server for each, and the next transaction gets another.
    pub(crate) fn pool(self, way: Way) -> &'static str {
        match (self, way) {
            (_, Way::Direct) => "",
            (_, Way::Session) => "default_pool_size = 24\nserver_lifetime = 0\n",
            (Suite::Regression, Way::Auto) => {
                "default_pool_size = 3\nmax_pinned = 100\nquery_wait_timeout = 0\nquery_wait_notify = 0\n"
            }
            (Suite::Isolation, Way::Auto) => "default_pool_size = 12\nmax_pinned = 100\nserver_round_robin = 1\n",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Suite::Regression => "regression",
            Suite::Isolation => "isolation",
        })
    }
}

/// How the clients reach the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Direct,
    Session,
    Auto,
}

impl Way {
    /// Those through Weir.
    pub(crate) const POOLED: [Way; 2] = [Way::Session, Way::Auto];

    pub(crate) fn named(name: &str) -> Option<Way> {
        Way::POOLED.into_iter().find(|way| way.to_string() == name)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Direct => "direct",
            Way::Session => "session",
            Way::Auto => "auto",
        })
    }
}
