//! tokio-postgres: statements, pipelines, portals, COPY, cancel tokens, notices and notifications.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, TryStreamExt, future, stream};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use weir_driver_checks::{KILL_OTHERS, Outcome, Report, each, env, eventually, locked, none, same, session_only};

fn config() -> Config {
    let mut config = Config::new();
    config.host(env("HOST")).port(env("PORT").parse().unwrap()).dbname(env("DATABASE"));
    config.user(env("USER_NAME")).password(env("PASSWORD"));
    config
}

async fn connect() -> Result<Client, Error> {
    connect_with(&config()).await
}

async fn connect_with(config: &Config) -> Result<Client, Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn table() -> String {
    format!("tokio_{}", env("MODE"))
}

fn state<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => "no error".into(),
        Err(error) => error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned()),
    }
}

async fn number(client: &Client, sql: &str, value: i32) -> Result<i32, Error> {
    client.query_one(sql, &[&value]).await.map(|row| row.get(0))
}

async fn text(client: &Client, sql: &str) -> Result<String, Error> {
    client.query_one(sql, &[]).await.map(|row| row.get(0))
}

async fn usable(client: &Client) -> Outcome {
    same(number(client, "SELECT $1::int4 + 1", 41).await?, 42)
}

async fn anew(client: &Client) -> Outcome {
    let table = table();
    let sql = format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, name text)");
    Ok(client.batch_execute(&sql).await?)
}

fn insert() -> String {
    format!("INSERT INTO {} VALUES ($1, $1::int4::text)", table())
}

async fn count(client: &Client, want: i64) -> Outcome {
    same(client.query_one(&format!("SELECT count(*) FROM {}", table()), &[]).await?.get::<_, i64>(0), want)
}

async fn login() -> Outcome {
    usable(&connect().await?).await
}

async fn wrong_password() -> Outcome {
    same(state(connect_with(config().password("wrong")).await), "28P01")
}

async fn crud() -> Outcome {
    let (client, table) = (connect().await?, table());
    anew(&client).await?;
    for id in 1..=10 {
        same(client.execute(&insert(), &[&id]).await?, 1)?;
    }
    same(client.execute(&format!("UPDATE {table} SET name = $1 WHERE id <= 4"), &[&"y"]).await?, 4)?;
    same(client.execute(&format!("DELETE FROM {table} WHERE id > $1"), &[&7i32]).await?, 3)?;
    count(&client, 7).await
}

async fn types() -> Outcome {
    let sql = "SELECT $1::int8, $2::text, $3::bytea, $4::int4, '2026-02-03 04:05:06.789+00'::timestamptz";
    let row = connect().await?.query_one(sql, &[&(1i64 << 60), &"é😀", &&[0u8, 255][..], &None::<i32>]).await?;
    same((row.get::<_, i64>(0), row.get::<_, &str>(1)), (1i64 << 60, "é😀"))?;
    same((row.get::<_, &[u8]>(2), row.get::<_, Option<i32>>(3)), (&[0u8, 255][..], None))?;
    let when = std::time::UNIX_EPOCH + Duration::from_millis(1_770_091_506_789);
    same(row.get::<_, std::time::SystemTime>(4), when)
}

async fn prepared() -> Outcome {
    let clients = future::try_join_all((0..12).map(|_| connect())).await?;
    let mut statements = Vec::new();
    for client in &clients {
        statements.push(client.prepare("SELECT $1::int4 + 1").await?);
    }
    for round in 0..20 {
        let asked = clients.iter().zip(&statements).map(|(client, statement)| async move {
            client.query_one(statement, &[&round]).await.map(|row| row.get::<_, i32>(0))
        });
        same(future::try_join_all(asked).await?, vec![round + 1; 12])?;
    }
    Ok(())
}

/// A statement is closed when it is dropped.
async fn many_statements() -> Outcome {
    let client = connect().await?;
    let mut kept = Vec::new();
    for n in 0..500 {
        kept.push(client.prepare(&format!("SELECT $1::int4 + {n}")).await?);
        if kept.len() > 250 {
            kept.remove(0);
        }
        same(client.query_one(&kept[0], &[&1i32]).await?.get::<_, i32>(0), 1 + (n - 249).max(0))?;
    }
    Ok(())
}

/// tokio-postgres keeps a statement as long as the program does, which prepares again after an error.
async fn table_changed() -> Outcome {
    let clients = future::try_join_all((0..12).map(|_| connect())).await?;
    anew(&clients[0]).await?;
    clients[0].execute(&insert(), &[&1i32]).await?;
    let sql = format!("SELECT * FROM {}", table());
    let mut statements = Vec::new();
    for client in &clients {
        statements.push(client.prepare(&sql).await?);
    }
    for want in 2..6 {
        for (client, statement) in clients.iter().zip(&mut statements) {
            let got = client.query_one(statement, &[]).await;
            let old = statement.columns().len();
            if got.is_err() || old != want {
                // A server that did not have the statement yet accepts the old one.
                same(want > 2, true)?;
                *statement = client.prepare(&sql).await?;
                client.query_one(statement, &[]).await?;
            }
            same(statement.columns().len(), want)?;
        }
        clients[0].batch_execute(&format!("ALTER TABLE {} ADD COLUMN c{want} int DEFAULT 2", table())).await?;
    }
    Ok(())
}

async fn batch() -> Outcome {
    let client = connect().await?;
    anew(&client).await?;
    let many: String = (0..500).map(|id| format!("INSERT INTO {} VALUES ({id});", table())).collect();
    client.batch_execute(&many).await?;
    count(&client, 500).await
}

async fn pipeline() -> Outcome {
    let client = &connect().await?;
    let statement = &client.prepare("SELECT $1::int4 * 2").await?;
    let asked = (0..300).map(|n: i32| async move {
        let row = if n % 3 == 0 {
            client.query_one("SELECT $1::int4 * 2", &[&n]).await
        } else {
            client.query_one(statement, &[&n]).await
        };
        row.map(|row| row.get::<_, i32>(0))
    });
    same(future::try_join_all(asked).await?, (0..300).map(|n| n * 2).collect::<Vec<_>>())
}

async fn pipeline_error() -> Outcome {
    let client = &connect().await?;
    for _ in 0..5 {
        let asked = (0..50).map(|n: i32| number(client, "SELECT 100 / ($1::int4 % 10)", n));
        for (n, got) in future::join_all(asked).await.into_iter().enumerate() {
            match got {
                Ok(got) => same(got, 100 / (i32::try_from(n)? % 10))?,
                Err(error) => same((n % 10, state::<()>(Err(error))), (0, "22012".to_owned()))?,
            }
        }
        same(state(client.batch_execute("SELECT 1; SELECT 1 / 0; SELECT 2").await), "22012")?;
        let answers = client.simple_query("SELECT 1; SELECT 2").await?;
        same(answers.iter().filter(|answer| matches!(answer, SimpleQueryMessage::Row(_))).count(), 2)?;
    }
    usable(client).await
}

async fn copy_in() -> Outcome {
    let client = connect().await?;
    anew(&client).await?;
    let mut sink = Box::pin(client.copy_in(&format!("COPY {} FROM STDIN", table())).await?);
    let data: String = (0..5000).map(|id| format!("{id}\trow {id}\n")).collect();
    for chunk in data.as_bytes().chunks(1000) {
        sink.send(Bytes::copy_from_slice(chunk)).await?;
    }
    same(sink.as_mut().finish().await?, 5000)?;
    count(&client, 5000).await
}

async fn copy_out() -> Outcome {
    let client = connect().await?;
    let out = client.copy_out("COPY (SELECT generate_series(1, 5000)) TO STDOUT").await?;
    let out: Vec<Bytes> = out.try_collect().await?;
    same(out.concat().ends_with(b"\n4999\n5000\n"), true)?;
    usable(&client).await
}

async fn copy_error() -> Outcome {
    let client = connect().await?;
    anew(&client).await?;
    let sql = format!("COPY {} FROM STDIN", table());
    let mut bad = Box::pin(client.copy_in::<_, Bytes>(&sql).await?);
    bad.send(Bytes::from("1\tx\nno number\ty\n")).await?;
    same(state(bad.as_mut().finish().await), "22P02")?;
    let mut given = Box::pin(client.copy_in::<_, Bytes>(&sql).await?);
    given.send(Bytes::from("1\tx\n")).await?;
    // Dropped without its end: the driver aborts it.
    drop(given);
    count(&client, 0).await
}

async fn cancel() -> Outcome {
    let client = connect().await?;
    for _ in 0..3 {
        let token = client.cancel_token();
        let (slept, cancelled) = future::join(client.batch_execute("SELECT pg_sleep(60)"), async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            token.cancel_query(NoTls).await
        })
        .await;
        cancelled?;
        same(state(slept), "57014")?;
        usable(&client).await?;
    }
    Ok(())
}

/// The driver has no timeout of its own; dropping the future lets the connection finish the query first.
async fn timeout() -> Outcome {
    let client = connect().await?;
    let slept = tokio::time::timeout(Duration::from_millis(300), client.batch_execute("SELECT pg_sleep(1)")).await;
    same(slept.is_err(), true)?;
    usable(&client).await
}

async fn commit() -> Outcome {
    let mut client = connect().await?;
    anew(&client).await?;
    let transaction = client.transaction().await?;
    transaction.execute(&insert(), &[&1i32]).await?;
    transaction.execute(&insert(), &[&2i32]).await?;
    transaction.commit().await?;
    count(&connect().await?, 2).await
}

async fn rollback() -> Outcome {
    let mut client = connect().await?;
    anew(&client).await?;
    let transaction = client.transaction().await?;
    transaction.execute(&insert(), &[&1i32]).await?;
    transaction.rollback().await?;
    let dropped = client.transaction().await?;
    dropped.execute(&insert(), &[&2i32]).await?;
    drop(dropped);
    count(&client, 0).await
}

async fn savepoint() -> Outcome {
    let mut client = connect().await?;
    anew(&client).await?;
    let mut transaction = client.transaction().await?;
    transaction.execute(&insert(), &[&1i32]).await?;
    let inner = transaction.transaction().await?;
    inner.execute(&insert(), &[&2i32]).await?;
    same(state(inner.execute(&insert(), &[&1i32]).await), "23505")?;
    inner.rollback().await?;
    transaction.execute(&insert(), &[&3i32]).await?;
    transaction.commit().await?;
    same(client.query_one(&format!("SELECT sum(id) FROM {}", table()), &[]).await?.get::<_, i64>(0), 4)
}

async fn isolation() -> Outcome {
    let mut client = connect().await?;
    let started = client.build_transaction().isolation_level(IsolationLevel::Serializable).read_only(true).start();
    let transaction = started.await?;
    same(text(transaction.client(), "SHOW transaction_isolation").await?, "serializable")?;
    same(text(transaction.client(), "SHOW transaction_read_only").await?, "on")?;
    transaction.commit().await?;
    same(text(&client, "SHOW transaction_isolation").await?, "read committed")
}

async fn unique_violation() -> Outcome {
    let client = connect().await?;
    anew(&client).await?;
    client.execute(&insert(), &[&1i32]).await?;
    for _ in 0..5 {
        same(state(client.execute(&insert(), &[&1i32]).await), "23505")?;
    }
    count(&client, 1).await
}

async fn syntax_error() -> Outcome {
    let client = connect().await?;
    for _ in 0..5 {
        same(state(client.prepare("SELEC $1").await), "42601")?;
        same(state(client.simple_query("SELEC 1").await), "42601")?;
        usable(&client).await?;
    }
    Ok(())
}

async fn error_in_a_transaction() -> Outcome {
    let mut client = connect().await?;
    let transaction = client.transaction().await?;
    same(state(number(transaction.client(), "SELECT 1 / $1::int4", 0).await), "22012")?;
    for _ in 0..3 {
        same(state(transaction.query_one("SELECT 1", &[]).await), "25P02")?;
    }
    transaction.rollback().await?;
    usable(&client).await
}

async fn cursor() -> Outcome {
    let mut client = connect().await?;
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT generate_series(1, 2000)", &[]).await?;
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 70).await?;
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    transaction.commit().await?;
    same(seen, (1..=2000).collect::<Vec<_>>())
}

async fn large() -> Outcome {
    let value = vec![7u8; 20 << 20];
    let row = connect().await?.query_one("SELECT $1::bytea", &[&value]).await?;
    same(row.get::<_, &[u8]>(0) == value, true)
}

/// A client, and the server's other messages: notices and notifications, until one arrives.
async fn heard(client_does: &str, other_does: &str) -> Result<String, weir_driver_checks::Failure> {
    let (client, mut connection) = config().connect(NoTls).await?;
    let (send, mut receive) = tokio::sync::mpsc::unbounded_channel();
    let mut messages = stream::poll_fn(move |context| connection.poll_message(context));
    tokio::spawn(async move {
        while let Some(Ok(message)) = messages.next().await {
            let _ = send.send(match message {
                AsyncMessage::Notice(notice) => notice.message().to_owned(),
                AsyncMessage::Notification(notification) => notification.payload().to_owned(),
                _ => String::new(),
            });
        }
    });
    client.batch_execute(client_does).await?;
    connect().await?.batch_execute(other_does).await?;
    let heard = tokio::time::timeout(Duration::from_secs(30), receive.recv()).await?;
    Ok(heard.unwrap_or_default())
}

async fn notice() -> Outcome {
    same(heard("DO $$ BEGIN RAISE NOTICE 'hear'; END $$", "").await?, "hear")
}

async fn notify() -> Outcome {
    session_only("LISTEN")?;
    same(heard("LISTEN tokio_news", "NOTIFY tokio_news, 'hear'").await?, "hear")
}

async fn session_state() -> Outcome {
    session_only("a session's state")?;
    let client = connect().await?;
    for sql in ["SET work_mem = '5MB'", "CREATE TEMPORARY TABLE mine (id int)", "SELECT pg_advisory_lock(4711)"] {
        client.batch_execute(sql).await?;
    }
    let memory = "SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there";
    same(text(&client, memory).await?, "5MB")?;
    let locks = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    same(text(&client, locks).await?, "1")
}

async fn startup_parameters() -> Outcome {
    each(3, |worker| async move {
        let zone = ["Asia/Tokyo", "America/Lima", "UTC"][usize::try_from(worker)?];
        let mut config = config();
        config.application_name(format!("rust{worker}")).options(format!("-c TimeZone={zone}"));
        let client = connect_with(&config).await?;
        for _ in 0..20 {
            let both = "SELECT current_setting('application_name') || current_setting('TimeZone')";
            same(text(&client, both).await?, format!("rust{worker}{zone}"))?;
        }
        Ok(())
    })
    .await
}

/// Once within a transaction, then all; the driver has no pool, so the check continues on a new connection.
async fn reconnect() -> Outcome {
    let mut client = connect().await?;
    let transaction = client.transaction().await?;
    let pid: i32 = transaction.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    connect().await?.execute("SELECT pg_terminate_backend($1)", &[&pid]).await?;
    same(usable(transaction.client()).await.is_err(), true)?;
    drop(transaction);
    for _ in 0..3 {
        // If the query runs on a server that is being killed, it is retried like any other.
        eventually(|| async { Ok(connect().await?.batch_execute(KILL_OTHERS).await?) }).await?;
        eventually(|| async { usable(&connect().await?).await }).await?;
    }
    Ok(())
}

async fn many_connections() -> Outcome {
    each(60, |worker| async move {
        let client = connect().await?;
        for round in 0..20 {
            let row = client.query_one("SELECT $1::text", &[&format!("{worker}/{round}")]).await?;
            same(row.get::<_, String>(0), format!("{worker}/{round}"))?;
        }
        Ok(())
    })
    .await
}

async fn tls() -> Outcome {
    let authority = env("TLS_AUTHORITY");
    if authority.is_empty() {
        return none("this PostgreSQL was built without TLS");
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority)?)?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions()?;
    let tls = MakeRustlsConnect::new(tls.with_root_certificates(roots).with_no_client_auth());
    let (client, connection) = config().ssl_mode(SslMode::Require).connect(tls).await?;
    tokio::spawn(connection);
    usable(&client).await
}

async fn run() -> ExitCode {
    let mut report = Report::default();
    macro_rules! checks {
        ($($check:ident),*) => { $( report.check(&stringify!($check).replace('_', " "), $check()).await; )* };
    }
    checks!(login, wrong_password, crud, types, prepared, many_statements, table_changed, batch, pipeline);
    checks!(pipeline_error, copy_in, copy_out, copy_error, cancel, timeout, commit, rollback, savepoint, isolation);
    checks!(unique_violation, syntax_error, error_in_a_transaction, cursor, large, notice, notify, session_state);
    checks!(startup_parameters, reconnect);
    report.check("pool", async { none("tokio-postgres has no pool") }).await;
    checks!(many_connections, tls);
    report.end(&format!("tokio-postgres {}", locked(include_str!("../Cargo.lock"), "tokio-postgres")))
}

fn main() -> ExitCode {
    weir_driver_checks::main(run())
}
