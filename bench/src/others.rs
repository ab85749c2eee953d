//! The configuration files of Odyssey, PgCat and pg_doorman: the first pool, one listener, logging off.
//!
//! Sources: Odyssey's docs/configuration, PgCat's CONFIG.md, pg_doorman's documentation. Each pooler's default holds
//! otherwise; but Odyssey does not reset a server after each transaction, which PgBouncer does not either and which
//! doubles its CPU time. PgCat and pg_doorman let no client in without a password, so with them a login costs md5.

use std::fmt::Write as _;

use crate::setup::{Configuration, USER};

/// What PostgreSQL's md5 makes of the password `bench` of the user `bench`.
const MD5: &str = "md58cd23f098e139362116d611b32b971a9";

pub(crate) fn odyssey_conf(configuration: &Configuration) -> String {
    let (port, server_port) = (configuration.port(), configuration.server_port());
    let (setup, pool) = (configuration.setup(), configuration.pool());
    let tls = setup.certificate.is_some().then(|| {
        let (key, certificate) = (configuration.beside("server.key"), configuration.beside("server.crt"));
        format!("    tls \"allow\"\n    tls_key_file \"{key}\"\n    tls_cert_file \"{certificate}\"\n")
    });
    format!(
        "daemonize no\nlog_format \"%p %t %l (%c) %m\\n\"\nlog_to_stdout no\nlog_session no\nlog_query no\nlog_stats no\nworkers {workers}\n\
         locks_dir \"{locks}\"\n\
         listen {{\n    host \"127.0.0.1\"\n    port {port}\n    backlog 4096\n{tls}}}\n\
         storage \"server\" {{\n    type \"remote\"\n    host \"127.0.0.1\"\n    port {server_port}\n}}\n\
         database \"{name}\" {{\n    user \"{USER}\" {{\n        authentication \"{login}\"\n        password \"{USER}\"\n\
         \x20       storage \"server\"\n        storage_db \"{USER}\"\n        storage_user \"{USER}\"\n\
         \x20       storage_password \"{USER}\"\n        pool \"{mode}\"\n        pool_size {size}\n\
         \x20       pool_reserve_prepared_statement yes\n        pool_discard no\n        pool_smart_discard no\n    }}\n}}\n",
        workers = setup.workers,
        locks = configuration.beside(""),
        tls = tls.unwrap_or_default(),
        name = pool.name,
        login = if setup.login.is_trust() { "none" } else { "md5" },
        mode = pool.mode.name(),
        size = pool.size,
    )
}

pub(crate) fn pgcat_toml(configuration: &Configuration) -> String {
    let pool = configuration.pool();
    let mut text = general(configuration);
    let _ = write!(
        text,
        "enable_prometheus_exporter = false\n\n[pools.{name}]\npool_mode = \"{mode}\"\n\
         prepared_statements_cache_size = 500\n\n\
         [pools.{name}.users.0]\nusername = \"{USER}\"\npassword = \"{USER}\"\npool_size = {size}\n\n\
         [pools.{name}.shards.0]\nservers = [[\"127.0.0.1\", {server_port}, \"primary\"]]\ndatabase = \"{USER}\"\n",
        name = pool.name,
        mode = pool.mode.name(),
        size = pool.size,
        server_port = configuration.server_port(),
    );
    text
}

pub(crate) fn pg_doorman_toml(configuration: &Configuration) -> String {
    let pool = configuration.pool();
    let mut text = general(configuration);
    let _ = write!(
        text,
        "log_client_connections = false\nlog_client_disconnections = false\n\n\
         [pools.{name}]\nserver_host = \"127.0.0.1\"\nserver_port = {server_port}\nserver_database = \"{USER}\"\n\
         pool_mode = \"{mode}\"\n\n\
         [pools.{name}.users.0]\nusername = \"{USER}\"\npassword = \"{MD5}\"\npool_size = {size}\n",
        name = pool.name,
        mode = pool.mode.name(),
        size = pool.size,
        server_port = configuration.server_port(),
    );
    text
}

/// The common names of PgCat and pg_doorman, which is derived from it.
fn general(configuration: &Configuration) -> String {
    let (port, workers) = (configuration.port(), configuration.setup().workers);
    let mut text = format!(
        "[general]\nhost = \"127.0.0.1\"\nport = {port}\nworker_threads = {workers}\n\
         admin_username = \"{USER}\"\nadmin_password = \"{USER}\"\n"
    );
    if configuration.setup().certificate.is_some() {
        let (key, certificate) = (configuration.beside("server.key"), configuration.beside("server.crt"));
        let _ = writeln!(text, "tls_private_key = \"{key}\"\ntls_certificate = \"{certificate}\"");
    }
    text
}
