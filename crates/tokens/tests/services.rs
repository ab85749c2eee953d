//! Each service against a server that speaks its HTTP: what is asked, what is kept, and what a failure is called.

mod server;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_base::{Host, Target};
use weir_config::{TokenService, TokenSource, Vault};
use weir_tokens::{ClockReading, Outside, Tokens};

use server::{Reply, Request, Server};

const HOST: &str = "mydb.abc123.eu-central-1.rds.amazonaws.com";

/// Tokens of an environment and a clock of its own.
struct Stage {
    tokens: Tokens,
    clock: Arc<Mutex<ClockReading>>,
    folder: PathBuf,
}

impl Stage {
    fn new(name: &str, variables: &[(&str, &str)]) -> Stage {
        let folder = std::env::temp_dir().join(format!("weir-tokens-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let home = ("HOME".to_owned(), folder.to_str().unwrap().to_owned());
        let own = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let variables: HashMap<String, String> = own.chain([home]).collect();
        let clock = Arc::new(Mutex::new(ClockReading::now()));
        let read = clock.clone();
        let outside = Outside::with(move |name| variables.get(name).cloned(), move || *read.lock().unwrap());
        Stage { tokens: Tokens::new(outside), clock, folder }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Time passes.
    fn pass(&self, seconds: u64) {
        let mut clock = self.clock.lock().unwrap();
        let time = Duration::from_secs(seconds);
        *clock = ClockReading { steady: clock.steady + time, calendar: clock.calendar + time };
    }

    /// The calendar's clock is set.
    fn jump(&self, seconds: i64) {
        let mut clock = self.clock.lock().unwrap();
        let time = Duration::from_secs(seconds.unsigned_abs());
        clock.calendar = if seconds < 0 { clock.calendar - time } else { clock.calendar + time };
    }

    /// The time after so many seconds, as AWS writes it.
    fn after(&self, seconds: u64) -> String {
        weir_config::moment_text(self.seconds() + seconds)
    }

    fn seconds(&self) -> u64 {
        let now = self.clock.lock().unwrap().calendar;
        now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
    }

    fn get(&self, service: &TokenService, refused: Option<&str>) -> Result<(String, bool), String> {
        let source = TokenSource { user: "app".to_owned(), service: service.clone(), words: Vec::new() };
        let target = Target { host: Host::parse(HOST), port: 5432 };
        self.tokens.get(&source, &target, refused).map(|found| (found.value.password.to_string(), found.is_new))
    }

    /// The token, and why there is no newer one.
    fn overdue(&self, service: &TokenService) -> Result<(String, Option<String>), String> {
        let source = TokenSource { user: "app".to_owned(), service: service.clone(), words: Vec::new() };
        let target = Target { host: Host::parse(HOST), port: 5432 };
        self.tokens.get(&source, &target, None).map(|found| (found.value.password.to_string(), found.overdue))
    }

    fn token(&self, service: &TokenService) -> String {
        self.get(service, None).unwrap().0
    }

    fn error(&self, service: &TokenService) -> String {
        self.get(service, None).unwrap_err()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn aws() -> TokenService {
    TokenService::Aws { region: None, profile: None }
}

fn azure() -> TokenService {
    TokenService::Azure { client_id: None, resource: None }
}

fn vault(path: &str, server: &Server) -> Vault {
    Vault {
        path: path.to_owned(),
        field: "password".to_owned(),
        address: Some(server.url.clone()),
        ca_file: None,
        namespace: None,
        token_file: None,
        role: None,
        mount: "kubernetes".to_owned(),
        jwt_file: None,
    }
}

/// An address at which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[test]
fn aws_signs_with_the_credentials_of_the_environment_before_all_others() {
    let stage = Stage::new("env", &[("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "hush")]);
    let token = stage.token(&aws());
    assert!(token.starts_with(&format!("{HOST}:5432/?Action=connect&DBUser=app&X-Amz-Algorithm=AWS4")), "{token}");
    assert!(token.contains("AKIDEXAMPLE%2F") && token.contains("%2Feu-central-1%2Frds-db%2F"), "{token}");
    // It counts for 15 minutes, less a margin.
    stage.pass(700);
    assert_eq!(stage.get(&aws(), None), Ok((token.clone(), false)));
    stage.pass(30);
    let (newer, is_new) = stage.get(&aws(), None).unwrap();
    assert!(is_new && newer != token);
    // A clock that was set makes all tokens doubtful.
    stage.jump(-3600);
    let (other, is_new) = stage.get(&aws(), None).unwrap();
    assert!(is_new && other != newer);
    let region = TokenService::Aws { region: Some("us-east-1".to_owned()), profile: None };
    assert!(stage.token(&region).contains("%2Fus-east-1%2Frds-db%2F"));
}

#[test]
fn aws_reads_the_profile_from_the_shared_files() {
    let stage = Stage::new("profile", &[("AWS_EC2_METADATA_DISABLED", "true")]);
    let profile = |name: &str| TokenService::Aws { region: None, profile: Some(name.to_owned()) };
    assert!(stage.error(&aws()).contains("no credentials were found"), "{}", stage.error(&aws()));
    stage.file(".aws/credentials", "[default]\naws_access_key_id = AKIDONE\naws_secret_access_key = hush\n");
    stage.file(
        ".aws/config",
        "[profile db]\naws_access_key_id=AKIDTWO\naws_secret_access_key=hush\naws_session_token=s/x\n",
    );
    assert!(stage.token(&aws()).contains("AKIDONE%2F"));
    let token = stage.token(&profile("db"));
    assert!(token.contains("AKIDTWO%2F") && token.contains("X-Amz-Security-Token=s%2Fx"), "{token}");
    let error = stage.error(&profile("other"));
    assert!(error.starts_with("aws-iam: profile other has no aws_access_key_id"), "{error}");
}

#[test]
fn aws_takes_a_role_for_a_web_identity_and_names_a_refusal_of_sts() {
    let stage_end = Arc::new(Mutex::new(String::new()));
    let end = stage_end.clone();
    let server = Server::start(move |request: &Request| {
        let form = request.form();
        assert_eq!((request.method.as_str(), form["Action"].as_str()), ("POST", "AssumeRoleWithWebIdentity"));
        match form["WebIdentityToken"].as_str() {
            "old" => Reply(
                400,
                "<ErrorResponse><Error><Code>ExpiredTokenException</Code><Message>Token old has expired</Message></Error>\
                 </ErrorResponse>"
                    .to_owned(),
            ),
            _ => Reply(
                200,
                format!(
                    "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>ASIA{}</AccessKeyId>\
                     <SecretAccessKey>hush</SecretAccessKey><SessionToken>a&amp;b=</SessionToken><Expiration>{}</Expiration>\
                     </Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>",
                    request.number,
                    end.lock().unwrap()
                ),
            ),
        }
    });
    let folder = std::env::temp_dir().join(format!("weir-tokens-web-{}", std::process::id()));
    let file = folder.join("jwt");
    let stage = Stage::new(
        "web",
        &[
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/db"),
            ("AWS_WEB_IDENTITY_TOKEN_FILE", file.to_str().unwrap()),
            ("AWS_ENDPOINT_URL_STS", &server.url),
        ],
    );
    let error = stage.error(&aws());
    assert!(error.starts_with("aws-iam: the token file ") && error.contains("can't be read"), "{error}");
    stage.file("jwt", "old\n");
    let error = stage.error(&aws());
    let expected =
        format!("aws-iam: AWS STS at {} answered 400: ExpiredTokenException: Token *** has expired", server.url);
    assert_eq!(error, expected);
    // The file is read again.
    stage.file("jwt", "new\n");
    *stage_end.lock().unwrap() = stage.after(600);
    let token = stage.token(&aws());
    assert!(token.contains("ASIA2%2F") && token.contains("X-Amz-Security-Token=a%26b%3D"), "{token}");
    // A token counts no longer than its credentials, and credentials are kept.
    stage.pass(400);
    assert_eq!(stage.token(&aws()), token);
    stage.pass(90);
    *stage_end.lock().unwrap() = stage.after(3600);
    assert!(stage.token(&aws()).contains("ASIA3%2F"));
    // A signature that a server refuses is made with other credentials.
    let refused = stage.token(&aws());
    assert!(stage.get(&aws(), Some(&refused)).unwrap().0.contains("ASIA4%2F"));
    // By a clock that is wrong other credentials have expired: the present token counts until its end.
    let present = stage.token(&aws());
    stage.jump(86_400);
    let (token, overdue) = stage.overdue(&aws()).unwrap();
    let overdue = overdue.unwrap_or_default();
    assert!(
        token == present && overdue.contains("expired at") && overdue.contains("clock: is that right?"),
        "{overdue}"
    );
    stage.pass(900);
    let error = stage.error(&aws());
    assert!(error.contains("expired at") && error.ends_with("clock: is that right?"), "{error}");
}

#[test]
fn aws_asks_a_containers_endpoint_with_the_token_of_the_file() {
    let server = Server::start(|request: &Request| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/v1/credentials"));
        match request.header("authorization") {
            Some("pod-token") => Reply(
                200,
                r#"{"AccessKeyId":"ASIAPOD","SecretAccessKey":"hush","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#
                    .to_owned(),
            ),
            _ => Reply(403, r#"{"message":"pod-tokem is not known"}"#.to_owned()),
        }
    });
    let folder = std::env::temp_dir().join(format!("weir-tokens-pod-{}", std::process::id()));
    let file = folder.join("token");
    let url = format!("{}/v1/credentials", server.url);
    let stage = Stage::new(
        "pod",
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.to_str().unwrap()),
        ],
    );
    stage.file("token", "pod-tokem");
    let error = stage.error(&aws());
    assert_eq!(error, format!("aws-iam: the container's endpoint at {} answered 403: *** is not known", server.url));
    stage.file("token", "pod-token");
    assert!(stage.token(&aws()).contains("ASIAPOD%2F"));
    let elsewhere = Stage::new("else", &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/x")]);
    let error = elsewhere.error(&aws());
    assert!(error.contains("is neither https nor a host of this machine: http://example.com"), "{error}");
}

#[test]
fn aws_asks_the_instance_by_version_2_of_its_metadata_service() {
    let server = Server::start(|request: &Request| {
        if request.path == "/latest/api/token" {
            assert_eq!(request.method, "PUT");
            assert!(request.header("x-aws-ec2-metadata-token-ttl-seconds").is_some());
            return Reply(200, "session".to_owned());
        }
        match (request.header("x-aws-ec2-metadata-token"), request.path.as_str()) {
            (Some("session"), "/latest/meta-data/iam/security-credentials/") => Reply(200, "weir-role\n".to_owned()),
            (Some("session"), "/latest/meta-data/iam/security-credentials/weir-role") => Reply(
                200,
                r#"{"Code":"Success","AccessKeyId":"ASIAEC2","SecretAccessKey":"hush","Token":"t","Expiration":"2999-01-01T00:00:00Z"}"#
                    .to_owned(),
            ),
            _ => Reply(401, String::new()),
        }
    });
    let stage = Stage::new("imds", &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &server.url)]);
    assert!(stage.token(&aws()).contains("ASIAEC2%2F"));
    let away = nobody();
    let stage = Stage::new("noimds", &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &away)]);
    let error = stage.error(&aws());
    let expected = format!("; the instance's metadata service at {away} is unreachable: ");
    assert!(error.starts_with("aws-iam: no credentials were found: ") && error.contains(&expected), "{error}");
    assert!(error.contains("Connection refused"), "{error}");
}

#[test]
fn azure_asks_the_metadata_service_and_keeps_the_token_until_shortly_before_it_expires() {
    let server = Server::start(|request: &Request| {
        assert_eq!(request.header("metadata"), Some("true"));
        let query = request.query();
        assert_eq!(query["api-version"], "2018-02-01");
        assert_eq!(query["resource"], "https://ossrdbms-aad.database.windows.net");
        match query.get("client_id").map(String::as_str) {
            Some("nobody") => {
                Reply(400, r#"{"error":"invalid_request","error_description":"Identity not found"}"#.to_owned())
            }
            Some("early") => {
                Reply(200, r#"{"access_token":"eyJ-early","expires_in":"1000","not_before":"32472144000"}"#.to_owned())
            }
            _ => Reply(
                200,
                format!(r#"{{"access_token":"eyJ-{}","expires_in":"1000","not_before":"1"}}"#, request.number),
            ),
        }
    });
    let stage = Stage::new("azure", &[("AZURE_POD_IDENTITY_AUTHORITY_HOST", &server.url)]);
    assert_eq!(stage.get(&azure(), None), Ok(("eyJ-1".to_owned(), true)));
    stage.pass(799);
    assert_eq!(stage.get(&azure(), None), Ok(("eyJ-1".to_owned(), false)));
    stage.pass(1);
    assert_eq!(stage.token(&azure()), "eyJ-2");
    // Its time to live does not depend on this machine's clock, whatever that says.
    stage.jump(-86_400);
    assert_eq!(stage.token(&azure()), "eyJ-3");
    assert_eq!(stage.token(&azure()), "eyJ-3");
    let other = TokenService::Azure { client_id: Some("nobody".to_owned()), resource: None };
    let expected = format!("azure: the metadata service at {} answered 400: Identity not found", server.url);
    assert_eq!(stage.error(&other), expected);
    let service = TokenService::Azure { client_id: Some("early".to_owned()), resource: None };
    let source = TokenSource { user: "app".to_owned(), service, words: Vec::new() };
    let early = stage.tokens.get(&source, &Target { host: Host::parse("h"), port: 1 }, None);
    let about = early.map(|found| found.value.about).unwrap_or_default();
    assert!(
        about.contains(" not valid before 2999-01-01T00:00:00Z, "),
        "a server that refuses it is no riddle: {about}"
    );
}

#[test]
fn azure_exchanges_the_token_of_a_federated_workload_and_asks_an_identity_endpoint() {
    let server = Server::start(|request: &Request| {
        if request.path == "/msi/token" {
            assert_eq!(request.header("x-identity-header"), Some("hush"));
            return Reply(200, r#"{"access_token":"eyJ-app","expires_on":"32472144000"}"#.to_owned());
        }
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/tenant-1/oauth2/v2.0/token"));
        let form = request.form();
        assert_eq!((form["client_id"].as_str(), form["grant_type"].as_str()), ("client-1", "client_credentials"));
        assert_eq!(form["scope"], "https://ossrdbms-aad.database.windows.net/.default");
        match form["client_assertion"].as_str() {
            "jwt" => Reply(200, r#"{"access_token":"eyJ-pod","expires_in":3599}"#.to_owned()),
            _ => Reply(
                401,
                r#"{"error":"invalid_client","error_description":"AADSTS700024: Client assertion is not within its valid time range."}"#
                    .to_owned(),
            ),
        }
    });
    let folder = std::env::temp_dir().join(format!("weir-tokens-federated-{}", std::process::id()));
    let file = folder.join("jwt");
    let stage = Stage::new(
        "federated",
        &[
            ("AZURE_FEDERATED_TOKEN_FILE", file.to_str().unwrap()),
            ("AZURE_CLIENT_ID", "client-1"),
            ("AZURE_TENANT_ID", "tenant-1"),
            ("AZURE_AUTHORITY_HOST", &server.url),
        ],
    );
    stage.file("jwt", "not valid yet");
    let error = stage.error(&azure());
    assert!(
        error.ends_with("answered 401: AADSTS700024: Client assertion is not within its valid time range."),
        "{error}"
    );
    stage.file("jwt", "jwt");
    assert_eq!(stage.token(&azure()), "eyJ-pod");
    let endpoint = format!("{}/msi/token", server.url);
    let stage = Stage::new("msi", &[("IDENTITY_ENDPOINT", &endpoint), ("IDENTITY_HEADER", "hush")]);
    assert_eq!(stage.token(&azure()), "eyJ-app");
    let late = stage.seconds();
    stage.jump(i64::try_from(32_472_144_000 - late).unwrap() + 5);
    assert_eq!(stage.get(&azure(), None), Ok(("eyJ-app".to_owned(), true)), "a clock that is wrong locks nobody out");
    stage.pass(47);
    assert_eq!(stage.get(&azure(), None), Ok(("eyJ-app".to_owned(), false)));
    stage.pass(1);
    assert_eq!(stage.get(&azure(), None), Ok(("eyJ-app".to_owned(), true)), "it is kept for a minute only");
}

#[test]
fn google_asks_the_metadata_server_for_the_machines_account_or_another_one() {
    let server = Server::start(|request: &Request| {
        assert_eq!(request.header("metadata-flavor"), Some("Google"));
        match request.path.as_str() {
            "/computeMetadata/v1/instance/service-accounts/default/token" => {
                Reply(200, r#"{"access_token":"ya29.x","expires_in":3599,"token_type":"Bearer"}"#.to_owned())
            }
            "/computeMetadata/v1/instance/service-accounts/a%40b.iam/token" => {
                Reply(200, r#"{"access_token":"","expires_in":3599}"#.to_owned())
            }
            _ => Reply(404, "<!DOCTYPE html><html>long</html>".to_owned()),
        }
    });
    let host = server.url.trim_start_matches("http://").to_owned();
    let stage = Stage::new("google", &[("GCE_METADATA_HOST", &host)]);
    let account = |name: Option<&str>| TokenService::Google { account: name.map(str::to_owned) };
    assert_eq!(stage.token(&account(None)), "ya29.x");
    let error = stage.error(&account(Some("a@b.iam")));
    let expected =
        format!("google: the answer of the metadata server at {} can't be used: it has no access_token", server.url);
    assert_eq!(error, expected);
    let error = stage.error(&account(Some("other")));
    assert_eq!(error, format!("google: the metadata server at {} answered 404", server.url));
}

#[test]
fn vault_reads_secrets_of_kv_and_of_static_roles_for_the_pools_user_alone() {
    let server = Server::start(|request: &Request| {
        if request.header("x-vault-token") != Some("s.good") {
            return Reply(403, r#"{"errors":["permission denied for s.bad"]}"#.to_owned());
        }
        let number = request.number;
        match request.path.as_str() {
            "/v1/secret/data/app" => {
                assert_eq!(request.header("x-vault-namespace"), Some("team"));
                Reply(
                    200,
                    format!(
                        r#"{{"data":{{"data":{{"pw":"two-{number}"}},"metadata":{{"version":2}}}},"lease_duration":0}}"#
                    ),
                )
            }
            "/v1/kv/app" => Reply(200, r#"{"data":{"password":"one"},"lease_duration":2764800}"#.to_owned()),
            "/v1/database/static-creds/app" => Reply(
                200,
                format!(r#"{{"data":{{"username":"app","password":"st-{number}","ttl":20,"rotation_period":60}}}}"#),
            ),
            "/v1/database/static-creds/other" => {
                Reply(200, r#"{"data":{"username":"v-other-x","password":"hush"}}"#.to_owned())
            }
            _ => Reply(404, r#"{"errors":[]}"#.to_owned()),
        }
    });
    let folder = std::env::temp_dir().join(format!("weir-tokens-vault-{}", std::process::id()));
    let stage = Stage::new("vault", &[("VAULT_NAMESPACE", "team")]);
    let of = |path: &str, file: Option<&Path>| {
        let token_file = file.map(Path::to_owned);
        TokenService::Vault(Vault { token_file, ..vault(path, &server) })
    };
    let error = stage.error(&of("kv/app", None));
    assert!(error.starts_with("vault: there is no token for Vault: "), "{error}");
    stage.file(".vault-token", "s.bad\n");
    let error = stage.error(&of("kv/app", None));
    assert_eq!(error, format!("vault: Vault at {} answered 403: permission denied for *** (for kv/app)", server.url));
    stage.file(".vault-token", "s.good\n");
    let file = stage.file("sink", "s.good");
    assert_eq!(file, folder.join("sink"));
    assert_eq!(stage.token(&of("kv/app", Some(&file))), "one");
    let second = TokenService::Vault(Vault { field: "pw".to_owned(), ..vault("secret/data/app", &server) });
    assert!(stage.token(&second).starts_with("two-"));
    // A secret without an end is read again after five minutes, a static role's when it rotates.
    let of_role = of("database/static-creds/app", None);
    let (before, role) = (stage.token(&second), stage.token(&of_role));
    stage.pass(19);
    assert_eq!((stage.token(&second), stage.token(&of_role)), (before.clone(), role.clone()));
    stage.pass(1);
    assert_eq!(stage.token(&second), before);
    assert_ne!(stage.token(&of_role), role);
    stage.pass(300);
    assert_ne!(stage.token(&second), before);
    let error = stage.error(&of("database/static-creds/other", None));
    assert!(error.contains("is for another user than the pool's, app; a pool has one user"), "{error}");
    assert!(!error.contains("hush") && !error.contains("v-other-x"), "{error}");
    let error = stage.error(&of("kv/none", None));
    assert!(error.ends_with("answered 404: there is no secret at kv/none"), "{error}");
    let error = stage.error(&TokenService::Vault(Vault { field: "pass".to_owned(), ..vault("kv/app", &server) }));
    assert!(error.ends_with("can't be used: it has no field pass"), "{error}");
}

#[test]
fn vault_is_logged_in_to_with_the_pods_account_and_once_more_when_its_token_was_revoked() {
    let revoked = Arc::new(Mutex::new(Vec::<String>::new()));
    let away = revoked.clone();
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        "/v1/auth/k8s/login" => match request.body.as_str() {
            r#"{"jwt":"pod","role":"weir"}"# => {
                Reply(200, format!(r#"{{"auth":{{"client_token":"s.{}","lease_duration":100}}}}"#, request.number))
            }
            other => Reply(403, format!(r#"{{"errors":["{}"]}}"#, other.replace('"', "'"))),
        },
        _ => {
            let token = request.header("x-vault-token").unwrap().to_owned();
            match away.lock().unwrap().contains(&token) {
                true => Reply(403, r#"{"errors":["permission denied"]}"#.to_owned()),
                false => Reply(200, format!(r#"{{"data":{{"password":"{token}","ttl":1}}}}"#)),
            }
        }
    });
    let stage = Stage::new("k8s", &[]);
    let jwt_file = Some(stage.file("jwt", "pod"));
    let (role, mount) = (Some("weir".to_owned()), "k8s".to_owned());
    let secret = Vault { role, mount, jwt_file, ..vault("database/static-creds/app", &server) };
    let other = TokenService::Vault(Vault { path: "database/static-creds/other".to_owned(), ..secret.clone() });
    let service = TokenService::Vault(secret);
    assert_eq!((stage.token(&service), stage.token(&other)), ("s.1".to_owned(), "s.1".to_owned()));
    stage.pass(10);
    assert_eq!(stage.token(&service), "s.1", "the login is kept");
    revoked.lock().unwrap().push("s.1".to_owned());
    stage.pass(10);
    assert_eq!(stage.token(&service), "s.6");
    stage.pass(90);
    assert_eq!(stage.token(&service), "s.8", "a newer login, before the old one expires");
    stage.file("jwt", "other");
    stage.pass(100);
    let error = stage.error(&service);
    assert!(error.contains("answered 403: {'jwt':'***','role':'weir'}"), "{error}");
}

#[test]
fn while_a_service_is_away_the_present_token_counts_until_it_expires_and_the_log_says_why() {
    let away = Arc::new(Mutex::new(false));
    let is_away = away.clone();
    let server = Server::start(move |request: &Request| match *is_away.lock().unwrap() {
        true => Reply(503, "overloaded".to_owned()),
        false => Reply(200, format!(r#"{{"access_token":"t{}","expires_in":100}}"#, request.number)),
    });
    let host = server.url.trim_start_matches("http://").to_owned();
    let stage = Stage::new("away", &[("GCE_METADATA_HOST", &host)]);
    let source =
        TokenSource { user: "app".to_owned(), service: TokenService::Google { account: None }, words: Vec::new() };
    let target = Target { host: Host::parse("h"), port: 1 };
    let get =
        || stage.tokens.get(&source, &target, None).map(|found| (found.value.password.to_string(), found.overdue));
    assert_eq!(get(), Ok(("t1".to_owned(), None)));
    *away.lock().unwrap() = true;
    stage.pass(85);
    let why = format!(
        "google: the metadata server at {} answered 503: overloaded; the present token counts until it expires",
        server.url
    );
    assert_eq!(get(), Ok(("t1".to_owned(), Some(why))));
    stage.pass(15);
    assert!(get().unwrap_err().ends_with("answered 503: overloaded"));
    *away.lock().unwrap() = false;
    assert_eq!(get().unwrap().0, "t4");
}

#[test]
fn an_answer_is_bounded_in_bytes_and_in_time() {
    let server = Server::start(|request: &Request| match request.path.ends_with("big/token") {
        true => Reply(200, "x".repeat(100_000)),
        false => {
            std::thread::sleep(Duration::from_secs(6));
            Reply(200, String::new())
        }
    });
    let host = server.url.trim_start_matches("http://").to_owned();
    let stage = Stage::new("bounds", &[("GCE_METADATA_HOST", &host)]);
    let account = |name: &str| TokenService::Google { account: Some(name.to_owned()) };
    let error = stage.error(&account("big"));
    assert!(error.ends_with("is unreachable: the answer is larger than 64 KiB"), "{error}");
    let begun = Instant::now();
    let error = stage.error(&account("slow"));
    assert!(error.ends_with("is unreachable: no complete answer within 4 s"), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
}

/// The metadata server of Google, and its answers one after the other; a token counts for 100 s.
fn answers(name: &str, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> (Stage, TokenService) {
    let server = Server::start(answer);
    let host = server.url.trim_start_matches("http://").to_owned();
    (Stage::new(name, &[("GCE_METADATA_HOST", &host)]), TokenService::Google { account: None })
}

#[test]
fn nothing_of_an_answer_that_is_no_refusal_is_in_an_error() {
    const BODIES: [&str; 9] = [
        "hush",
        "\"hush\"",
        "[\"hush\"]",
        r#"{"error":"hush"}"#,
        r#"{"access_token":{"hush":1},"expires_in":100}"#,
        r#"{"access_token":"hush"}"#,
        r#"{"access_token":"hush","expires_in":0}"#,
        "{\"access_token\":\"hush\\nhush\",\"expires_in\":9}",
        r#"{"access_token":"hush","expires_in":[]}"#,
    ];
    let wanted = Arc::new(Mutex::new((200, "")));
    let next = wanted.clone();
    let (stage, google) = answers("quiet", move |_| {
        let (status, body) = *next.lock().unwrap();
        Reply(status, body.to_owned())
    });
    for (status, body) in [200, 201, 302].into_iter().flat_map(|status| BODIES.map(|body| (status, body))) {
        *wanted.lock().unwrap() = (status, body);
        let error = stage.error(&google);
        assert!(!error.contains("hush"), "{status} {body}: {error}");
    }
}

#[test]
fn a_username_in_vault_may_be_of_any_type_and_only_the_pools_user_is_accepted() {
    let name = Arc::new(Mutex::new(String::new()));
    let next = name.clone();
    let server = Server::start(move |_| {
        Reply(200, format!(r#"{{"data":{{"username":{},"password":"hush"}}}}"#, next.lock().unwrap()))
    });
    let stage = Stage::new("names", &[("VAULT_TOKEN", "t")]);
    let get = |user: &str, written: &str| {
        written.clone_into(&mut name.lock().unwrap());
        // Another path is another secret.
        let service = TokenService::Vault(vault(&format!("kv/{user}/{}", written.len()), &server));
        let source = TokenSource { user: user.to_owned(), service, words: vec![written.to_owned()] };
        let target = Target { host: Host::parse(HOST), port: 5432 };
        stage.tokens.get(&source, &target, None).map(|found| found.value.password.to_string())
    };
    for (user, written) in [("app", "\"app\""), ("app", "null"), ("17", "17"), ("17", "\"17\"")] {
        assert_eq!(get(user, written).as_deref(), Ok("hush"), "{written}");
    }
    for written in ["\"other\"", "17", "1.5", "true", "[\"app\"]", "{\"app\":1}", "\"\""] {
        let error = get("app", written).unwrap_err();
        assert!(error.contains("is for another user than the pool's, app") && !error.contains("hush"), "{error}");
    }
    let none = Server::start(|_| Reply(200, r#"{"data":["hush"]}"#.to_owned()));
    let error = stage.error(&TokenService::Vault(vault("kv/list", &none)));
    assert!(error.ends_with("it has no field password"), "{error}");
}

#[test]
fn a_password_of_vault_counts_while_vault_is_away_until_its_role_rotates_it_or_its_lease_ends() {
    let away = Arc::new(Mutex::new(false));
    let is_away = away.clone();
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        _ if *is_away.lock().unwrap() => Reply(503, "sealed".to_owned()),
        "/v1/database/static-creds/app" => Reply(200, r#"{"data":{"password":"role","ttl":3600}}"#.to_owned()),
        "/v1/kv/app" => Reply(200, r#"{"data":{"password":"one"},"lease_duration":1800}"#.to_owned()),
        _ => Reply(200, r#"{"data":{"data":{"password":"two"},"metadata":{}},"lease_duration":0}"#.to_owned()),
    });
    let stage = Stage::new("sealed", &[("VAULT_TOKEN", "t")]);
    let [role, first, second] = ["database/static-creds/app", "kv/app", "secret/data/app"]
        .map(|path| TokenService::Vault(vault(path, &server)));
    for service in [&role, &first, &second] {
        stage.token(service);
    }
    *away.lock().unwrap() = true;
    stage.pass(1799);
    let why = "answered 503: sealed";
    for (service, password) in [(&role, "role"), (&first, "one"), (&second, "two")] {
        let (token, overdue) = stage.overdue(service).unwrap();
        assert!(token == password && overdue.as_deref().unwrap_or_default().contains(why), "{overdue:?}");
    }
    stage.pass(1);
    assert!(stage.error(&first).contains(why), "its lease has ended");
    assert_eq!(stage.token(&role), "role");
    stage.pass(1800);
    assert!(stage.error(&role).contains(why), "it has been rotated");
    stage.pass(20 * 86_400);
    assert_eq!(stage.token(&second), "two", "it has no end");
}

#[test]
fn the_refusals_of_one_server_leave_other_servers_their_token_and_ask_the_service_once_in_a_pause() {
    let (number, away) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(false)));
    let (count, is_away) = (number.clone(), away.clone());
    let (stage, google) = answers("refusals", move |request| {
        *count.lock().unwrap() += 1;
        match *is_away.lock().unwrap() {
            true => Reply(503, "overloaded".to_owned()),
            false => Reply(200, format!(r#"{{"access_token":"t{}","expires_in":1000}}"#, request.number)),
        }
    });
    assert_eq!(stage.token(&google), "t1");
    assert_eq!(stage.get(&google, Some("t1")), Ok(("t2".to_owned(), true)));
    for _ in 0..20 {
        assert_eq!(stage.get(&google, Some("t2")), Ok(("t2".to_owned(), true)), "another one would not help");
        assert_eq!(stage.get(&google, None), Ok(("t2".to_owned(), false)));
    }
    assert_eq!(*number.lock().unwrap(), 2);
    *away.lock().unwrap() = true;
    stage.pass(5);
    for _ in 0..20 {
        assert!(stage.get(&google, Some("t2")).unwrap_err().contains("overloaded"));
        assert_eq!(stage.get(&google, None), Ok(("t2".to_owned(), false)), "it is valid elsewhere");
    }
    assert_eq!(*number.lock().unwrap(), 3);
}

#[test]
fn a_clock_that_jumps_an_hour_locks_nobody_out_of_any_service() {
    let away = Arc::new(Mutex::new(false));
    let is_away = away.clone();
    let server = Server::start(move |request: &Request| match request.path.as_str() {
        _ if *is_away.lock().unwrap() => Reply(503, String::new()),
        path if path.starts_with("/v1/") => Reply(200, r#"{"data":{"password":"p"}}"#.to_owned()),
        path if path.contains("service-accounts") => Reply(200, r#"{"access_token":"g","expires_in":3599}"#.to_owned()),
        _ => Reply(200, r#"{"access_token":"a","expires_in":3599}"#.to_owned()),
    });
    let host = server.url.trim_start_matches("http://").to_owned();
    let variables = [
        ("AZURE_POD_IDENTITY_AUTHORITY_HOST", &*server.url),
        ("GCE_METADATA_HOST", &*host),
        ("VAULT_TOKEN", "t"),
        ("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "hush"),
    ];
    let services =
        [azure(), TokenService::Google { account: None }, TokenService::Vault(vault("kv/a", &server)), aws()];
    for by in [3600, -3600, 3600 * 24] {
        *away.lock().unwrap() = false;
        let stage = Stage::new(&format!("hour{by}"), &variables);
        services.iter().for_each(|service| drop(stage.token(service)));
        *away.lock().unwrap() = true;
        stage.jump(by);
        services.iter().for_each(|service| drop(stage.get(service, None).unwrap_or_else(|why| panic!("{by}: {why}"))));
        // And back.
        stage.jump(-by);
        services.iter().for_each(|service| drop(stage.get(service, None).unwrap_or_else(|why| panic!("{by}: {why}"))));
    }
}
