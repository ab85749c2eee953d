//! OpenLDAP's server on ports of its own, with one entry a user of the tests.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use weir_pglocal::{TempFolder, free_port};

use crate::certificates::Certificates;
use crate::pgbouncer::account;
use crate::postgres::users;
use crate::watch::eventually;

/// The entry below which all others are.
pub const BASE: &str = "dc=example,dc=net";
/// Who may search, and the password for it.
pub const MANAGER: (&str, &str) = ("cn=manager,dc=example,dc=net", "manager's");

const PROGRAM: &str = "/usr/sbin/slapd";
const SCHEMA: &str = "/etc/ldap/schema";

/// A running slapd; killed when dropped. The password of `uid=NAME` is that of the user on PostgreSQL.
#[derive(Debug)]
pub struct Slapd {
    child: Child,
    /// The port for connections that are plain at first.
    pub port: u16,
    /// The port of `ldaps`.
    pub tls_port: u16,
    // Dropped last.
    folder: TempFolder,
}

impl Slapd {
    /// Starts one; `None` if it is not installed (Debian's `slapd`), which a line of the test's output says.
    ///
    /// # Panics
    ///
    /// When it does not accept connections.
    pub fn start() -> Option<Slapd> {
        if !Path::new(PROGRAM).is_file() || !Path::new(SCHEMA).is_dir() {
            println!("slapd is not installed: nothing is tested (apt-get install slapd)");
            return None;
        }
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        let at = |name: &str| folder.path().join(name).display().to_string();
        let certificates = Certificates::new();
        let (key, certificate) = certificates.sign("slapd");
        let data = at("data");
        fs::create_dir(&data).expect("a folder");
        let conf = format!(
            "include {SCHEMA}/core.schema\ninclude {SCHEMA}/cosine.schema\ninclude {SCHEMA}/inetorgperson.schema\n\
             TLSCACertificateFile {}\nTLSCertificateFile {}\nTLSCertificateKeyFile {}\n\
             access to attrs=userPassword by anonymous auth\naccess to * by dn=\"{}\" read by anonymous auth\n\
             database ldif\ndirectory {data}\nsuffix \"{BASE}\"\nrootdn \"cn=root,{BASE}\"\n",
            at("ca.crt"),
            at("server.crt"),
            at("server.key"),
            MANAGER.0,
        );
        let files = [
            ("slapd.conf", conf),
            ("data.ldif", entries()),
            ("ca.crt", certificates.authority().to_owned()),
            ("server.crt", certificate),
            ("server.key", key),
        ];
        files.iter().for_each(|(name, text)| fs::write(at(name), text).expect("a file"));
        if let Some(account) = account() {
            for path in files.iter().map(|(name, _)| at(name)).chain([data]) {
                chown(path, Some(account.uid), Some(account.gid)).expect("root may give files away");
            }
        }
        let added =
            run(Command::new(PROGRAM).args(["-Tadd", "-f", &at("slapd.conf"), "-l", &at("data.ldif")])).output();
        let added = added.expect("slapd runs");
        assert!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
        let (port, tls_port) = (free_port().expect("a port"), free_port().expect("a port"));
        let urls = format!("ldap://127.0.0.1:{port} ldaps://127.0.0.1:{tls_port}");
        let mut command = Command::new(PROGRAM);
        command.args(["-d", "0", "-f", &at("slapd.conf"), "-h", &urls]);
        let child = run(&mut command).stdin(Stdio::null()).spawn().expect("slapd runs");
        let slapd = Slapd { child, port, tls_port, folder };
        eventually("slapd", || TcpStream::connect(("127.0.0.1", port)));
        eventually("slapd's second port", || TcpStream::connect(("127.0.0.1", tls_port)));
        Some(slapd)
    }

    /// The file of the authority that signed its certificate, which is for `localhost`.
    pub fn ca_file(&self) -> String {
        self.folder.path().join("ca.crt").display().to_string()
    }
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) -> &mut Command {
    if let Some(account) = account() {
        account.run(command);
    }
    command
}

fn entries() -> String {
    let person = |rdn: &str, name: &str, password: &str| {
        format!(
            "\ndn: {rdn},{BASE}\nobjectClass: inetOrgPerson\ncn: {name}\nsn: {name}\nuid: {name}\n\
             mail: {name}@example.net\nuserPassword: {password}\n"
        )
    };
    let top = format!("dn: {BASE}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: Example\n");
    let manager = format!(
        "\ndn: {}\nobjectClass: inetOrgPerson\ncn: manager\nsn: manager\nuserPassword: {}\n",
        MANAGER.0, MANAGER.1
    );
    let users = users::ALL.map(|user| person(&format!("uid={}", user.name), user.name, user.password)).concat();
    // Two users with one address, neither of which is meant.
    let twins = ["one", "two"].map(|name| person(&format!("uid=twin-{name}"), "twin", "twin's")).concat();
    top + &manager + &users + &twins
}
