//! Where a suite runs: a database of its own, directly or through a Weir of its own.

use weir_pgclient::{ConnectParams, Connection};

use crate::ini::Ini;
use crate::postgres::{Database, Postgres, User, users};
use crate::setup::{Mode, Setup};
use crate::watch::eventually;
use crate::weir::Weir;

/// A database, and perhaps a Weir in front of it.
#[derive(Debug)]
pub struct Site {
    // Dropped in this order: Weir's final checks need the database.
    weir: Option<Weir>,
    database: Database,
    mode: Option<Mode>,
}

impl Site {
    /// PostgreSQL alone.
    pub fn direct() -> Site {
        Site::direct_on(&Postgres::shared())
    }

    /// PostgreSQL alone, on a private server.
    pub fn direct_on(postgres: &Postgres) -> Site {
        Site { weir: None, database: postgres.database(), mode: None }
    }

    /// Through a pool in this mode: small enough that servers change their clients, large enough where each client
    /// keeps one.
    pub fn pooled(mode: Mode) -> Site {
        let size = if mode == Mode::Session { 20 } else { 5 };
        Site::with(Setup::new(mode).size(size), mode)
    }

    /// Through a Weir with this setup.
    pub fn with(setup: Setup, mode: Mode) -> Site {
        Site::on(&Postgres::shared(), setup, mode)
    }

    /// Through a Weir with this setup, in front of a private server.
    pub fn on(postgres: &Postgres, setup: Setup, mode: Mode) -> Site {
        let database = postgres.database();
        let weir = Weir::start_under(&setup, &database);
        Site { weir: Some(weir), database, mode: Some(mode) }
    }

    /// Through a Weir with a `pgbouncer.ini`.
    pub fn ini(ini: &Ini) -> Site {
        Site::ini_on(&Postgres::shared(), ini)
    }

    /// Through a Weir with a `pgbouncer.ini`, in front of a private server.
    pub fn ini_on(postgres: &Postgres, ini: &Ini) -> Site {
        let database = postgres.database();
        let weir = Weir::start_ini(&ini.text(&database), &ini.files());
        Site { weir: Some(weir), database, mode: Some(ini.mode()) }
    }

    /// Writes another `pgbouncer.ini` and reloads it.
    ///
    /// # Panics
    ///
    /// When the reload fails.
    #[track_caller]
    pub fn reload_ini(&self, ini: &Ini) {
        self.weir().rewrite_all(&ini.text(&self.database), &ini.files());
        self.weir().command("RELOAD").unwrap_or_else(|error| panic!("RELOAD: {error}"));
    }

    /// A pool of this size in transaction mode.
    pub fn transaction(size: u32) -> Site {
        Site::with(Setup::new(Mode::Transaction).size(size), Mode::Transaction)
    }

    /// A pool of this size in session mode.
    pub fn session(size: u32) -> Site {
        Site::with(Setup::new(Mode::Session).size(size), Mode::Session)
    }

    /// The mode of the pool; `None` without a pool.
    pub fn mode(&self) -> Option<Mode> {
        self.mode
    }

    /// Whether a client keeps its server until it disconnects.
    pub fn keeps_sessions(&self) -> bool {
        matches!(self.mode, None | Some(Mode::Session))
    }

    /// The Weir.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn weir(&self) -> &Weir {
        self.weir.as_ref().expect("a suite that asks for Weir runs through Weir")
    }

    /// The database, for access past Weir.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// How `users::APP` connects.
    pub fn params(&self) -> ConnectParams {
        self.params_of(users::APP)
    }

    /// How a user connects.
    pub fn params_of(&self, user: User) -> ConnectParams {
        match &self.weir {
            Some(weir) => weir.params(user.name, "app").password(user.password),
            None => self.database.postgres().params(user, self.database.name()),
        }
    }

    /// A connection as `users::APP`.
    ///
    /// # Panics
    ///
    /// When it is refused.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        Connection::connect(&self.params()).unwrap_or_else(|error| panic!("connect: {error}"))
    }

    /// Waits until no server of the database is busy or in a transaction, and there are no more than `most`.
    ///
    /// # Panics
    ///
    /// With the servers that remain, when the timeout expires.
    #[track_caller]
    pub fn await_no_stuck_server(&self, most: usize) {
        eventually("no server is stuck", || {
            let backends = self.database.backends();
            let stuck = backends.len() > most || backends.iter().any(|(_, state)| state != "idle");
            if stuck { Err(backends) } else { Ok(()) }
        });
    }

    /// A connection of the superuser to the database, past Weir.
    pub fn superuser(&self) -> Connection {
        self.database.superuser()
    }
}
