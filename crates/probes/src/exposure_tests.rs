//! A stored secret stays where the file sends it, whatever an admin of the control plane or of the console changes:
//! each key of a pool and each setting, with many values. Servers that record what they get ask the logins of each
//! accepted change for a proof.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use weir_config::{
    Assignment, Config, Edit, Edits, Keys, Operation, PoolConfig, SetError, Value, apply_tls, describe, find_exposure,
    find_source, is_settable, load_with, pool_key_table, set, show,
};

use crate::pool_test::{Credentials, Login, ask, login};

/// The codes of the requests for a proof (PostgreSQL's documentation, "Message Formats").
const CLEARTEXT: u8 = 3;
const MD5: u8 = 5;
const SASL: u8 = 10;

/// A proof that arrived: at the server with this name, for this request.
type Arrived = (&'static str, u8);

/// Servers that ask for a proof by one of the methods after the other, and record which they got.
struct Servers {
    port: u16,
    other_port: u16,
    arrived: Receiver<Arrived>,
}

impl Servers {
    fn start() -> Servers {
        let (sender, arrived) = channel();
        // A port that is free at both addresses.
        let (own, foreign) = (0..100)
            .find_map(|_| {
                let own = TcpListener::bind("127.0.0.1:0").ok()?;
                let foreign = TcpListener::bind(("127.0.0.2", own.local_addr().ok()?.port())).ok()?;
                Some((own, foreign))
            })
            .expect("a free port");
        let beside = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let [port, other_port] = [&own, &beside].map(|listener| listener.local_addr().expect("an address").port());
        for (name, listener) in [("own", own), ("other address", foreign), ("other port", beside)] {
            let sender = sender.clone();
            thread::spawn(move || serve(name, &listener, &sender));
        }
        Servers { port, other_port, arrived }
    }
}

fn serve(name: &'static str, listener: &TcpListener, arrived: &Sender<Arrived>) {
    let mut methods = [CLEARTEXT, MD5, SASL].into_iter().cycle();
    for stream in listener.incoming() {
        let (Ok(mut stream), Some(method)) = (stream, methods.next()) else { return };
        // An end of the connection is a refusal of the request.
        if let Some(()) = request(&mut stream, method) {
            let _ = arrived.send((name, method));
        }
    }
}

/// Asks for a proof; none if it does not come.
fn request(stream: &mut TcpStream, method: u8) -> Option<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut packet = vec![0; u32::from_be_bytes(length) as usize - 4];
        stream.read_exact(&mut packet).ok()?;
        if packet.starts_with(&80_877_103_u32.to_be_bytes()) {
            stream.write_all(b"N").ok()?;
        } else {
            break;
        }
    }
    let rest: &[u8] = match method {
        MD5 => b"salt",
        SASL => b"SCRAM-SHA-256\0\0",
        _ => b"",
    };
    send(stream, method, rest)?;
    let message = password_message(stream)?;
    if method == SASL {
        let text = String::from_utf8_lossy(&message).into_owned();
        let nonce = text.split("r=").nth(1)?.to_owned();
        send(stream, 11, format!("r={nonce}x,s=c2FsdA==,i=1").as_bytes())?;
        password_message(stream)?;
    }
    Some(())
}

fn send(stream: &mut TcpStream, code: u8, rest: &[u8]) -> Option<()> {
    let length = 8 + u32::try_from(rest.len()).ok()?;
    let message = [b"R", &length.to_be_bytes()[..], &u32::from(code).to_be_bytes(), rest].concat();
    stream.write_all(&message).ok()
}

fn password_message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).ok()?;
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    (head[0] == b'p').then_some(body)
}

fn file(port: u16) -> String {
    format!(
        "[general]\nrequire_auth = \"scram-sha-256\"\n[auth]\nquery_user = \"asker\"\nquery_database = \"shop\"\n\
         [auth.users]\napp = \"stored\"\nasker = \"also stored\"\n\
         [pools.shop]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"shop\"\npassword = \"hush\"\n\
         [pools.clients]\nhost = \"127.0.0.1\"\nport = {port}\n\
         [pools.theirs]\nhost = \"127.0.0.2\"\nport = {port}\nuser = \"mallory\"\n"
    )
}

/// The values that each key gets, besides its own words.
fn values(servers: &Servers, words: &[&str]) -> Vec<Option<Value>> {
    let texts = [
        "",
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.2,127.0.0.1",
        "localhost",
        "/tmp",
        "any",
        "none",
        "password",
        "md5",
        "!scram-sha-256",
        "password,md5,scram-sha-256,none",
        "auto",
        "prefer",
        "shop",
        "app",
        "theirs",
        "nobody",
        "*",
        "5s",
    ];
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    let port = |port: u16| Value::Number(i64::from(port));
    let hosts = ["127.0.0.1", "127.0.0.2"].map(|host| Value::Text(host.to_owned()));
    let others = [
        None,
        Some(port(servers.other_port)),
        Some(Value::List(vec![port(servers.port), port(servers.other_port)])),
        Some(Value::List(hosts.into())),
        Some(Value::Flag(true)),
        Some(Value::Flag(false)),
    ];
    texts.into_iter().chain(words.iter().copied()).map(text).chain(others).collect()
}

/// All changes: of each key of pools with their password, without it, without a user, and of a new pool; of each
/// setting.
fn edits(servers: &Servers) -> Vec<Edit> {
    let mut edits = Vec::new();
    // A password that a change gives is not a stored one.
    for key in pool_key_table().filter(|key| key.key != "password") {
        for value in values(servers, key.words) {
            let keys = |more: &[(&str, Option<Value>)]| {
                let mut keys = Keys::default();
                for (name, value) in more {
                    keys.set(name, value.clone());
                }
                keys.set(key.key, value.clone());
                keys
            };
            let text = |text: &str| Some(Value::Text(text.to_owned()));
            let port = Some(Value::Number(i64::from(servers.port)));
            let new = [("host", text("127.0.0.1")), ("port", port), ("user", text("app"))];
            let alter = |pool: &str, keys| Edit::Pool(pool.to_owned(), Operation::Alter(keys));
            edits.extend([
                alter("shop", keys(&[])),
                alter("shop", keys(&[("password", None)])),
                alter("shop", keys(&[("password", None), ("user", None)])),
                alter("clients", keys(&[])),
                alter("theirs", keys(&[])),
                Edit::Pool("new".to_owned(), Operation::Create(keys(&new))),
            ]);
        }
    }
    let settings = settings(servers).into_iter().filter(|(key, _)| is_settable(key));
    edits.extend(settings.filter_map(|(key, text)| Assignment::new(key, &text).ok()).map(Edit::Setting));
    edits.extend(["shop", "clients", "theirs"].map(|name| Edit::Pool(name.to_owned(), Operation::Drop)));
    edits
}

/// Each setting with many values, as a console writes them.
fn settings(servers: &Servers) -> Vec<(&'static str, String)> {
    let text = |value: Option<Value>| match value? {
        Value::Text(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Flag(flag) => Some(flag.to_string()),
        Value::Fraction(_) | Value::List(_) => None,
    };
    let all = show(&Config::default()).into_iter().flat_map(|row| {
        let words = describe(row.key).map_or(&[][..], |text| text.words);
        values(servers, words).into_iter().filter_map(text).map(move |text| (row.key, text))
    });
    all.collect()
}

/// Tries every login that this configuration leads to, at each server, with each request for a proof.
fn try_logins(config: &Config, tried: &mut BTreeSet<String>) {
    let asker = config.auth.users.get("asker").map(str::to_owned);
    for (name, pool) in config.pools.iter().map(|(name, pool)| (name.as_str(), pool)) {
        let own = if let Login::As(own) = login(config, pool) { Some(own) } else { None };
        let lookup = config.auth_lookup(name).map(|lookup| (lookup.database, lookup.user));
        let asks = lookup.and_then(|(place, user)| {
            let secret = if user == "asker" { asker.clone() } else { config.auth.users.get(&user).map(str::to_owned) };
            Some((config.pool(&place)?, Credentials { user, password: secret }))
        });
        for (pool, as_whom) in own.map(|own| (pool.clone(), own)).into_iter().chain(asks) {
            for target in &pool.targets {
                let how = (
                    &as_whom.user,
                    &as_whom.password,
                    target.to_string(),
                    pool.policy.require_auth,
                    config.tls.server.mode,
                );
                if !tried.insert(format!("{how:?}")) || !target.to_string().starts_with("127.0.0.") {
                    continue;
                }
                let at = PoolConfig { targets: vec![target.clone()], ..PoolConfig::clone(&pool) };
                for _method in [CLEARTEXT, MD5, SASL] {
                    assert!(ask(config, &at, &as_whom).is_err(), "no login ends well there");
                }
            }
        }
    }
}

#[test]
fn no_change_sends_a_stored_secret_elsewhere_or_in_another_way() {
    let servers = Servers::start();
    let text = file(servers.port);
    let load = |edits: &Edits| load_with(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None, edits).ok();
    let before = load(&Edits::default()).expect("the file is valid");
    let mut tried = BTreeSet::new();
    try_logins(&before, &mut tried);
    assert!(servers.arrived.try_iter().all(|arrived| arrived == ("own", SASL)), "as the file says");
    let (mut accepted, mut refused) = (0, 0);
    for edit in edits(&servers) {
        if find_source(&edit).is_some() {
            continue;
        }
        let Some(after) = load(&Edits::from(edit.clone())) else { continue };
        if find_exposure(&before, &after, &edit).is_some() {
            refused += 1;
            continue;
        }
        accepted += 1;
        try_logins(&after, &mut tried);
        let bad: Vec<Arrived> = servers.arrived.try_iter().filter(|arrived| *arrived != ("own", SASL)).collect();
        assert!(bad.is_empty(), "{edit:?}: {bad:?}");
    }
    assert!(accepted > 1_000 && refused > 20, "{accepted} accepted, {refused} refused");
}

#[test]
fn no_set_of_the_console_sends_a_stored_secret_elsewhere_or_in_another_way() {
    let servers = Servers::start();
    let text = file(servers.port);
    let before = load_with(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None, &Edits::default());
    let before = before.expect("the file is valid");
    let mut tried = BTreeSet::new();
    let (mut accepted, mut refused) = (0, BTreeSet::new());
    for (key, value) in settings(&servers) {
        let after = match set(&before, key, &value) {
            Ok(after) => after,
            Err(SetError::Exposes(_)) => {
                refused.insert(key);
                continue;
            }
            Err(_) => continue,
        };
        // Without effect as long as its files don't fit.
        let Ok(after) = apply_tls(&after) else { continue };
        accepted += 1;
        try_logins(&after, &mut tried);
        let bad: Vec<Arrived> = servers.arrived.try_iter().filter(|arrived| *arrived != ("own", SASL)).collect();
        assert!(bad.is_empty(), "SET {key} = {value}: {bad:?}");
    }
    assert!(accepted > 500, "{accepted} accepted");
    let expected = ["auth_dbname", "require_auth", "server_tls_sslmode"];
    assert!(expected.iter().all(|key| refused.contains(key)), "{refused:?} refused");
}
