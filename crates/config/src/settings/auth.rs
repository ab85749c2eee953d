//! Settings of the authentication of clients.

use weir_auth::Method;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::lookup::AUTH_QUERY;
use crate::table::{Field, Section::Auth, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        Auth,
        "type",
        Kind::Word(Method::WORDS),
        "scram-sha-256",
        Field::Config(|c| FieldMut::Method(&mut c.auth.method)),
        "How clients authenticate. `trust` requires no proof, but the user must be listed; `plain` requests the \
         cleartext password; `md5` a hash of it, or SCRAM from users with a SCRAM secret; `scram-sha-256` can't use \
         md5 secrets; `cert` requires a certificate with the user's name; `hba` follows `hba_file`; `any` accepts \
         every client as the user of the pool; `ldap` and `pam` request the cleartext password, and an LDAP server \
         (`ldap_options`) or the system's PAM (`pam_service`) checks it, for any user; `oauth` requests a token of an \
         issuer (`oauth_options`), for any user that it names.",
    )
    .ini("auth_type")
    .ini_default("md5"),
    Setting::new(
        Auth,
        "file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.auth.file)),
        "The file of users: lines of `\"user\" \"secret\"`, where a secret is a password, `md5…` or \
         `SCRAM-SHA-256$…`. Relative to the folder of this file; in an ini to the working directory.",
    )
    .ini("auth_file"),
    Setting::new(
        Auth,
        "users",
        Kind::Users,
        "",
        Field::Apart,
        "Users and their secrets in place of a file: `[auth.users]` with lines of `name = \"secret\"`.",
    ),
    Setting::new(
        Auth,
        "hba_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.auth.hba_file)),
        "The rules for type `hba`, in the form of PostgreSQL's `pg_hba.conf`.",
    )
    .ini("auth_hba_file"),
    Setting::new(
        Auth,
        "ident_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.auth.ident_file)),
        "The maps that rules of `hba_file` and `oauth_options` name, in the form of PostgreSQL's `pg_ident.conf`.",
    )
    .ini("auth_ident_file"),
    Setting::new(
        Auth,
        "ldap_options",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Concealed(&mut c.auth.ldap_options)),
        "Where and how type `ldap` has passwords checked: options as in a rule of PostgreSQL's `pg_hba.conf`, such as \
         `ldapurl=\"ldap://host/dc=example,dc=net?uid?sub\"`. Never shown, as a password may be among them.",
    )
    .of_node()
    .ini("auth_ldap_options"),
    Setting::new(
        Auth,
        "oauth_options",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.auth.oauth_options)),
        "Which tokens type `oauth` accepts: options as in a rule of PostgreSQL's `pg_hba.conf`, and `audience`, such as \
         `issuer=\"https://login.example.com\" scope=\"openid db\" audience=\"weir\"`.",
    )
    .ini_own("auth_oauth_options"),
    Setting::new(
        Auth,
        "pam_service",
        Kind::Text,
        "weir",
        Field::Config(|c| FieldMut::Line(&mut c.auth.pam_service)),
        "The service of PAM that checks passwords with type `pam`: a file of this name in `/etc/pam.d`.",
    )
    .ini_own("auth_pam_service")
    .ini_default("pgbouncer"),
    Setting::new(
        Auth,
        "query_user",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.auth.query_user)),
        "The user that queries a server for the secrets of users that are not listed. Its own secret must be listed. \
         Default: none.",
    )
    .ini("auth_user")
    .aliases(&["auth_user"]),
    Setting::new(
        Auth,
        "query",
        Kind::Query,
        AUTH_QUERY,
        Field::Config(|c| FieldMut::Line(&mut c.auth.query)),
        "The query: `$1` is the user's name; the first two columns are the name and the secret.",
    )
    .ini("auth_query")
    .aliases(&["auth_query"]),
    Setting::new(
        Auth,
        "query_database",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Text(&mut c.auth.query_database)),
        "The pool for this query. Default: the client's own.",
    )
    .ini("auth_dbname")
    .aliases(&["auth_dbname"]),
    Setting::new(
        Auth,
        "query_cache",
        Kind::ANY_TIME,
        "5s",
        Field::Config(|c| FieldMut::Span(&mut c.auth.query_cache)),
        "How long a result is used again. 0: not at all. A failed login and a reload end this earlier.",
    )
    .ini_own("auth_query_cache")
    .ini_default("0"),
    Setting::new(
        Auth,
        "hide_unknown_users",
        Kind::Flag,
        "true",
        Field::Config(|c| FieldMut::Flag(&mut c.auth.hide_unknown_users)),
        "Whether a user whom the server does not know gets the exchange and the error of a wrong password. \
         Otherwise the answer is `no such user`, as with PgBouncer: then any client can find out which users exist.",
    )
    .ini_own("auth_hide_unknown_users")
    .ini_default("0"),
    Setting::new(
        Auth,
        "scram_iterations",
        Kind::Number { min: 1, max: weir_auth::MAX_ITERATIONS as u64 },
        "4096",
        Field::Config(|c| FieldMut::U32(&mut c.auth.scram_iterations)),
        "The number of hash iterations for SCRAM with listed passwords. More iterations make guessing slower, and \
         each login; fewer than 4096 are too few.",
    )
    .ini("scram_iterations"),
    Setting::new(
        Auth,
        "failure_delay",
        Kind::ANY_TIME,
        "100ms",
        Field::Config(|c| FieldMut::Span(&mut c.auth.failure_delay)),
        "The delay before the error of a failed login. It doubles with each failure from the same address, up to 32 \
         times. 0: none.",
    )
    .ini_own("auth_failure_delay")
    .ini_default("0"),
];
