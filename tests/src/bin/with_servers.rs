//! A temporary PostgreSQL and a Weir in front of it, for as long as a command runs: `with_servers COMMAND [ARGUMENT…]`.
//!
//! The command finds in its environment: `WEIR_HOST`, `WEIR_PORT`, `WEIR_USER`, `WEIR_PASSWORD`, the pools
//! `WEIR_TRANSACTION`, `WEIR_SESSION` and `WEIR_AUTO` (names of databases to connect to), and, past Weir, `PG_DIRECT_PORT`,
//! `PG_DIRECT_DATABASE` and `PG_DIRECT_VERSION`. Weir encrypts for clients that request it, with a certificate for
//! 127.0.0.1 and localhost, signed by the authority in the file `WEIR_AUTHORITY`; so does PostgreSQL if it was built
//! with TLS, and then `PG_DIRECT_TLS` is set. `WEIR_PANEL` is the panel's address, and `WEIR_LAB` the folder whose lab
//! reports it lists. The exit status is the command's, or 1 if Weir's counters are not back at their initial values at
//! the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use weir_tests::{Api, Mode, Postgres, Setup, Site, eventually, users};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(program) = arguments.next() else {
        eprintln!("usage: with_servers COMMAND [ARGUMENT…]");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let outcome = catch_unwind(AssertUnwindSafe(|| run(&mut command)));
    outcome.unwrap_or(ExitCode::FAILURE)
}

fn run(command: &mut Command) -> ExitCode {
    let postgres = Postgres::shared();
    let database = postgres.database();
    let password = users::APP.password.replace('\\', "\\\\").replace('"', "\\\"");
    let pool = |mode: Mode, size: u32| {
        format!(
            "[pools.{mode}]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"{}\"\nuser = \"{}\"\n\
             password = \"{password}\"\nmode = \"{mode}\"\nsize = {size}\n",
            postgres.port(),
            database.name(),
            users::APP.name,
        )
    };
    let certificates = Certificates::new();
    if certificates.install(&postgres) {
        command.env("PG_DIRECT_TLS", "1");
    }
    let api = Api::default();
    let tls = "[tls.client]\nmode = \"prefer\"\nkey_file = \"server.key\"\ncert_file = \"server.crt\"\n";
    let setup = Setup::new(Mode::Transaction)
        .size(5)
        .more(&pool(Mode::Session, 30))
        .more(&pool(Mode::Auto, 5))
        .more(tls)
        .more(&format!("{}lab = \"weir-lab\"\n", api.section()));
    let setup = setup.file("server.key", &certificates.key).file("server.crt", &certificates.certificate);
    let site = Site::with(setup.file("ca.crt", &certificates.authority), Mode::Transaction);
    let status = command
        .env("WEIR_HOST", "127.0.0.1")
        .env("WEIR_PORT", site.weir().port().to_string())
        .env("WEIR_USER", users::APP.name)
        .env("WEIR_PASSWORD", users::APP.password)
        .env("WEIR_TRANSACTION", "app")
        .env("WEIR_SESSION", "session")
        .env("WEIR_AUTO", "auto")
        .env("WEIR_PANEL", api.url())
        .env("WEIR_LAB", site.weir().folder().join("weir-lab"))
        .env("WEIR_AUTHORITY", site.weir().folder().join("ca.crt"))
        .env("PG_DIRECT_VERSION", postgres.server().programs().version())
        .env("PG_DIRECT_PORT", postgres.port().to_string())
        .env("PG_DIRECT_SOCKET", postgres.server().socket_dir())
        .env("PG_DIRECT_SUPERUSER", postgres.server().superuser())
        .env("PG_DIRECT_DATABASE", site.database().name())
        .status();
    match status {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(status) => {
            site.weir().skip_final_checks();
            println!("the end of weir's log:");
            let log = site.weir().log();
            if let Some(status) = site.weir().exited() {
                println!("  it has ended: {status}");
            }
            // Logins and disconnects are many, and expected.
            let lines: Vec<_> = log.lines().filter(|line| !line.contains(" LOG C-")).collect();
            lines.iter().rev().take(30).rev().for_each(|line| println!("  {line}"));
            ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
        }
        Err(error) => {
            eprintln!("with_servers: {}: {error}", command.get_program().display());
            ExitCode::FAILURE
        }
    }
}

/// A private authority, a key and a certificate signed by it, all as PEM.
struct Certificates {
    authority: String,
    key: String,
    certificate: String,
}

impl Certificates {
    fn new() -> Certificates {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority of the tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate").pem();
        let issuer = Issuer::new(params, key);
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("two names");
        params.distinguished_name.push(DnType::CommonName, "localhost");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
        Certificates { authority, key: key.serialize_pem(), certificate }
    }

    /// Makes the server encrypt, if it was built with TLS. The server writes its files itself, because its user must
    /// own them.
    fn install(&self, postgres: &Postgres) -> bool {
        let mut superuser = postgres.superuser("postgres");
        for (name, text) in [("server.key", &self.key), ("server.crt", &self.certificate)] {
            let lines = text.lines().map(|line| format!("('{line}')")).collect::<Vec<_>>().join(", ");
            let program = format!("$program$umask 077; cat > {name}$program$");
            let copied = superuser.query(&format!("COPY (VALUES {lines}) TO PROGRAM {program}"));
            copied.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        if superuser.query("ALTER SYSTEM SET ssl = on").is_err() {
            return false;
        }
        superuser.query("SELECT pg_reload_conf()").expect("a reload");
        eventually("the server encrypts", || match superuser.value("SHOW ssl") {
            Ok(Some(on)) if on == "on" => Ok(()),
            other => Err(other),
        });
        true
    }
}
