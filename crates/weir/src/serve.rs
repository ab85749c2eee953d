//! `weir serve`: reads the configuration, and hands it to the runtime.
//!
//! Everything is checked and bound before anything runs; an error leaves nothing half-started.

use std::path::Path;
use std::sync::Arc;

use weir_config::{Config, Severity};
use weir_runtime::{Bound, LogTarget, Options, Signals};

use crate::failure::Failure;
use crate::load;

/// Serves until told to stop.
pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    let config = Arc::new(load::load(file).map_err(Failure::of)?);
    review(file, &config)?;
    let file = file.to_owned();
    let options = Options {
        config: Arc::clone(&config),
        reload: Arc::new(move || load::load(&file).map(Arc::new).map_err(|error| error.to_string())),
        log: LogTarget::Stderr,
        signals: Signals::Handle,
        ready: Box::new(move |bound| announce(bound, &config)),
    };
    match weir_runtime::serve(options).map_err(Failure::of)? {
        0 => Ok(()),
        // Whoever ended it has logged why.
        _ => Err(Failure::Said),
    }
}

/// Warnings are said, errors end it here.
fn review(file: &Path, config: &Config) -> Result<(), Failure> {
    for finding in weir_config::review(config, &load::facts()) {
        let line = finding.line.map(|line| format!("{line}:")).unwrap_or_default();
        let text = format!("{}:{line} {}", file.display(), finding.text);
        match finding.severity {
            Severity::Note => {}
            Severity::Warning => eprintln!("weir: warning: {text}"),
            Severity::Error => return Err(Failure::Because(text)),
        }
    }
    Ok(())
}

/// One line, when clients may come.
fn announce(bound: &Bound, config: &Config) {
    let tcp = bound.tcp.iter().map(ToString::to_string);
    let unix = bound.unix.iter().map(|path| path.display().to_string());
    let places = tcp.chain(unix).collect::<Vec<_>>().join(", ");
    let pools = config.pools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    eprintln!("weir {}: ready on {places}; pools: {pools}", env!("CARGO_PKG_VERSION"));
}
