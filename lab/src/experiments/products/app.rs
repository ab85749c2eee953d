//! The web app: built with Go if Go is installed, else this program in the app's role; and a running app.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use clap::ValueEnum;
use serde::Deserialize;

use super::plan::{IDLE, OPEN, Tls};
use crate::lab::{Lab, command_line};
use crate::model::{Missing, Ran};
use crate::servers::{Process, USER};
use crate::steps::LabError;
use crate::tools::Tool;

/// The app's files, for a lab without its source tree.
const SOURCES: [(&str, &str); 5] = [
    ("go.mod", include_str!("../../../apps/products/go.mod")),
    ("go.sum", include_str!("../../../apps/products/go.sum")),
    ("main.go", include_str!("../../../apps/products/main.go")),
    ("ways.go", include_str!("../../../apps/products/ways.go")),
    ("page.html", PAGE),
];

/// The page with a button for each endpoint.
pub(crate) const PAGE: &str = include_str!("../../../apps/products/page.html");

/// A first build compiles Go's own libraries, maybe on a small machine.
const BUILD_TIMEOUT: Duration = Duration::from_secs(300);
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The app's language.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Language {
    /// As in the articles
    #[default]
    Go,
    /// The fallback where Go is missing
    Rust,
}

/// The app, ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct App {
    pub(crate) language: Language,
    path: PathBuf,
    folder: PathBuf,
}

/// Builds the app in this language. If Go's build fails, the Rust app is used, and the reason returned.
pub(crate) fn build(lab: &Lab, language: Language) -> Result<(App, Result<Option<Ran>, LabError>), LabError> {
    let folder = lab.subfolder("products-app")?;
    let rust = |folder| {
        let path = std::env::current_exe().map_err(|e| LabError::at("find this program's file", e))?;
        Ok::<_, LabError>(App { language: Language::Rust, path, folder })
    };
    if language == Language::Rust {
        return Ok((rust(folder)?, Ok(None)));
    }
    match build_go(lab, &folder) {
        Ok((path, ran)) => Ok((App { language: Language::Go, path, folder }, Ok(Some(ran)))),
        Err(trouble) => Ok((rust(folder)?, Err(trouble))),
    }
}

fn build_go(lab: &Lab, folder: &std::path::Path) -> Result<(PathBuf, Ran), LabError> {
    lab.doing("building the web app");
    let go = lab.tool(Tool::Go, "the articles' app in Go: one in Rust took its place, without TLS to the server")?;
    for (name, text) in SOURCES {
        lab.write(&folder.join(name), text)?;
    }
    let mut command = lab.command(&go.path, folder);
    command.args(["build", "-o", "products", "."]);
    // The caches are the caller's, so that the next build is quick; another toolchain is not downloaded for it.
    command.env("GOFLAGS", "-mod=mod").env("GOTMPDIR", folder).env("GOTOOLCHAIN", "local");
    let said = lab.run("products-go-build", "build the web app", command, BUILD_TIMEOUT)?;
    let unreachable = ["dial tcp", "no such host", "i/o timeout", "module lookup disabled", "unrecognized import path"];
    if !said.status.success() && unreachable.iter().any(|sign| said.stderr.contains(sign)) {
        return Err(LabError::Missing(Missing {
            what: "lib/pq (a Go module)".into(),
            effect: "the articles' app in Go: one in Rust took its place, without TLS to the server".into(),
            get: "go mod download github.com/lib/pq@v1.10.9, once, with a network (GOPROXY names a mirror)".into(),
        }));
    }
    let ran = said.success()?.ran;
    lab.note_version("lib/pq", "1.10.9");
    Ok((folder.join("products"), ran))
}

/// The app's settings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// 0 for any free port.
    pub(crate) port: u16,
    pub(crate) postgres: SocketAddr,
    pub(crate) weir: Option<SocketAddr>,
    pub(crate) tls: Tls,
    /// `pooled`: the limits of open and idle connections.
    pub(crate) open: u32,
    pub(crate) idle: u32,
}

impl Settings {
    /// The article's pool, without TLS, in front of this server.
    pub(crate) fn new(postgres: SocketAddr) -> Settings {
        Settings { port: 0, postgres, weir: None, tls: Tls::Off, open: OPEN, idle: IDLE }
    }
}

/// A running app; dropping it ends it and its connections.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) process: Process,
    /// `http://127.0.0.1:8080`, without a trailing slash.
    pub(crate) url: String,
    /// The command that started the app.
    pub(crate) line: String,
}

/// The app's counters.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct State {
    pub(crate) program: String,
    pub(crate) ways: std::collections::BTreeMap<String, WayState>,
}

/// The counters of one endpoint.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct WayState {
    /// Requests that waited for a connection of the pool, and their total wait, in µs.
    pub(crate) waits: u64,
    pub(crate) waited: u64,
}

impl App {
    /// Starts the app and waits until it listens.
    pub(crate) fn start(&self, lab: &Lab, settings: &Settings) -> Result<Running, LabError> {
        let command = self.command(lab, settings);
        let (line, name) = (command_line(&command), "products-app");
        // A run is configured by its arguments only.
        let _ = std::fs::remove_file(lab.folder().join(format!("{name}.log")));
        let mut process = lab.start(name, command)?;
        let log = lab.folder().join(format!("{name}.log"));
        let mut url = None;
        process.await_ready(START_TIMEOUT, || {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            url = listening(&said);
            url.is_some()
        })?;
        let url = url.ok_or_else(|| LabError::Failed("the web app did not say where it listens".into()))?;
        Ok(Running { process, url, line })
    }

    fn command(&self, lab: &Lab, settings: &Settings) -> Command {
        let mut command = lab.command(&self.path, &self.folder);
        if self.language == Language::Rust {
            command.arg("app");
        }
        let sslmode = if settings.tls == Tls::On { "require" } else { "disable" };
        command.env("PRODUCTS_PASSWORD", USER);
        command.args(["--listen", &format!("127.0.0.1:{}", settings.port)]);
        command.args(["--postgres", &settings.postgres.to_string()]);
        if let Some(weir) = settings.weir {
            command.args(["--weir", &weir.to_string()]);
        }
        command.args(["--user", USER, "--sslmode", sslmode]);
        command.args(["--open", &settings.open.to_string(), "--idle", &settings.idle.to_string()]);
        command
    }
}

impl Running {
    /// Requests the app's counters.
    pub(crate) fn state(&self) -> Result<State, LabError> {
        let config = ureq::Agent::config_builder().timeout_global(Some(Duration::from_secs(5))).proxy(None).build();
        let url = format!("{}/state", self.url);
        let asked = config.new_agent().get(&url).call().and_then(|mut reply| reply.body_mut().read_to_string());
        let text = asked.map_err(|e| self.process.trouble(format!("{url}: {e}")))?;
        serde_json::from_str(&text).map_err(|e| LabError::at(url, e))
    }
}

/// The address in the line `listening on http://127.0.0.1:8080/`, when the line is complete.
fn listening(said: &str) -> Option<String> {
    let line = said.split_inclusive('\n').find(|line| line.starts_with("listening on ") && line.ends_with('\n'))?;
    Some(line.trim_start_matches("listening on ").trim_end().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_taken_from_a_whole_line() {
        assert_eq!(listening("listening on http://127.0.0.1:80"), None);
        assert_eq!(listening("listening on http://127.0.0.1:8080/\n").as_deref(), Some("http://127.0.0.1:8080"));
    }

    #[test]
    fn the_page_asks_for_nothing_from_elsewhere() {
        for sign in ["https://", "src=\"", "@import", "url("] {
            assert!(!PAGE.contains(sign), "{sign}");
        }
    }
}
