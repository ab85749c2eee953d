//! A rival that runs already: its name, its address and its process, as `--rival NAME=HOST:PORT,PID` names them.
//!
//! The benchmarks neither start nor configure nor end a rival. Its CPU time and memory are read from /proc, with those
//! of all its children and threads.

use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use weir_pgclient::ConnectParams;

use crate::setup::USER;

/// How long it may take to answer; one that hangs must differ from one that is slow.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

const EXPECTED: &str = "expected NAME=HOST:PORT,PID, such as PgCat=127.0.0.1:6433,4711: what to call it, where it listens, \
                        and the process id of its main process";

/// One of `--rival`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rival {
    pub(crate) name: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) pid: u32,
}

impl FromStr for Rival {
    type Err = String;

    fn from_str(text: &str) -> Result<Rival, String> {
        let parts = || {
            let (name, rest) = text.split_once('=')?;
            let (address, pid) = rest.rsplit_once(',')?;
            let (host, port) = address.rsplit_once(':')?;
            Some((name.trim(), host.trim_matches(['[', ']']), port, pid.trim()))
        };
        let (name, host, port, pid) = parts().ok_or(EXPECTED)?;
        if name.is_empty() || host.is_empty() {
            return Err(EXPECTED.to_owned());
        }
        let port = port.parse().map_err(|_| format!("{port} is not a port; {EXPECTED}"))?;
        let pid = pid.parse().map_err(|_| format!("{pid} is not a process id; {EXPECTED}"))?;
        Ok(Rival { name: name.to_owned(), host: host.to_owned(), port, pid })
    }
}

/// The rivals, and how one logs in to them.
#[derive(Args, Clone, Debug)]
pub(crate) struct Rivals {
    /// A pooler that runs already, by its address and its main process; can be given several times
    #[arg(long = "rival", value_name = "NAME=HOST:PORT,PID")]
    pub(crate) list: Vec<Rival>,
    /// The user that logs in to a rival
    #[arg(long, value_name = "USER", default_value = USER)]
    pub(crate) rival_user: String,
    /// The password of that user
    #[arg(long, value_name = "PASSWORD", default_value = USER)]
    pub(crate) rival_password: String,
    /// The database (or pool) that clients request from a rival
    #[arg(long, value_name = "NAME", default_value = USER)]
    pub(crate) rival_database: String,
    /// The port on which PostgreSQL is started, for a rival to be pointed at it beforehand; user, password and database
    /// are `bench` [default: a free one]
    #[arg(long, value_name = "PORT")]
    pub(crate) postgres_port: Option<u16>,
}

/// Who logs in where: what differs between our own poolers and a rival.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) database: String,
}

impl Rivals {
    pub(crate) fn account(&self) -> Account {
        Account {
            user: self.rival_user.clone(),
            password: self.rival_password.clone(),
            database: self.rival_database.clone(),
        }
    }
}

impl Account {
    /// The account at our own poolers, for one of their pools.
    pub(crate) fn ours(pool: &str) -> Account {
        Account { user: USER.to_owned(), password: USER.to_owned(), database: pool.to_owned() }
    }

    pub(crate) fn params(&self, host: &str, port: u16, database: &str) -> ConnectParams {
        ConnectParams::new(host, port, &self.user, database).password(&self.password)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_a_name_an_address_and_a_process() {
        let rival: Rival = "PgCat=127.0.0.1:6433,4711".parse().unwrap();
        let expected = Rival { name: "PgCat".to_owned(), host: "127.0.0.1".to_owned(), port: 6433, pid: 4711 };
        assert_eq!(rival, expected);
        assert_eq!("x=[::1]:1,2".parse::<Rival>().unwrap().host, "::1");
    }

    #[test]
    fn what_is_missing_is_asked_for() {
        for text in ["", "PgCat", "PgCat=127.0.0.1:6433", "=127.0.0.1:1,2", "x=:1,2", "x=127.0.0.1,2"] {
            assert!(text.parse::<Rival>().unwrap_err().contains("NAME=HOST:PORT,PID"), "{text}");
        }
        assert!("x=h:port,2".parse::<Rival>().unwrap_err().starts_with("port is not a port"));
        assert!("x=h:1,me".parse::<Rival>().unwrap_err().starts_with("me is not a process id"));
    }
}
