//! The Node.js programs: written into the lab's folder, with drivers installed by npm.
//!
//! They are embedded in this binary, so that the lab works without the source tree. A lock file pins the drivers'
//! versions.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Database, Figures, Plan, Variant};
use crate::lab::{CommandOutput, Lab};
use crate::model::{Missing, Ran};
use crate::servers::USER;
use crate::steps::LabError;
use crate::tools::Tool;

/// The experiment that is left out without Node.js.
const EFFECT: &str = "the experiment `node`";

/// The database's name, and that of Weir's pool.
pub(super) const DATABASE: &str = "lab";

const FILES: &[(&str, &str)] = &[
    ("package.json", PACKAGE),
    ("package-lock.json", include_str!("../../../apps/node/package-lock.json")),
    ("workloads.mjs", include_str!("../../../apps/node/workloads.mjs")),
    ("mysql.mjs", include_str!("../../../apps/node/mysql.mjs")),
    ("pg.mjs", include_str!("../../../apps/node/pg.mjs")),
];

const PACKAGE: &str = include_str!("../../../apps/node/package.json");

/// npm's messages when its registry can't be reached, or it is offline.
const UNREACHABLE: &[&str] = &[
    "ENOTFOUND",
    "EAI_AGAIN",
    "ECONNREFUSED",
    "ECONNRESET",
    "ETIMEDOUT",
    "ERR_SOCKET_TIMEOUT",
    "ENETUNREACH",
    "EHOSTUNREACH",
    "ENOTCACHED",
];

/// The programs, installed.
pub(super) struct Programs<'l> {
    lab: &'l Lab,
    node: PathBuf,
    folder: PathBuf,
}

/// The size of the data.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub(super) struct Size {
    pub(super) users: u64,
    /// The duration of one query on it.
    pub(super) ms: f64,
}

/// The program's output for a variant.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(super) struct Printed {
    /// As counted by the variant itself.
    pub(super) users: u64,
    #[serde(flatten)]
    pub(super) figures: Figures,
}

impl<'l> Programs<'l> {
    /// Writes them and runs npm to install the drivers: from its cache if possible, else from its registry.
    pub(super) fn install(lab: &'l Lab) -> Result<Programs<'l>, LabError> {
        let node = lab.tool(Tool::Node, EFFECT)?.path;
        let npm = lab.tool(Tool::Npm, EFFECT)?.path;
        let folder = lab.subfolder("node")?;
        for (name, text) in FILES {
            lab.write(&folder.join(name), text)?;
        }
        lab.doing("npm ci");
        let mut command = lab.command(&npm, &folder);
        command.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]);
        command.args(["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"]);
        command.args(["--no-update-notifier", "--logs-max=0"]);
        let said = lab.run("node-npm", "install the drivers", command, Duration::from_secs(120))?;
        if !said.status.success() && unreachable(&said.stderr) {
            return Err(LabError::Missing(out_of_reach()));
        }
        said.success()?;
        for (name, version) in drivers() {
            lab.note_version(&name, &version);
        }
        Ok(Programs { lab, node, folder })
    }

    /// Creates as much data as one query needs to take the planned time; `users` is the first guess.
    pub(super) fn fill(&self, database: Database, port: u16, plan: Plan, users: u64) -> Result<(Size, Ran), LabError> {
        self.lab.doing("filling the tables");
        let words = ["fill".to_owned(), plan.query_ms.to_string(), users.to_string()];
        let (name, what) = (format!("node-{}-fill", database.id()), format!("fill {}", database.name()));
        self.run(database, port, &words, &name, &what, Duration::from_secs(900))
    }

    /// Runs the workloads of variants in alternation, each at its port.
    pub(super) fn measure(
        &self,
        database: Database,
        variants: &[(Variant, u16)],
        plan: Plan,
    ) -> Result<(BTreeMap<String, Printed>, Ran), LabError> {
        self.lab.doing("measuring");
        let mut words = vec!["measure".to_owned(), plan.times.to_string()];
        words.extend(variants.iter().map(|(variant, port)| format!("{}={}@{port}", variant.id(), variant.word())));
        let (name, what) = (format!("node-{}", database.id()), format!("measure {}", database.name()));
        let timeout = variants.iter().map(|_| plan.seconds() * 6.0).sum::<f64>() + 60.0;
        self.run(database, 0, &words, &name, &what, Duration::from_secs_f64(timeout))
    }

    /// `port` is the server's, for words that name none.
    fn run<T: DeserializeOwned>(
        &self,
        database: Database,
        port: u16,
        words: &[String],
        name: &str,
        what: &str,
        timeout: Duration,
    ) -> Result<(T, Ran), LabError> {
        let mut command = self.lab.command(&self.node, &self.folder);
        command.arg(program(database)).args(words).env_remove("NODE_OPTIONS");
        command.env("LAB_HOST", "127.0.0.1").env("LAB_PORT", port.to_string());
        command.env("LAB_USER", USER).env("LAB_PASSWORD", USER).env("LAB_DATABASE", DATABASE);
        let CommandOutput { stdout, ran, .. } = self.lab.run(name, what, command, timeout)?.success()?;
        let printed = serde_json::from_str(&stdout).map_err(|e| LabError::at(format!("read what {what} says"), e))?;
        Ok((printed, ran))
    }
}

fn program(database: Database) -> &'static str {
    match database {
        Database::Mariadb => "mysql.mjs",
        Database::Postgres => "pg.mjs",
    }
}

fn unreachable(stderr: &str) -> bool {
    UNREACHABLE.iter().any(|code| stderr.contains(code))
}

fn out_of_reach() -> Missing {
    let names: Vec<_> = drivers().into_iter().map(|(name, version)| format!("{name}@{version}")).collect();
    let get = format!(
        "let npm reach its registry once (npm config get registry), e.g. by npm install {} in an empty folder: \
         its cache then serves them without a network",
        names.join(" ")
    );
    Missing { what: "npm's registry, which has mysql2 and pg,".into(), effect: EFFECT.into(), get }
}

/// The drivers and their versions in package.json.
fn drivers() -> Vec<(String, String)> {
    let package: serde_json::Value = serde_json::from_str(PACKAGE).expect("our own package.json is JSON");
    let pinned = package["dependencies"].as_object().expect("it has dependencies");
    let version = |value: &serde_json::Value| value.as_str().expect("versions are texts").to_owned();
    pinned.iter().map(|(name, value)| (name.clone(), version(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drivers_are_pinned_and_the_lock_names_no_registry() {
        let names: Vec<_> = drivers().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["mysql2", "pg"]);
        for (name, version) in drivers() {
            assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{name} {version}");
        }
        let (_, lock) = FILES.iter().find(|(name, _)| *name == "package-lock.json").unwrap();
        assert!(!lock.contains("\"resolved\""));
    }

    #[test]
    fn a_registry_out_of_reach_is_reported_with_what_to_do() {
        assert!(unreachable("npm error code ENOTFOUND\nnpm error network request to … failed"));
        assert!(unreachable("npm error code ENOTCACHED"));
        assert!(!unreachable("npm error code EUSAGE\nnpm error `npm ci` can only install with a lock"));
        let Missing { get, .. } = out_of_reach();
        assert!(get.contains("mysql2@") && get.contains("pg@") && get.contains("cache"), "{get}");
    }
}
