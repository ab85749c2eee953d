//! Passwords for logins at servers that a program or a service makes: what clients and the log get to know of them.

use std::sync::Arc;

use weir_base::{ConnId, Span};
use weir_config::{Config, PoolConfig, TokenService, TokenSource};
use weir_engine::port::{Input, PrintedPassword, WorkResult};
use weir_pgwire::{ErrorFields, put_back};

use crate::common::*;

const ABOUT: &str = "google: the token of metadata, is valid for 60 s";
const OVERDUE: &str = "password_source failed: google: the metadata server is away";

/// A pool that gets tokens.
fn with_tokens() -> Config {
    let mut config = config(2);
    let mut pool = PoolConfig::clone(&config.pools["db"]);
    let service = TokenService::Google { account: None };
    pool.token_source =
        Some(Arc::new(TokenSource { user: "ann".to_owned(), service, words: vec!["google".to_owned()] }));
    pool.user = Some("ann".to_owned());
    pool.password = None;
    pool.policy.require_auth = weir_auth::RequireAuth::Any;
    config.pools.insert("db".into(), Arc::new(pool));
    config
}

/// The next login at a server gets this token, which the server refuses.
fn refused(world: &mut World, token: &str, is_new: bool, overdue: Option<&str>) -> ConnId {
    let server = world.connecting().expect("a server is requested");
    world.input(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
    let job = world.requested_help().expect("a token is requested");
    let overdue = overdue.map(str::to_owned);
    let made = PrintedPassword { password: token.into(), is_new, about: Some(ABOUT.into()), overdue };
    world.input(Input::JobDone { job, result: WorkResult::Password(Ok(made)) });
    let (severity, sqlstate, message) = ("FATAL", "28P01", "password authentication failed");
    let mut bytes = Vec::new();
    put_back::error(&mut bytes, &ErrorFields { severity, sqlstate, message, detail: None, hint: None });
    world.bytes(server, &bytes);
    server
}

#[test]
fn a_refused_token_of_before_is_replaced_unseen_and_the_error_of_a_new_one_says_when_it_is_valid() {
    let mut world = World::new(with_tokens());
    world.port.logged = Some(Vec::new());
    let client = world.arrival("ann", "db");
    refused(&mut world, "hush-1", false, Some(OVERDUE));
    assert!(world.is_open(client) && !says(&world.received(client), "authentication failed"));
    for _ in 0..20 {
        if !world.servers().is_empty() {
            break;
        }
        world.pass(Span::from_millis(200));
    }
    refused(&mut world, "hush-2", true, None);
    let expected = format!("password authentication failed ({ABOUT})");
    let error = world.received(client);
    assert!(says(&error, &expected), "{}", String::from_utf8_lossy(&error));
    let lines = world.port.logged.take().unwrap();
    assert!(lines.iter().any(|line| line.contains(OVERDUE)), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains(&expected)), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("hush")), "{lines:#?}");
}
