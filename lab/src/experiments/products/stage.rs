//! Runs the steps: a new app for each, Weir if the step needs it, the load, and the server's connection count.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_pglocal::Server;

use super::app::{self, App, Language, Running, Settings};
use super::data::{self, DATABASE};
use super::plan::{BURST, Plan, Tls, WEIR_POOL, Way, What};
use crate::lab::{Lab, eventually};
use crate::load::http::{self, Load, Until};
use crate::model::{Missing, Ran};
use crate::servers::{Mode, Pool, Weir};
use crate::steps::{LabError, Measured, Stage, Step};
use crate::tools::Tool;

/// The timeout of a reply's first byte: in a load as in the articles' tool, in a burst as in a browser.
const LOAD_TIMEOUT: Duration = Duration::from_secs(1);
const BURST_TIMEOUT: Duration = Duration::from_secs(30);
/// The interval at which the server's connections are counted under load.
const COUNTING: Duration = Duration::from_millis(100);

/// The result of one load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) load: Load,
    /// The maximum of the server's connections.
    pub(crate) connections: u64,
    /// Requests that waited for a connection of the app's pool, and their total wait, in ms.
    pub(crate) waits: u64,
    pub(crate) waited_ms: f64,
}

/// The result of a step: its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunData {
    /// The app's language and version.
    pub(crate) program: String,
    pub(crate) runs: Vec<Run>,
}

/// The servers of the experiment.
pub(crate) struct Products<'l> {
    lab: &'l Lab,
    plan: Plan,
    language: Language,
    server: Server,
    app: Option<(App, Result<Option<Ran>, LabError>)>,
    tls: Tls,
}

impl<'l> Products<'l> {
    pub(crate) fn open(lab: &'l Lab, plan: Plan, language: Language) -> Result<Products<'l>, LabError> {
        let server = data::server(lab, plan.rows())?;
        Ok(Products { lab, plan, language, server, app: None, tls: Tls::Off })
    }

    /// The app, built once, and why it is not the requested one.
    fn built(&mut self) -> Result<(App, Result<Option<Ran>, LabError>), LabError> {
        if self.app.is_none() {
            self.app = Some(app::build(self.lab, self.language)?);
        }
        self.app.clone().ok_or_else(|| LabError::Failed("the web app was not built".into()))
    }

    pub(crate) fn app(&mut self) -> Result<App, LabError> {
        Ok(self.built()?.0)
    }

    /// Weir in front of this server; its pool opens connections on demand.
    pub(crate) fn weir(&self) -> Result<Weir, LabError> {
        let (name, database) = (DATABASE.to_owned(), DATABASE.to_owned());
        let pool = Pool { name, database, mode: Mode::Transaction, size: WEIR_POOL };
        Weir::start(self.lab, self.address(), &[pool], "the endpoint /products/weir")
    }

    pub(crate) fn address(&self) -> SocketAddr {
        local(self.server.port())
    }

    fn take(&mut self, what: What) -> Result<Measured, LabError> {
        let (way, connections, until, repetitions) = match what {
            What::App => return self.take_app(),
            What::Burst { way, connections } => (way, connections, Until::Requests(BURST), 1),
            What::Load { way, connections, .. } => (way, connections, self.over(), self.plan.repetitions()),
            What::Sweep { connections, .. } => (Way::Pooled, connections, self.over(), self.plan.repetitions()),
        };
        let app = self.app()?;
        let mut settings = Settings::new(self.address());
        if let What::Sweep { size, .. } = what {
            (settings.open, settings.idle) = (size, size);
        }
        if let What::Load { tls: Tls::On, .. } = what {
            self.encrypt()?;
            settings.tls = Tls::On;
        }
        let mut taken = RunData::default();
        let mut measured = Vec::new();
        for repetition in 1..=repetitions {
            let (run, program, ran) = self.once(&app, way, connections, until, settings, (what, repetition))?;
            taken.program = program;
            taken.runs.push(run);
            measured.push(ran);
        }
        Ok(Measured::of(headline(&taken.runs), &taken).ran(measured))
    }

    fn over(&self) -> Until {
        Until::Over(self.plan.duration())
    }

    fn take_app(&mut self) -> Result<Measured, LabError> {
        let (app, ran) = self.built()?;
        let name = if app.language == Language::Go { "in Go" } else { "in Rust" };
        Ok(Measured::of(name, &name).ran(ran?))
    }

    /// One load on a new app: its pools are empty, and no other client is connected.
    fn once(
        &self,
        app: &App,
        way: Way,
        connections: usize,
        until: Until,
        mut settings: Settings,
        (what, repetition): (What, u32),
    ) -> Result<(Run, String, Ran), LabError> {
        let weir = if way == Way::Weir { Some(self.weir()?) } else { None };
        settings.weir = weir.as_ref().map(|weir| local(weir.port()));
        let app = app.start(self.lab, &settings)?;
        let url = format!("{}/products/{}", app.url, way.name());
        let timeout = if matches!(until, Until::Over(_)) { LOAD_TIMEOUT } else { BURST_TIMEOUT };
        let plan = http::Plan { url: &url, connections, until, timeout, server_ms: elapsed };
        let (load, most) = self.watching(|| http::run(&plan));
        let (load, state) = (load?, app.state()?);
        let reported = state.ways.get(way.name()).copied().unwrap_or_default();
        let waited_ms = reported.waited as f64 / 1e3;
        let run = Run { load, connections: most, waits: reported.waits, waited_ms };
        let ran = self.keep(&app, &run, &url, (what, repetition))?;
        drop(app);
        drop(weir);
        self.settle()?;
        Ok((run, state.program, ran))
    }

    /// Runs `work` while the server's connections are counted; returns their maximum.
    fn watching<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let (done, server) = (AtomicBool::new(false), &self.server);
        thread::scope(|scope| {
            let counter = scope.spawn(|| {
                let mut most = 0;
                while !done.load(Ordering::Acquire) {
                    most = most.max(server.backends());
                    thread::sleep(COUNTING);
                }
                most.max(server.backends())
            });
            let result = work();
            done.store(true, Ordering::Release);
            (result, counter.join().map_or(0, |most| most as u64))
        })
    }

    /// Waits until the connections of the last run are closed.
    fn settle(&self) -> Result<(), LabError> {
        if eventually(Duration::from_secs(10), || self.server.backends() == 0) {
            return Ok(());
        }
        let left = self.server.backends();
        Err(LabError::Failed(format!("{left} connections stay at the server after their program has ended")))
    }

    fn keep(&self, app: &Running, run: &Run, url: &str, (what, repetition): (What, u32)) -> Result<Ran, LabError> {
        let text = serde_json::to_string_pretty(run).map_err(|e| LabError::at("write a result", e))?;
        let text = format!(
            "GET {url} on {} connections\n{text}\n--- the app said\n{}",
            run.load.connections,
            app.process.log()
        );
        self.lab.keep(&format!("products-{}-{repetition}", what.id()), &what.title(), &app.line, &text)
    }

    /// Turns on TLS at the server, once.
    fn encrypt(&mut self) -> Result<(), LabError> {
        let effect = "the runs with TLS to the server";
        let (app, why) = self.built()?;
        if app.language == Language::Rust {
            // Why Go's app could not be built, or that it was not requested.
            let mut missing = match why {
                Err(LabError::Missing(missing)) => missing,
                _ => Missing {
                    what: "the web app in Go".into(),
                    effect: String::new(),
                    get: "leave out --app rust, which speaks no TLS".into(),
                },
            };
            effect.clone_into(&mut missing.effect);
            return Err(LabError::Missing(missing));
        }
        if self.tls == Tls::On {
            return Ok(());
        }
        let openssl = self.lab.tool(Tool::Openssl, effect)?;
        let folder = self.lab.subfolder("products-tls")?;
        let mut command = self.lab.command(&openssl.path, &folder);
        command.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost"]);
        command.args(["-keyout", "server.key", "-out", "server.crt"]);
        self.lab
            .run("products-certificate", "make the server's certificate", command, Duration::from_secs(60))?
            .success()?;
        let (key, certificate) = (folder.join("server.key"), folder.join("server.crt"));
        // The server requires that its user owns the key and no other user can read it.
        let text = std::fs::read_to_string(&key).map_err(|e| LabError::at(key.display(), e))?;
        self.lab.write(&key, &text)?;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| LabError::at(key.display(), e))?;
        for (name, value) in [("ssl_cert_file", certificate.display()), ("ssl_key_file", key.display())] {
            self.server.execute("postgres", &format!("ALTER SYSTEM SET {name} = '{value}'"))?;
        }
        self.server.execute("postgres", "ALTER SYSTEM SET ssl = on")?;
        self.server.execute("postgres", "SELECT pg_reload_conf()")?;
        let on = || {
            let value = self.server.superuser_connection("postgres").and_then(|mut c| c.value("SHOW ssl"));
            value.is_ok_and(|value| value.as_deref() == Some("on"))
        };
        if !eventually(Duration::from_secs(5), on) {
            return Err(LabError::Failed("this PostgreSQL does not speak TLS".into()));
        }
        self.tls = Tls::On;
        self.settle()
    }
}

impl Stage for Products<'_> {
    fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
        let what = self.plan.find(&step.id).ok_or_else(|| LabError::Failed(format!("no step {}", step.id)))?;
        self.take(what)
    }
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// The server time in a reply: its first field, in µs.
fn elapsed(head: &[u8]) -> Option<f64> {
    let digits = head.strip_prefix(b"{\"elapsed\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let micros: f64 = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some(micros / 1e3)
}

fn headline(runs: &[Run]) -> String {
    let Some(Run { load, connections, .. }) = runs.last() else { return "nothing".into() };
    let errors = match load.complaints.first() {
        Some((text, _)) => format!("{} errors ({text})", load.errors),
        None => "no error".to_owned(),
    };
    let (rate, average) = (load.rate(), load.average_ms);
    format!("{} served, {rate:.0}/s, {average:.1} ms, {errors}, {connections} connections at the server", load.served)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replys_own_time_is_its_first_field() {
        assert_eq!(elapsed(b"{\"elapsed\":1034,\"average\":9,\"products\":[]}"), Some(1.034));
        assert_eq!(elapsed(b"{\"error\":\"x\"}"), None);
    }
}
