//! `weir ready`: whether a running Weir accepts new clients, for supervisors that run a command as their probe.
//!
//! Owns the command line and the message; the answer comes from `/readyz` or `/healthz`, which need no login.

use std::path::PathBuf;

use weir_base::Printable;
use weir_fetch::{HttpRequest, sender};

use crate::api_address;
use crate::failure::Failure;

pub(crate) const HELP: &str = "\
The exit status is 0 if it does, else 1, with the reason on standard error. It needs [web] in
weir.toml, and no login.

Examples:
  weir ready                          new clients are accepted: /readyz
  weir ready weir.toml                the same, at the address under [web] of the file
  weir ready --alive                  it runs, even if paused or about to end: /healthz
  weir ready https://db1:8432 --ca-file ca.crt
                                      an encrypted API, with a certificate of your own authority";

/// The arguments of `weir ready`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Where the API is: its URL, or the file of its Weir
    #[arg(value_name = "URL|FILE", default_value = "http://127.0.0.1:8432")]
    url: String,
    /// Ask only whether it runs
    #[arg(long)]
    alive: bool,
    /// The authority of its certificate, PEM [default: those of this machine]
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Asks once.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let url = api_address::url(&arguments.url)?;
    let path = if arguments.alive { "healthz" } else { "readyz" };
    let request = HttpRequest { ca_file: arguments.ca_file.clone(), ..HttpRequest::get(&format!("{url}/{path}")) };
    let answer = sender()(&request).map_err(|error| api_address::unreachable(&url, &error.to_string()))?;
    let said = String::from_utf8_lossy(&answer.body);
    let first = Printable(said.lines().next().unwrap_or_default());
    if answer.status != 200 {
        return Err(Failure::at(&url, format!("{}: {first}", answer.status)));
    }
    println!("{first}");
    Ok(())
}
