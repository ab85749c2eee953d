//! A client of etcd, by the JSON interface of its version 3: ranges, transactions and logins.
//!
//! Owns the addresses, of which one is used until it fails, and the token of a login. Each call is one request and
//! blocks for [`TIMEOUT`] at most; nothing is repeated here, since a transaction that failed may have been executed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value as Json, json};
use ureq::Agent;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, TlsProvider, parse_pem};
use weir_cluster::{Member, PoolShares, Revision, Store, StoreKey, StoreReply, StoreRequest, StoreValue, Stored, Txn};
use weir_config::Cluster;
use weir_store::{SettingsSource, StoreError};

use crate::error::NodeError;

/// Characters of a reply that an error has.
const LONGEST_ERROR: usize = 300;
/// A longer file, in bytes, is neither a certificate nor a key.
const MAX_PEM: u64 = 16 << 20;
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The key of the shared configuration, the last one below the prefix, and where its range ends.
const SETTINGS: &str = "settings";
const END: &str = "settings\0";

/// The key of the store's identity.
const GENERATION: &str = "generation";

/// The keys of the nodes' numbers begin with this, and their range ends there.
const PEER: &str = "peer/";
const PEERS_END: &str = "peer0";

/// See the head of the file.
pub struct Etcd {
    agent: Agent,
    addresses: Vec<String>,
    /// Which address is used.
    current: usize,
    prefix: String,
    login: Option<(String, String)>,
    token: Option<String>,
    /// What the last requests have shown of the shared configuration.
    settings: Option<(Revision, String)>,
    /// The store's revision at the last reply.
    revision: Revision,
}

impl Etcd {
    /// A client for the cluster; connects to nothing yet.
    pub fn new(rules: &Cluster) -> Result<Etcd, NodeError> {
        let mut config = Agent::config_builder().timeout_global(Some(TIMEOUT)).http_status_as_error(false);
        if rules.etcd.iter().any(|address| address.starts_with("https:")) {
            config = config.tls_config(tls(rules)?);
        }
        let password = rules.password_file.as_deref().map(read).transpose()?.unwrap_or_default();
        let password = String::from_utf8_lossy(&password).trim_end().to_owned();
        let login = (!rules.user.is_empty()).then(|| (rules.user.clone(), password));
        Ok(Etcd {
            agent: config.build().into(),
            addresses: rules.etcd.iter().map(|address| address.trim_end_matches('/').to_owned()).collect(),
            current: 0,
            prefix: format!("/weir/{}/", rules.name),
            login,
            token: None,
            settings: None,
            revision: 0,
        })
    }

    /// Executes a request. After an error it is unknown whether it was executed, or will be.
    pub fn execute(&mut self, request: &StoreRequest) -> Result<StoreReply, NodeError> {
        match request {
            StoreRequest::ReadAll => self.range("", END, 0),
            StoreRequest::ReadMembers => self.range("node/", "node0", 0),
            // The shared configuration follows the pools, so that one request shows changes of both.
            StoreRequest::ReadPools(after) => self.range("pool/", END, after + 1),
            StoreRequest::Commit(txn) => self.commit(txn),
        }
    }

    /// The numbers of nodes in cancel keys, with the nodes' names.
    pub(crate) fn peers(&mut self) -> Result<BTreeMap<u16, String>, NodeError> {
        let (from, end) = (format!("{}{PEER}", self.prefix), format!("{}{PEERS_END}", self.prefix));
        let answer =
            self.call("kv/range", &json!({ "key": STANDARD.encode(&from), "range_end": STANDARD.encode(&end) }))?;
        let peer = |entry: &Json| {
            let key = String::from_utf8(decoded(&entry["key"])?).ok()?;
            Some((key.strip_prefix(&from)?.parse().ok()?, String::from_utf8(decoded(&entry["value"])?).ok()?))
        };
        Ok(answer["kvs"].as_array().into_iter().flatten().filter_map(peer).collect())
    }

    /// Records that a number is this node's. `false`: another node has it.
    pub(crate) fn claim_peer(&mut self, id: u16, name: &str) -> Result<bool, NodeError> {
        let key = STANDARD.encode(format!("{}{PEER}{id}", self.prefix));
        let body = json!({
            "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": "0" }],
            "success": [{ "request_put": { "key": key, "value": STANDARD.encode(name) } }],
        });
        Ok(self.call("kv/txn", &body)?["succeeded"] == json!(true))
    }

    /// The store's revision at the last reply, and the shared configuration, if the requests since the last call have
    /// read it.
    pub fn take_settings(&mut self) -> (Revision, Option<(Revision, String)>) {
        (self.revision, self.settings.take())
    }

    fn range(&mut self, from: &str, end: &str, min: Revision) -> Result<StoreReply, NodeError> {
        let (from, end) = (format!("{}{from}", self.prefix), format!("{}{end}", self.prefix));
        let body = json!({
            "key": STANDARD.encode(&from), "range_end": STANDARD.encode(&end), "min_mod_revision": min.to_string(),
        });
        let answer = self.call("kv/range", &body)?;
        let empty = Vec::new();
        let found = answer["kvs"].as_array().unwrap_or(&empty);
        let stored = found.iter().filter_map(|entry| self.stored(entry)).collect::<Result<_, _>>()?;
        self.revision = number(&answer["header"]["revision"]);
        self.settings = found.iter().find_map(|entry| self.settings_of(entry)).or_else(|| self.settings.take());
        Ok(StoreReply::Read(self.revision, stored))
    }

    /// A key with its value; `None` for keys that are not the store's, a node's or a pool's.
    fn stored(&self, entry: &Json) -> Option<Result<Stored, NodeError>> {
        let key = String::from_utf8(decoded(&entry["key"])?).ok()?;
        let value = decoded(&entry["value"]).unwrap_or_default();
        let revision = number(&entry["mod_revision"]);
        let failed = |error: serde_json::Error| NodeError::Damaged(key.clone(), error.to_string());
        let below = key.strip_prefix(&self.prefix)?;
        let stored = |key, value| Stored { key, revision, value };
        if let Some(name) = below.strip_prefix("node/") {
            let member = serde_json::from_slice::<Member>(&value).map_err(failed);
            return Some(member.map(|member| stored(StoreKey::Member(name.to_owned()), StoreValue::Member(member))));
        }
        if below == GENERATION {
            let store = std::str::from_utf8(&value).ok().and_then(Store::parse);
            let store = store.ok_or_else(|| NodeError::Damaged(key.clone(), "it is damaged".to_owned()));
            return Some(store.map(|store| stored(StoreKey::Store, StoreValue::Store(store))));
        }
        let name = below.strip_prefix("pool/")?;
        let record = serde_json::from_slice::<PoolShares>(&value).map_err(failed);
        Some(record.map(|record| stored(StoreKey::Pool(name.to_owned()), StoreValue::Pool(record))))
    }

    /// The shared configuration, if the entry is that.
    fn settings_of(&self, entry: &Json) -> Option<(Revision, String)> {
        let key = decoded(&entry["key"])?;
        let value = String::from_utf8(decoded(&entry["value"])?).ok()?;
        (key == self.settings_key().into_bytes()).then(|| (number(&entry["mod_revision"]), value))
    }

    fn settings_key(&self) -> String {
        format!("{}{SETTINGS}", self.prefix)
    }

    fn commit(&mut self, txn: &Txn) -> Result<StoreReply, NodeError> {
        let compare = |(key, revision): &(StoreKey, Revision)| {
            json!({
                "key": self.encoded(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string(),
            })
        };
        let put = |(key, value): &(StoreKey, Option<StoreValue>)| {
            let key = self.encoded(key);
            let value = match value {
                None => return json!({ "request_delete_range": { "key": key } }),
                Some(StoreValue::Store(store)) => Ok(store.text().into_bytes()),
                Some(StoreValue::Member(member)) => serde_json::to_vec(member),
                Some(StoreValue::Pool(record)) => serde_json::to_vec(record),
            };
            json!({ "request_put": { "key": key, "value": STANDARD.encode(value.unwrap_or_default()) } })
        };
        let is_store = |store: Store| {
            let value = STANDARD.encode(store.text());
            json!({ "key": self.encoded(&StoreKey::Store), "target": "VALUE", "result": "EQUAL", "value": value })
        };
        let compares: Vec<Json> = txn.compares.iter().map(compare).chain(txn.store.map(is_store)).collect();
        let puts: Vec<Json> = txn.puts.iter().map(put).collect();
        let answer = self.call("kv/txn", &json!({ "compare": compares, "success": puts }))?;
        if answer["succeeded"] == json!(true) {
            return Ok(StoreReply::Committed(number(&answer["header"]["revision"])));
        }
        Ok(StoreReply::Conflict)
    }

    fn encoded(&self, key: &StoreKey) -> String {
        match key {
            StoreKey::Store => STANDARD.encode(format!("{}{GENERATION}", self.prefix)),
            StoreKey::Member(name) => STANDARD.encode(format!("{}node/{name}", self.prefix)),
            StoreKey::Pool(name) => STANDARD.encode(format!("{}pool/{name}", self.prefix)),
        }
    }

    /// One request; logs in first, if etcd wants that.
    fn call(&mut self, path: &str, body: &Json) -> Result<Json, NodeError> {
        if let (Some((user, password)), None) = (self.login.clone(), &self.token) {
            let answer = self.post("auth/authenticate", &json!({ "name": user, "password": password }))?;
            self.token = answer["token"].as_str().map(str::to_owned);
        }
        self.post(path, body)
    }

    fn post(&mut self, path: &str, body: &Json) -> Result<Json, NodeError> {
        let address = &self.addresses[self.current % self.addresses.len()];
        let url = format!("{address}/v3/{path}");
        let mut request = self.agent.post(&url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", token);
        }
        let answer = request.send(body.to_string()).map_err(|error| error.to_string()).and_then(|mut answer| {
            let status = answer.status();
            let text = answer.body_mut().with_config().limit(64 << 20).read_to_string();
            let text = text.map_err(|error| error.to_string())?;
            let json = || serde_json::from_str::<Json>(&text).map_err(|error| error.to_string());
            if status.is_success() { json() } else { Err(format!("{status}: {}", brief(&text))) }
        });
        answer.map_err(|error| {
            // The token may have expired, and the next address may answer.
            self.token = None;
            let failed = NodeError::Etcd(address.clone(), format!("{error}{}", hint(address, &error)));
            self.current = (self.current + 1) % self.addresses.len();
            failed
        })
    }
}

impl SettingsSource for Etcd {
    /// Tries each address once.
    fn read(&mut self) -> Result<Option<(Revision, String)>, StoreError> {
        let body = json!({ "key": STANDARD.encode(self.settings_key()) });
        let mut answer = self.call("kv/range", &body);
        for _ in 1..self.addresses.len() {
            answer = answer.or_else(|_| self.call("kv/range", &body));
        }
        let answer = answer.map_err(StoreError::source)?;
        let found = answer["kvs"].as_array().and_then(|all| all.first());
        Ok(found.and_then(|entry| self.settings_of(entry)))
    }

    fn replace(&mut self, over: Revision, value: &str) -> Result<Option<Revision>, StoreError> {
        let key = STANDARD.encode(self.settings_key());
        let answer = self.call(
            "kv/txn",
            &json!({
                "compare": [{ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": over.to_string() }],
                "success": [{ "request_put": { "key": key, "value": STANDARD.encode(value) } }],
            }),
        );
        let answer = answer.map_err(StoreError::source)?;
        let written = answer["succeeded"] == json!(true);
        Ok(written.then(|| number(&answer["header"]["revision"])))
    }
}

fn number(value: &Json) -> Revision {
    value.as_str().and_then(|text| text.parse().ok()).or_else(|| value.as_i64()).unwrap_or(0)
}

fn decoded(value: &Json) -> Option<Vec<u8>> {
    STANDARD.decode(value.as_str()?).ok()
}

/// The first line of an error, cut: an address may be that of a web server, which sends a page.
fn brief(text: &str) -> String {
    text.trim().lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(LONGEST_ERROR).collect()
}

/// What the operator can do about an error whose text does not say it.
fn hint(address: &str, error: &str) -> &'static str {
    match () {
        () if error.contains("CommonName of client") => {
            "; etcd with users needs a cert_file without a common name (CN), and \"user\" in [cluster]"
        }
        // The alert comes after the end of the handshake, when the request may have been sent.
        () if address.starts_with("https:")
            && ["Broken pipe", "Connection reset", "fatal alert"].iter().any(|word| error.contains(word)) =>
        {
            "; etcd may refuse this node's certificate: see cert_file and key_file in [cluster]"
        }
        () => "",
    }
}

/// An error if the key is not the certificate's: the client would panic.
fn check_pair(certificate: &Path, key: &Path) -> Result<(), NodeError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.map_err(|error| NodeError::file(certificate, error))?;
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| NodeError::file(key, error))?;
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| NodeError::Tls(error.to_string()))?;
    let made = builder.with_root_certificates(RootCertStore::empty()).with_client_auth_cert(chain, private);
    made.map(drop).map_err(|error| NodeError::OtherKey {
        key: key.to_owned(),
        certificate: certificate.to_owned(),
        why: error.to_string(),
    })
}

fn tls(rules: &Cluster) -> Result<TlsConfig, NodeError> {
    let roots = match &rules.ca_file {
        Some(file) => certificates(file)?,
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
        }
    };
    let mut tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(&roots));
    if let (Some(certificate), Some(key)) = (&rules.cert_file, &rules.key_file) {
        check_pair(certificate, key)?;
        let text = read(key)?;
        let key = PrivateKey::from_pem(&text).map_err(|error| NodeError::file(key, error))?;
        tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(certificate)?, key)));
    }
    Ok(tls.build())
}

fn certificates(file: &Path) -> Result<Vec<Certificate<'static>>, NodeError> {
    let text = read(file)?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    };
    let all: Vec<_> = parse_pem(&text).filter_map(certificate).collect();
    if all.is_empty() { Err(NodeError::file(file, "there is no certificate in it")) } else { Ok(all) }
}

fn read(file: &Path) -> Result<Vec<u8>, NodeError> {
    weir_runtime::read_ordinary(file, MAX_PEM).map_err(|error| NodeError::file(file, error))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn a_page_of_a_web_server_is_cut_in_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let page = format!("<html>{}\nmore", "x".repeat(1 << 20));
            let head = format!("HTTP/1.1 502 Bad Gateway\r\nContent-Length: {}\r\n\r\n", page.len());
            let _ = stream.write_all((head + &page).as_bytes());
            // Until the other end closes: with unread bytes the connection would be reset.
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let rules = Cluster { etcd: vec![address.clone()], ..Cluster::default() };
        let error = Etcd::new(&rules).unwrap().execute(&StoreRequest::ReadAll).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("etcd at {address}: 502 Bad Gateway: <html>{}", "x".repeat(LONGEST_ERROR - 6))
        );
    }
}
