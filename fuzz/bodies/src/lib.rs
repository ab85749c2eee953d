//! The bodies of the fuzz targets, and what must hold for them.
//!
//! Owns one function per target, in [`TARGETS`], and does not know libFuzzer: `fuzz/fuzz_targets` passes these
//! functions to libFuzzer, and this crate's tests pass them every file of the corpora and of the regressions.
//!
//! Invariant: a target is a function of its bytes; a panic is a finding.

// The unit tests in the included files belong to another crate.
#![cfg(not(test))]

mod answers;
mod backend;
mod contract;
mod engine;
mod files;
mod fingerprint;
mod foreign;
mod passwords;
mod port;
mod requests;
mod session;
mod sql;
mod tape;
mod wire;

/// One fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name of its file in `fuzz/fuzz_targets` and of its folder in `fuzz/corpus`.
    pub name: &'static str,
    /// Checks some bytes; panics if something is wrong.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("auth_query", answers::auth_query),
    target("backend", wire::backend_messages),
    target("bearer", passwords::bearer),
    target("certificate", answers::certificate),
    target("ciphers", files::cipher_list),
    target("client_login", passwords::client_login),
    target("connstr", files::connection_string),
    target("console", files::console_command),
    target("dns", answers::dns_answer),
    target("engine", engine::whole_engine),
    target("fingerprint", fingerprint::no_value_survives),
    target("frontend", wire::frontend_messages),
    target("frozen", answers::frozen_client),
    target("hba", files::hba_file),
    target("ident", passwords::ident_file),
    target("ini", files::ini_file),
    target("options", wire::startup_options),
    target("passwords", passwords::passwords),
    target("proxy", wire::proxy_header),
    target("resolver", answers::resolver_files),
    target("scram_client", passwords::scram_client),
    target("scram_server", passwords::scram_server),
    target("secret", passwords::stored_secrets),
    target("server_login", passwords::server_login),
    target("session", session::whole_session),
    target("set", files::set_command),
    target("split", session::split_messages),
    target("sql", sql::statement_heads),
    target("startup", wire::first_packet),
    target("tags", sql::command_tags),
    target("toml", files::toml_file),
    target("userlist", passwords::userlist),
];

const fn target(name: &'static str, run: fn(&[u8])) -> Target {
    Target { name, run }
}

/// Runs a target by its name.
///
/// # Panics
/// When there is no such target, and when the target fails.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.unwrap_or_else(|| panic!("there is no target {name}")).run)(data);
}
