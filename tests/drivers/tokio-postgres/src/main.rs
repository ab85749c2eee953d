//! tokio-postgres: statements, pipelines, portals, COPY, cancel, transactions.

use std::env::var;
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt, future};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn config() -> Config {
    let mut config = Config::new();
    config.host(var("HOST").unwrap()).port(var("PORT").unwrap().parse().unwrap());
    config.user(var("USER_NAME").unwrap()).password(var("PASSWORD").unwrap()).dbname(var("DATABASE").unwrap());
    config.connect_timeout(Duration::from_secs(20));
    config
}

async fn connect() -> Result<Client, tokio_postgres::Error> {
    connect_with(&config()).await
}

async fn connect_with(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn table() -> String {
    format!("tokio_{}", var("MODE").unwrap())
}

async fn query_and_parameters(client: &mut Client) -> Outcome {
    let row = client.query_one("SELECT $1::int4, $2::text, $3::bytea", &[&7i32, &"é", &&[0u8, 255][..]]).await?;
    assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1), row.get::<_, &[u8]>(2)), (7, "é", &[0, 255][..]));
    Ok(())
}

async fn a_wrong_password_is_refused(_: &mut Client) -> Outcome {
    let error = connect_with(config().password("wrong")).await.err().ok_or("got in")?;
    assert_eq!(error.code(), Some(&SqlState::INVALID_PASSWORD));
    Ok(())
}

async fn statements_on_many_clients(_: &mut Client) -> Outcome {
    let clients = future::try_join_all((0..12).map(|_| connect())).await?;
    let mut statements = Vec::new();
    for client in &clients {
        statements.push(client.prepare("SELECT $1::int4 + 1").await?);
    }
    for round in 0..20 {
        let asked = clients.iter().zip(&statements).map(|(client, statement)| async move {
            client.query_one(statement, &[&round]).await.map(|row| row.get::<_, i32>(0))
        });
        assert!(future::try_join_all(asked).await?.iter().all(|n| *n == round + 1));
    }
    Ok(())
}

async fn pipelined_queries(client: &mut Client) -> Outcome {
    let client = &*client;
    let asked = (0..200)
        .map(|n: i32| async move { client.query_one("SELECT $1::int4", &[&n]).await.map(|row| row.get::<_, i32>(0)) });
    assert_eq!(future::try_join_all(asked).await?, (0..200).collect::<Vec<_>>());
    Ok(())
}

async fn transactions(client: &mut Client) -> Outcome {
    let table = table();
    let setup = format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, name text)");
    client.batch_execute(&setup).await?;
    let insert = format!("INSERT INTO {table} VALUES ($1, $2)");
    let mut transaction = client.transaction().await?;
    transaction.execute(&insert, &[&1i32, &"one"]).await?;
    let inner = transaction.transaction().await?;
    let error = inner.execute(&insert, &[&1i32, &"twice"]).await.err().ok_or("twice")?;
    assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
    inner.rollback().await?;
    transaction.execute(&insert, &[&2i32, &"two"]).await?;
    transaction.commit().await?;
    drop(client.transaction().await?);
    let count = client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await?;
    assert_eq!(count.get::<_, i64>(0), 2);
    Ok(())
}

async fn portals(client: &mut Client) -> Outcome {
    let transaction = client.transaction().await?;
    let portal = transaction.bind("SELECT generate_series(1, 100)", &[]).await?;
    let mut seen = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 7).await?;
        if rows.is_empty() {
            break;
        }
        seen.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    assert_eq!(seen, (1..=100).collect::<Vec<_>>());
    transaction.commit().await?;
    Ok(())
}

async fn copy_in_and_out(client: &mut Client) -> Outcome {
    let table = table();
    client.batch_execute(&format!("TRUNCATE {table}")).await?;
    let data: String = (0..5000).map(|id| format!("{id}\trow {id}\n")).collect();
    let mut sink = Box::pin(client.copy_in(&format!("COPY {table} FROM STDIN")).await?);
    for chunk in data.as_bytes().chunks(1000) {
        sink.send(Bytes::copy_from_slice(chunk)).await?;
    }
    assert_eq!(sink.as_mut().finish().await?, 5000);
    let out = client.copy_out(&format!("COPY {table} TO STDOUT")).await?;
    let out: Vec<Bytes> = out.try_collect().await?;
    assert_eq!(out.concat(), data.as_bytes());
    let sink = client.copy_in::<_, Bytes>(&format!("COPY {table} FROM STDIN")).await?;
    // Dropped without its end: the driver gives it up.
    drop(sink);
    assert_eq!(client.query_one("SELECT 1", &[]).await?.get::<_, i32>(0), 1);
    Ok(())
}

async fn cancel(client: &mut Client) -> Outcome {
    for _ in 0..3 {
        let token = client.cancel_token();
        let (slept, cancelled) = future::join(client.batch_execute("SELECT pg_sleep(60)"), async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            token.cancel_query(NoTls).await
        })
        .await;
        cancelled?;
        assert_eq!(slept.err().ok_or("not cancelled")?.code(), Some(&SqlState::QUERY_CANCELED));
    }
    Ok(())
}

async fn errors_leave_it_usable(client: &mut Client) -> Outcome {
    for _ in 0..10 {
        let error = client.query_one("SELECT 1 / $1::int4", &[&0i32]).await.err().ok_or("no error")?;
        assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
        assert!(client.prepare("SELECT nothing").await.is_err());
        let answer = client.simple_query("SELECT 1; SELECT 2").await?;
        assert_eq!(answer.iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count(), 2);
    }
    Ok(())
}

async fn run() -> u32 {
    let mut failed = 0;
    macro_rules! checks {
        ($($check:ident),*) => {{
            $(
                let outcome = match connect().await {
                    Ok(mut client) => tokio::spawn(async move { $check(&mut client).await.map_err(|e| e.to_string()) }).await,
                    Err(error) => Ok(Err(error.to_string())),
                };
                let name = stringify!($check).replace('_', " ");
                match outcome {
                    Ok(Ok(())) => println!("ok   {name}"),
                    Ok(Err(error)) => { failed += 1; println!("FAIL {name}: {error}"); }
                    Err(panic) => { failed += 1; println!("FAIL {name}: {panic}"); }
                }
            )*
            [$(stringify!($check)),*].len()
        }};
    }
    let count = checks!(
        query_and_parameters,
        a_wrong_password_is_refused,
        statements_on_many_clients,
        pipelined_queries,
        transactions,
        portals,
        copy_in_and_out,
        cancel,
        errors_leave_it_usable
    );
    if let Ok(client) = connect().await {
        let _ = client.batch_execute(&format!("DROP TABLE IF EXISTS {}", table())).await;
    }
    println!("tokio-postgres 0.7: {count} checks, {failed} failed");
    failed
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    if local.block_on(&runtime, run()) > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
