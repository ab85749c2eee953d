//! Two Weirs behind a balancer, which are restarted one after the other while clients work.

use weir_pgclient::ConnectParams;
use weir_pglocal::Signal;

use crate::balancer::Balancer;
use crate::http::Api;
use crate::postgres::{Database, Postgres, users};
use crate::setup::{Mode, Setup};
use crate::watch::eventually;
use crate::weir::Weir;

/// See the head of the file. Clients come to the pool `app`.
#[derive(Debug)]
pub struct Rolling {
    balancer: Balancer,
    // Dropped before the database: Weir's final checks need it.
    weirs: Vec<Weir>,
    database: Database,
}

impl Rolling {
    /// Two Weirs with pools in this mode, both ready; `drain`: lines of `[general]`.
    ///
    /// # Panics
    ///
    /// When they do not start.
    pub fn start(mode: Mode, size: u32, drain: &[&str]) -> Rolling {
        let database = Postgres::shared().database();
        let one = || {
            let api = Api::default();
            let setup = drain.iter().fold(Setup::new(mode).size(size), |setup, line| setup.general(line));
            let setup = setup.more(&api.section());
            let weir = Weir::start_with(&setup.toml(&database), &setup.userlist(), setup.files(), setup.console());
            (weir, api)
        };
        let (weirs, apis): (Vec<Weir>, Vec<Api>) = [one(), one()].into_iter().unzip();
        let backends: Vec<(u16, Api)> = weirs.iter().map(Weir::port).zip(apis).collect();
        let rolling = Rolling { balancer: Balancer::start(&backends), weirs, database };
        (0..rolling.weirs.len()).for_each(|weir| rolling.await_ready(weir));
        rolling
    }

    /// How an application connects.
    pub fn params(&self) -> ConnectParams {
        let address = ([127, 0, 0, 1], self.balancer.port()).into();
        ConnectParams::tcp(address, users::APP.name, "app").password(users::APP.password)
    }

    /// The balancer.
    pub fn balancer(&self) -> &Balancer {
        &self.balancer
    }

    /// The database, for access past Weir.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// The Weirs.
    pub fn weirs(&self) -> &[Weir] {
        &self.weirs
    }

    /// Both end by TERM, one after the other, each with status 0, and are started again.
    ///
    /// # Panics
    ///
    /// When one does not.
    pub fn restart_both(&self) {
        for (number, weir) in self.weirs.iter().enumerate() {
            weir.signal(Signal::SIGTERM);
            assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.log());
            weir.start_again();
            self.await_ready(number);
        }
    }

    fn await_ready(&self, number: usize) {
        eventually("the balancer has noticed", || if self.balancer.is_ready(number) { Ok(()) } else { Err(()) });
    }
}
