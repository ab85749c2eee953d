//! Each mistake in an ini gets one line: where, what, and what to do.

use crate::common::load_ini;

fn error(text: &str) -> String {
    let error = load_ini(text, &[("users.txt", "")]).map(|_| ()).unwrap_err().first().to_string();
    assert!(!error.contains('\n') && !error.contains("hush"), "one line, no secret: {error}");
    error.replace("pgbouncer.ini:", "")
}

/// The message for these lines in `[pgbouncer]`, from line 2 on.
fn main_error(lines: &str) -> String {
    error(&format!("[pgbouncer]\n{lines}"))
}

/// The message for a database `a` with this connection string, in line 3.
fn database_error(text: &str) -> String {
    error(&format!("[pgbouncer]\n[databases]\na = {text}"))
}

#[test]
fn what_is_no_ini() {
    assert_eq!(error(""), " there is no section [pgbouncer]; write [pgbouncer] and the settings below it");
    assert_eq!(
        error("listen_port = 1"),
        "1: \"listen_port\" is outside of all sections; settings belong in [pgbouncer], databases in [databases]"
    );
    assert_eq!(error("[pgbouncer"), "1: the section's ] is missing; write it as in [pgbouncer]");
    // What follows is read all the same.
    assert_eq!(error("[pgbouncer\nlisten_prot = 1"), "1: the section's ] is missing; write it as in [pgbouncer]");
    assert_eq!(
        error("[listen]\nport = 6432"),
        "1: unknown section [listen]; that is one of a weir.toml: the name of such a file ends in .toml"
    );
    assert_eq!(error("[database]"), "1: unknown section [database]; did you mean [databases]?");
    assert_eq!(
        main_error("listen_port"),
        "2: syntax error; each line reads KEY = VALUE; names with other characters than letters, digits, _ . - need quotes"
    );
    assert_eq!(
        main_error("%include gone"),
        "2: the included file gone can't be read: No such file or directory; its path is relative to the folder that \
         Weir is started in"
    );
}

#[test]
fn unknown_keys() {
    assert_eq!(
        main_error("listen_prot = 1"),
        "2: unknown parameter \"listen_prot\" in [pgbouncer]; did you mean \"listen_port\"?"
    );
    assert_eq!(
        main_error("dbname = x"),
        "2: unknown parameter \"dbname\" in [pgbouncer]; \"dbname\" belongs in the connection string of a database"
    );
    assert_eq!(
        database_error("host=x colour=red"),
        "3: unrecognized connection parameter \"colour\" in database a; put values with spaces into single quotes"
    );
    assert_eq!(
        database_error("password=my hush=x"),
        "3: unrecognized connection parameter in database a; put values with spaces into single quotes"
    );
    assert_eq!(
        error("[pgbouncer]\n[users]\nbob = pool_mod=session"),
        "3: unrecognized user parameter \"pool_mod\" in user bob; did you mean \"pool_mode\"?"
    );
    assert_eq!(
        error("[pgbouncer]\n[peers]\n1 = port=5"),
        "3: host was not provided for peer 1; give the folder of its \
        Unix socket, or its address"
    );
}

#[test]
fn bad_values() {
    assert_eq!(
        main_error("listen_port = x"),
        "2: \"listen_port\" in [pgbouncer] must be a whole number from 1 to 65535, not \"x\"; the default is \
         listen_port = 6432"
    );
    assert_eq!(
        main_error("unix_socket_mode = 777"),
        "2: \"unix_socket_mode\" in [pgbouncer] must be permission bits from \"0000\" to \"0777\", in octal, with a \
         leading 0, not 777; the default is unix_socket_mode = 0777"
    );
    assert_eq!(
        main_error("pool_mode = transactoin"),
        "2: \"pool_mode\" in [pgbouncer] must be one of session, transaction, statement, auto, not \"transactoin\"; did you \
         mean \"transaction\"?"
    );
    assert_eq!(
        main_error("auth_type = scram"),
        "2: \"auth_type\" in [pgbouncer] must be one of trust, plain, md5, scram-sha-256, cert, hba, any, ldap, pam, oauth, not \
         \"scram\"; did you mean \"scram-sha-256\"?"
    );
    assert_eq!(
        main_error("auth_type = ldap\nauth_ldap_options = ldapserver=h"),
        "3: ldap needs ldapbasedn, ldapprefix or ldapsuffix: add one"
    );
    assert_eq!(
        main_error("query_timeout = soon"),
        "2: \"query_timeout\" in [pgbouncer] must be a time from 0 to 36500d, as in 5, \"500ms\" or \"2min\", not \
         \"soon\"; the default is query_timeout = 0"
    );
    assert_eq!(
        database_error("pool_size=many"),
        "3: \"pool_size\" in database a must be a whole number from 0 to 1000000, not \"many\""
    );
    assert_eq!(
        main_error("server_tls_protocols = tlsv1.0\nserver_tls_sslmode = require"),
        "2: the protocols are only versions that are not supported: TLS 1.2 and 1.3 are; use \"secure\", or a list of \
         tlsv1.2 and tlsv1.3"
    );
}

#[test]
fn connection_strings_that_can_not_be_read() {
    assert_eq!(
        database_error("password='hush"),
        "3: database a: syntax error in connection string: password has no value, or its quote is not closed; put \
         values with spaces into single quotes, and double a quote within"
    );
    assert_eq!(
        database_error("password=x hush"),
        "3: database a: syntax error in connection string after password: key=value expected; put values with spaces \
         into single quotes, and double a quote within"
    );
    assert_eq!(
        database_error("postgresql://a:hush@h/a"),
        "3: database a: syntax error in connection string: key=value expected; a URL is not read: write host=… port=… \
         dbname=… user=… password=…"
    );
    assert_eq!(
        database_error("host=a:1"),
        "3: \"host\" in database a is not a host: \"a:1\"; write the port as \"port\", and the host alone as \"host\""
    );
    assert_eq!(
        error("[pgbouncer]\n[databases]\npgbouncer = host=x"),
        "3: the database name \"pgbouncer\" is reserved for the console; choose another name; dbname may still be this \
         one"
    );
}

#[test]
fn settings_that_can_not_work_together() {
    assert_eq!(
        main_error("auth_dbname = pgbouncer"),
        "2: cannot use the reserved \"pgbouncer\" database as an auth_dbname; name a database with servers"
    );
    assert_eq!(
        main_error("unix_socket_dir ="),
        "2: there is nothing to listen on; give listen_addr or unix_socket_dir in [pgbouncer]"
    );
    assert_eq!(
        main_error("client_tls_sslmode = require"),
        "2: To allow TLS connections from clients, client_tls_key_file and client_tls_cert_file must be set; name the \
         missing file, in PEM, or set client_tls_sslmode = disable"
    );
    assert_eq!(
        main_error("server_tls_ciphers = AES256-SHA\nserver_tls_protocols = tlsv1.2"),
        "2: no cipher suite is left of \"AES256-SHA\"; use \"default\", or suites like ECDHE-RSA-AES256-GCM-SHA384"
    );
}

#[test]
fn a_mistake_in_a_value_that_a_later_one_replaces_is_reported() {
    assert_eq!(
        error("[pgbouncer]\ndefault_pool_size = many\ndefault_pool_size = 3"),
        error("[pgbouncer]\ndefault_pool_size = many")
    );
    assert_eq!(error("[databases]\na = hst=x\na = host=x"), error("[databases]\na = hst=x"));
    assert_eq!(error("[users]\nbob = pool_mode=no\nbob ="), error("[users]\nbob = pool_mode=no"));
    assert_eq!(error("[peers]\n1 = hst=x\n1 = host=x"), error("[peers]\n1 = hst=x"));
    assert_eq!(error("[pgbouncer]\nverbos = 1\n[pgbouncer]"), error("[pgbouncer]\nverbos = 1"));
}
