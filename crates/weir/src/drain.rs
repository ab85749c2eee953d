//! `weir drain`: the process that serves a configuration closes its clients, each between two transactions, and ends.
//!
//! Owns the command line and the messages; what a drain is, is the engine's.

use std::path::PathBuf;

use weir_runtime::{DrainingProcess, upgrade_socket};
use weir_store::load;

use crate::failure::Failure;

pub(crate) const HELP: &str = "\
For shutdown_delay /readyz answers 503, and new clients are still accepted. Then each client gets
an error (57P01) between two of its transactions, spread over drain_time, idle clients first. What
runs then has shutdown_timeout. The command returns when the process has ended; to give it up ends
nothing. Clients that connect again must reach another process: a second one behind the same
address, or the next one after a restart.

Examples:
  weir drain                          the process that serves /etc/weir/weir.toml
  weir drain pgbouncer.ini            the one that serves another file
  weir drain weir.toml --no-wait      return when it has begun
  ExecStop=/usr/bin/weir drain /etc/weir/weir.toml
                                      in a unit of systemd";

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// The configuration that the running process serves
    #[arg(default_value = "/etc/weir/weir.toml")]
    file: PathBuf,
    /// Do not wait for the process's end
    #[arg(long)]
    no_wait: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    // A file with a mistake still says where the process is.
    let (config, mistakes) = load::load_as_far(&arguments.file);
    let (user, socket) =
        (config.process.user.as_deref(), upgrade_socket(&config.listen, config.process.user.as_deref()));
    // Without its settings, the process may be another file's.
    if mistakes.is_some() && !weir_runtime::is_served(&arguments.file) {
        let file = arguments.file.display();
        let why = if arguments.file.exists() {
            "has mistakes (weir check), and no process serves it"
        } else {
            "does not exist"
        };
        return Err(Failure::Message(format!("{file} {why}: name the file that the process to be drained serves")));
    }
    let process = DrainingProcess::begin(&socket, user).map_err(|why| {
        let mistake = mistakes.as_ref().map(|_| format!("; {} has mistakes: weir check", arguments.file.display()));
        let mistake = mistake.unwrap_or_default();
        Failure::Message(format!("can't drain the process that serves, at {}: {why}{mistake}", socket.display()))
    })?;
    let pid = process.pid();
    weir_terminal::print_line(format!("process {pid} drains"));
    if !arguments.no_wait {
        process.wait().map_err(|error| Failure::at(format!("waiting for process {pid}"), error))?;
        weir_terminal::print_line(format!("process {pid} has ended"));
    }
    Ok(())
}
