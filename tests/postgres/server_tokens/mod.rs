//! Tokens that Weir gets from a service (`password_source`), for logins at a real PostgreSQL that asks a directory
//! whether each is valid: tokens that expire under load, a service that is away, and tokens that are refused.

mod directory;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_tests::{Mode, Postgres, Setup, Site, eventually, users, weir_binary};

/// The user of the pools on the server.
const USER: &str = "tokener";

/// A metadata server of Google: its tokens, and until when each is valid.
#[derive(Default)]
struct Metadata {
    issued: Mutex<Vec<(String, Instant)>>,
    is_away: AtomicBool,
    logins: AtomicU32,
    refused: AtomicU32,
}

impl Metadata {
    fn issue(&self, life: Duration) -> String {
        let mut issued = self.issued.lock().unwrap();
        let token = format!("ya29.hush-{}", issued.len() + 1);
        issued.push((token.clone(), Instant::now() + life));
        token
    }

    fn accepts(&self, token: &str) -> bool {
        let issued = self.issued.lock().unwrap();
        let valid = issued.iter().any(|(known, end)| known == token && Instant::now() < *end);
        if valid { &self.logins } else { &self.refused }.fetch_add(1, Ordering::Relaxed);
        valid
    }

    fn revoke(&self) {
        self.issued.lock().unwrap().iter_mut().for_each(|(_, end)| *end = Instant::now());
    }

    /// Serves tokens of this life until the process ends; returns its address.
    fn start(self: &Arc<Self>, life: Duration) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let metadata = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                metadata.answer(stream.unwrap(), life);
            }
        });
        address
    }

    fn answer(&self, mut stream: TcpStream, life: Duration) {
        let head: Vec<String> =
            BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        assert!(head[0].starts_with("GET /computeMetadata/v1/instance/service-accounts/default/token "), "{head:?}");
        let (status, body) = match self.is_away.load(Ordering::Relaxed) {
            true => (503, "the metadata server is overloaded".to_owned()),
            false => (200, format!("{{\"access_token\":\"{}\",\"expires_in\":{}}}", self.issue(life), life.as_secs())),
        };
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
    }
}

/// A server that asks this directory about [`USER`], and a Weir with a pool `tokens` before it.
struct Stage {
    site: Site,
    _server: Postgres,
}

impl Stage {
    fn new(directory: u16, source: &str, env: &[(&str, &str)]) -> Stage {
        let server = Postgres::private();
        let mut superuser = server.superuser("postgres");
        superuser.query(&format!("CREATE USER {USER}")).unwrap();
        let file = superuser.value("SHOW hba_file").unwrap().expect("a file");
        let rule = format!(
            "host all {USER} 127.0.0.1/32 ldap ldapserver=127.0.0.1 ldapport={directory} ldapprefix=\"cn=\" ldapsuffix=\",dc=test\""
        );
        let rules = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{rule}\n{rules}")).unwrap();
        superuser.query("SELECT pg_reload_conf()").unwrap();
        let wrong = superuser.value("SELECT string_agg(error, '; ') FROM pg_hba_file_rules").unwrap();
        assert_eq!(wrong, None, "this PostgreSQL knows no LDAP");
        let pool = format!(
            "[process]\nwatch_files = \"off\"\n[pools.tokens]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"postgres\"\nuser = \"{USER}\"\n\
             size = 4\nrequire_auth = \"password\"\npassword_source = {source}\n",
            server.port()
        );
        let setup = Setup::new(Mode::Transaction).more(&pool);
        let setup = env.iter().fold(setup, |setup, (name, value)| setup.env(name, value));
        Stage { site: Site::on(&server, setup, Mode::Transaction), _server: server }
    }

    fn connect(&self) -> Result<Connection, weir_pgclient::Error> {
        let params = self.site.weir().params(users::APP.name, "tokens");
        Connection::connect(&params.password(users::APP.password))
    }

    /// The error of a client that can't have a server.
    fn error(&self) -> String {
        let refused = |mut client: Connection| client.query("SELECT 1").expect_err("there is no server");
        self.connect().map_or_else(|error| error, refused).to_string()
    }

    fn reconnect(&self) {
        self.site.weir().command("RECONNECT tokens").unwrap();
    }

    fn await_no_server(&self) {
        eventually("no server is left", || match self.site.weir().pool("tokens").servers() {
            0 => Ok(()),
            left => Err(left),
        });
    }

    /// What `weir check --connect` says, and whether it is content.
    fn check(&self, env: &[(&str, &str)]) -> (String, bool) {
        let file = self.site.weir().folder().join("weir.toml");
        let mut command = Command::new(weir_binary());
        let checked = command.args(["check", "--connect"]).arg(file).envs(env.iter().copied()).output().unwrap();
        (String::from_utf8_lossy(&checked.stdout).into_owned(), checked.status.success())
    }
}

#[test]
fn tokens_that_expire_after_three_seconds_under_load_fail_no_login() {
    const LOAD: Duration = Duration::from_secs(16);
    let metadata = Arc::new(Metadata::default());
    let address = metadata.start(Duration::from_secs(3));
    let valid = metadata.clone();
    let directory = directory::start(move |token| valid.accepts(token));
    let stage = Stage::new(directory, "[\"google\"]", &[("GCE_METADATA_HOST", &address)]);
    let end = Instant::now() + LOAD;
    let asked: u32 = thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    let mut asked = 0;
                    while Instant::now() < end {
                        let mut client = stage.connect().expect("no login fails");
                        for _ in 0..20 {
                            client.query("SELECT 1").expect("no client sees that a token expires");
                            asked += 1;
                        }
                    }
                    asked
                })
            })
            .collect();
        while Instant::now() < end {
            // Each server logs in again.
            stage.reconnect();
            thread::sleep(Duration::from_millis(50));
        }
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    let issued = metadata.issued.lock().unwrap().len();
    let (logins, refused) = (metadata.logins.load(Ordering::Relaxed), metadata.refused.load(Ordering::Relaxed));
    println!("{asked} queries, {logins} logins, {refused} refused and repeated, {issued} tokens");
    // One for each 2.4 s, and few more: logins share them.
    assert!((5..20).contains(&issued), "{issued} tokens");
    // A token is replaced before it expires: a login that is repeated is one that a busy machine has delayed.
    assert!(refused * 2 < issued as u32, "{refused} refused");
    assert!(logins > 20 && asked > 100, "{logins} logins, {asked} queries");
    let log = stage.site.weir().log();
    assert!(!log.contains("hush"), "a token is in the log");
}

#[test]
fn a_service_that_is_away_is_named_once_its_token_has_expired_and_costs_nobody_else_anything() {
    let metadata = Arc::new(Metadata::default());
    let address = metadata.start(Duration::from_secs(3));
    let valid = metadata.clone();
    let directory = directory::start(move |token| valid.accepts(token));
    let env = [("GCE_METADATA_HOST", &*address)];
    let stage = Stage::new(directory, "[\"google\"]", &env);
    let mut client = stage.connect().unwrap();
    client.query("SELECT 1").unwrap();
    metadata.is_away.store(true, Ordering::Relaxed);
    thread::sleep(Duration::from_millis(3100));
    // A server that is logged in stays.
    client.query("SELECT 1").unwrap();
    drop(client);
    stage.reconnect();
    stage.await_no_server();
    let why = format!(
        "password_source failed: google: the metadata server at http://{address} answered 503: the metadata server is overloaded"
    );
    let error = stage.error();
    assert!(error.contains(&why), "{error}");
    let (text, is_content) = stage.check(&env);
    assert!(text.contains(&why) && !is_content, "{text}");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (text, _) = stage.check(&[("GCE_METADATA_HOST", &nobody)]);
    let unreachable = format!("google: the metadata server at http://{nobody} is unreachable: ");
    assert!(text.contains(&unreachable), "{text}");
    // Other pools of the worker go on.
    stage.site.connect().query("SELECT 1").unwrap();
    metadata.is_away.store(false, Ordering::Relaxed);
    eventually("it is asked again", || stage.connect().and_then(|mut client| client.query("SELECT 1").map(drop)));
    let (text, is_content) = stage.check(&env);
    assert!(is_content, "{text}");
    assert!(!stage.site.weir().log().contains("hush"), "a token is in the log");
}

#[test]
fn a_token_that_a_server_refuses_is_replaced_at_once_and_the_error_of_a_new_one_says_when_it_is_valid() {
    let metadata = Arc::new(Metadata::default());
    let address = metadata.start(Duration::from_secs(3600));
    let (valid, refuses_all) = (metadata.clone(), Arc::new(AtomicBool::new(false)));
    let refuses = refuses_all.clone();
    let directory = directory::start(move |token| valid.accepts(token) && !refuses.load(Ordering::Relaxed));
    // Metadata services are asked past a proxy: nobody listens at this one.
    let env =
        [("GCE_METADATA_HOST", &*address), ("HTTP_PROXY", "http://127.0.0.1:1"), ("ALL_PROXY", "http://127.0.0.1:1")];
    let stage = Stage::new(directory, "[\"google\"]", &env);
    stage.connect().unwrap().query("SELECT 1").unwrap();
    metadata.revoke();
    stage.reconnect();
    stage.await_no_server();
    stage.connect().unwrap().query("SELECT 1").unwrap();
    assert_eq!(metadata.issued.lock().unwrap().len(), 2, "no client has seen that the first one was refused");
    refuses_all.store(true, Ordering::Relaxed);
    stage.reconnect();
    stage.await_no_server();
    let error = stage.error();
    let about = format!("LDAP authentication failed for user \"{USER}\" (google: the token of {address}, made at ");
    assert!(error.contains(&about) && error.contains("is valid for 3600 s)"), "{error}");
    assert!(!error.contains("hush"), "{error}");
}

#[test]
fn a_signature_of_aws_reaches_the_server_whole_and_names_its_host_and_user() {
    let seen = Arc::new(Mutex::new(String::new()));
    let last = seen.clone();
    let directory = directory::start(move |token| {
        last.lock().unwrap().replace_range(.., token);
        token.contains("&X-Amz-Signature=")
    });
    let session = "S".repeat(1500);
    let env =
        [("AWS_ACCESS_KEY_ID", "ASIAEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hush"), ("AWS_SESSION_TOKEN", &*session)];
    let stage = Stage::new(directory, "[\"aws-iam\", \"region=eu-central-1\"]", &env);
    stage.connect().unwrap().query("SELECT 1").unwrap();
    let token = seen.lock().unwrap().clone();
    assert!(token.starts_with("127.0.0.1:") && token.contains("/?Action=connect&DBUser=tokener&"), "{token}");
    assert!(token.contains("ASIAEXAMPLE%2F") && token.contains(&session), "{token}");
    let (text, is_content) = stage.check(&env);
    assert!(is_content, "{text}");
    let (text, is_content) = stage.check(&[("AWS_EC2_METADATA_DISABLED", "true"), ("HOME", "/nonexistent")]);
    assert!(!is_content && text.contains("password_source failed: aws-iam: no credentials were found"), "{text}");
    assert!(!stage.site.weir().log().contains("hush"));
}
