//! `weir check`: what a configuration means, and its errors and warnings.
//!
//! Owns what is looked at; `report` owns how it is printed. Changes nothing; connects to servers only with `--connect`.

mod dry_run;
mod report;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use weir_config::{Config, ConfigErrors, ConfigFinding, FileFormat, HostLimits, Severity, SslMode};
use weir_runtime::AddressProblem;
use weir_store::{load, readable_secrets};

use crate::color::Color;
use crate::failure::Failure;
use crate::process;
use crate::web_tls::web_tls;

use report::Report;

pub(crate) const HELP: &str = "\
Examples:
  weir check weir.toml             reads the file and shows the resulting settings
  weir check weir.toml --connect   also logs in to each pool's server, and fetches issuers' keys
  weir check pgbouncer.ini         also lists settings without effect, with the reason
  weir check - < weir.toml         reads standard input
  weir check weir.toml --json      for a program: an object of findings
  weir check weir.toml --dry-run   shows what other modes would do with recorded traffic

The object of --json has file, servable, errors, warnings, omitted (errors beyond the first 50) and
findings, each with level (error, warning or note), file, line, key, message and help; line, key and
help are null where there is none.

The exit status is 1 if Weir can't serve this configuration, 0 otherwise; warnings do not count.";

/// The arguments of `weir check`.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// The configuration, a weir.toml or a pgbouncer.ini; - is standard input
    file: PathBuf,
    /// Also log in to each pool's server, and fetch the keys of issuers of tokens
    #[arg(long)]
    connect: bool,
    /// Show what other modes would do with the traffic of this Weir's record
    #[arg(long, conflicts_with = "connect")]
    dry_run: bool,
    /// With --dry-run: only this pool
    #[arg(long, value_name = "NAME", requires = "dry_run")]
    pool: Option<String>,
    /// With --dry-run: the API's authority, PEM [default: this machine's]
    #[arg(long, value_name = "FILE", requires = "dry_run")]
    ca_file: Option<PathBuf>,
    /// Print an object for a program
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    color: Color,
}

/// Checks a file. Fails if Weir could not serve it.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.dry_run {
        let wanted = dry_run::Wanted { pool: arguments.pool.as_deref(), ca_file: arguments.ca_file.as_deref() };
        return dry_run::run(&arguments.file, &wanted, arguments.json, arguments.color.term());
    }
    let file = load::named(&arguments.file);
    let (config, mistakes) = load::load_as_far(file);
    if arguments.json {
        let report = match &mistakes {
            Some(mistakes) => Report {
                findings: findings_of_mistaken(config, mistakes),
                omitted: mistakes.omitted(),
                ..Report::of(file)
            },
            None => gather(file, &config, arguments.connect),
        };
        return report.print_json();
    }
    match mistakes {
        Some(mistakes) => Err(mistaken(config, &mistakes)),
        None => gather(file, &config, arguments.connect).print(arguments.color.term(), &config),
    }
}

/// All findings about a configuration without mistakes.
fn gather(file: &Path, config: &Config, connects: bool) -> Report {
    let mut report = Report { findings: weir_config::review(config, &load::facts()), ..Report::of(file) };
    report.findings.extend(unusable_certificate(config));
    report.findings.extend(missing_folders(config));
    report.findings.extend(missing_user(config));
    report.findings.extend(unusable_addresses(config, file));
    let secrets = readable_secrets::warnings(config).into_iter();
    report.findings.extend(secrets.map(|text| ConfigFinding::of_file(Severity::Warning, file, text)));
    report.findings.extend(weir_runtime::check_tls(config));
    if connects {
        let probed = weir_probes::probe(config);
        report.servers = Some(probed.table);
        report.findings.extend(probed.findings);
        report
            .findings
            .extend(weir_runtime::check_issuers(config).into_iter().map(|found| about_issuer(config, found)));
    }
    report
}

/// Another program listens where this configuration would, or no interface has its address, so that the start would
/// fail.
fn unusable_addresses(config: &Config, file: &Path) -> Vec<ConfigFinding> {
    let (listen, web) = (&config.listen, &config.web);
    let of = |section: &'static str, addresses: &[IpAddr], port: u16, reuse_port: bool| {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|address| (*address, port).into()).collect();
        let problems = weir_runtime::address_problems(&addresses, reuse_port, file);
        problems.into_iter().map(move |(address, problem)| match problem {
            AddressProblem::InUse(by) => port_in_use(config, section, address, by),
            AddressProblem::NoInterface => no_interface(config, section, address),
        })
    };
    let of_clients = of("listen", &listen.addresses, listen.port, listen.reuse_port);
    of_clients.chain(of("web", &web.addresses, web.port, false)).collect()
}

fn port_in_use(config: &Config, section: &str, address: SocketAddr, by: Option<String>) -> ConfigFinding {
    let key = format!("{section}.port");
    let (file, line) = config.locations.file_and_line(&key, &config.source);
    let by = by.unwrap_or_else(|| "another program".to_owned());
    let setting = match (config.format, section) {
        (FileFormat::Ini, "web") => "web_port".to_owned(),
        (FileFormat::Ini, _) => "listen_port".to_owned(),
        (FileFormat::Toml, _) => format!("port in [{section}]"),
    };
    ConfigFinding {
        severity: Severity::Warning,
        file,
        line,
        key: Some(key),
        text: format!("{by} listens on {address} now"),
        help: Some(format!("stop it, or set another {setting}")),
    }
}

fn no_interface(config: &Config, section: &str, address: SocketAddr) -> ConfigFinding {
    let key = format!("{section}.address");
    let (file, line) = config.locations.file_and_line(&key, &config.source);
    let setting = match (config.format, section) {
        (FileFormat::Ini, "web") => "web_address".to_owned(),
        (FileFormat::Ini, _) => "listen_addr".to_owned(),
        (FileFormat::Toml, _) => format!("address in [{section}]"),
    };
    ConfigFinding {
        severity: Severity::Warning,
        file,
        line,
        key: Some(key),
        text: format!("no interface of this machine has the address {}", address.ip()),
        help: Some(format!("set one of its own as {setting}, or *")),
    }
}

/// The user to switch to is not there, so that the start would fail.
fn missing_user(config: &Config) -> Option<ConfigFinding> {
    let name = config.process.user.as_deref().filter(|name| !process::is_user(name))?;
    let key = "process.user";
    let (file, line) = config.locations.file_and_line(key, &config.source);
    Some(ConfigFinding {
        severity: Severity::Warning,
        file,
        line,
        key: Some(key.to_owned()),
        text: format!("the operating system has no user {}", name.escape_debug()),
        help: Some("create it, or name another one".to_owned()),
    })
}

/// The folder of the Unix socket or that of the log is not there, so that the start would fail.
fn missing_folders(config: &Config) -> Vec<ConfigFinding> {
    let of_log = config.log.file.as_deref().and_then(Path::parent).filter(|folder| folder.is_absolute());
    let log_file = if config.format == FileFormat::Ini { "logfile" } else { "file in [log]" };
    let wanted = [
        ("listen.unix_socket_dir", "the Unix socket", "unix_socket_dir", config.listen.unix_socket_dir.as_deref()),
        ("log.file", "the log", log_file, of_log),
    ];
    let missing = wanted.into_iter().filter_map(|(key, of, name, folder)| {
        let folder = folder.filter(|folder| !folder.is_dir())?;
        let text = format!("there is no folder {} for {of}", folder.display());
        let help = Some(format!("create it, or set another one as {name}"));
        Some(ConfigFinding { help, ..ConfigFinding::of_key(Severity::Warning, config, key, text) })
    });
    missing.collect()
}

/// Why a file with mistakes can't be served: the mistakes, and further errors in the part that could be read.
pub(crate) fn mistaken(config: Config, mistakes: &ConfigErrors) -> Failure {
    let known = mistakes.iter().count();
    let mut lines: Vec<String> = findings_of_mistaken(config, mistakes).iter().map(ConfigFinding::to_string).collect();
    if mistakes.omitted() > 0 {
        lines.insert(known, format!("and {} more", mistakes.omitted()));
    }
    Failure::Messages(lines)
}

/// The mistakes of a file, in their order, and after them the errors in the part that could be read.
fn findings_of_mistaken(mut config: Config, mistakes: &ConfigErrors) -> Vec<ConfigFinding> {
    // A setting with a mistake is not checked again.
    let is_about =
        |side: &str| mistakes.iter().any(|mistake| mistake.key.as_ref().is_some_and(|k| k.starts_with(side)));
    if is_about("tls.client") {
        config.tls.client.mode = SslMode::Disable;
    }
    if is_about("tls.server") {
        config.tls.server.mode = SslMode::Disable;
    }
    mistakes.iter().map(ConfigFinding::from).chain(errors(&config, &load::facts())).collect()
}

/// The errors of a configuration that could be read.
pub(crate) fn errors(config: &Config, facts: &HostLimits) -> Vec<ConfigFinding> {
    let tls = unusable_certificate(config).into_iter().chain(weir_runtime::check_tls(config));
    let all = weir_config::review(config, facts).into_iter().chain(tls);
    all.filter(|finding| finding.severity == Severity::Error).collect()
}

/// The certificate of the control plane can't be used.
fn unusable_certificate(config: &Config) -> Option<ConfigFinding> {
    let error = web_tls(config).err()?;
    Some(ConfigFinding::of_key(Severity::Error, config, "web.tls_cert_file", error.to_string()))
}

/// An issuer of tokens whose keys can't be fetched now.
fn about_issuer(config: &Config, (line, text): (Option<usize>, String)) -> ConfigFinding {
    let key = if line.is_some() { "auth.hba_file" } else { "auth.oauth_options" };
    let (file, own) = config.locations.file_and_line(key, &config.source);
    let (file, line) = match (line, config.auth.hba_file.clone()) {
        (Some(line), Some(rules)) => (rules, Some(line)),
        _ => (file, own),
    };
    let help = Some("until they can be, no token of this issuer is accepted".to_owned());
    ConfigFinding { severity: Severity::Warning, file, line, key: Some(key.to_owned()), text, help }
}
