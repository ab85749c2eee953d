//! Certificates of a test, and a PostgreSQL that can encrypt.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::postgres::Postgres;
use crate::setup::Setup;
use crate::watch::eventually;

/// An authority that signs certificates.
#[derive(Debug)]
pub struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Certificates {
    /// A new authority.
    ///
    /// # Panics
    ///
    /// When there is no randomness for a key; the other functions here panic then too.
    pub fn new() -> Certificates {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Certificates { issuer: Issuer::new(params, key), pem }
    }

    /// The authority's own certificate, as PEM.
    pub fn authority(&self) -> &str {
        &self.pem
    }

    /// A key and a certificate for `localhost` with this subject, as PEM.
    pub fn sign(&self, subject: &str) -> (String, String) {
        self.sign_for(subject, "localhost")
    }

    /// A key and a certificate for another host name or address with this subject, as PEM.
    pub fn sign_for(&self, subject: &str, name: &str) -> (String, String) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, subject);
        let key = KeyPair::generate().expect("a key");
        (key.serialize_pem(), params.signed_by(&key, &self.issuer).expect("a certificate").pem())
    }

    /// A Weir that encrypts to its clients in this mode, with a certificate of this authority, and the authority's own
    /// certificate as `ca.crt`.
    #[must_use]
    pub fn setup(&self, setup: Setup, mode: &str) -> Setup {
        let (key, certificate) = self.sign("server");
        let files = "key_file = \"server.key\"\ncert_file = \"server.crt\"\nca_file = \"ca.crt\"";
        setup
            .file("server.key", &key)
            .file("server.crt", &certificate)
            .file("ca.crt", &self.pem)
            .more(&format!("[tls.client]\nmode = \"{mode}\"\n{files}"))
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Certificates::new()
    }
}

/// A private authority and its certificate for loopback, made in the server's own folder.
const IN_ITS_FOLDER: &str = "new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'\n\
    $new -x509 -subj /CN=authority -keyout ca.key -out ca.crt && \
    $new -subj /CN=localhost -keyout server.key -out server.csr && \
    echo subjectAltName=IP:127.0.0.1 > extensions && \
    openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out server.crt && \
    chmod 600 server.key";

/// A private server that can encrypt, and the certificate of its authority.
///
/// # Panics
///
/// When there is no `openssl`, or the server does not accept its certificate.
pub fn encrypting_postgres() -> (Postgres, String) {
    let postgres = Postgres::private();
    let mut superuser = postgres.superuser("postgres");
    let run = format!("COPY (SELECT 1) TO PROGRAM $program$ exec 2>/dev/null; {IN_ITS_FOLDER} $program$");
    superuser.query(&run).unwrap_or_else(|error| panic!("certificates: {error}"));
    superuser.query("ALTER SYSTEM SET ssl = on").expect("a setting");
    superuser.query("SELECT pg_reload_conf()").expect("it reloads");
    eventually("the server can encrypt", || match superuser.value("SHOW ssl") {
        Ok(Some(on)) if on == "on" => Ok(()),
        other => Err(other),
    });
    let authority = superuser.value("SELECT pg_read_file('ca.crt')");
    (postgres, authority.expect("a file").expect("a certificate"))
}
