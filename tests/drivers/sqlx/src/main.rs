//! sqlx with its pool, both with their defaults: its statement cache, transactions, COPY, notifications.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPool, PgSslMode};
use sqlx::{Connection, Executor, Row};
use weir_driver_checks::{KILL_OTHERS, Outcome, Report, each, env, eventually, locked, none, same, session_only};

fn options() -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host(&env("HOST"))
        .port(env("PORT").parse().unwrap())
        .username(&env("USER_NAME"))
        .password(&env("PASSWORD"))
        .database(&env("DATABASE"))
}

async fn connect() -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect_with(&options()).await
}

fn table() -> String {
    format!("sqlx_{}", env("MODE"))
}

fn state<T>(result: Result<T, sqlx::Error>) -> String {
    match result {
        Ok(_) => "no error".into(),
        Err(sqlx::Error::Database(error)) => error.code().unwrap_or_default().into_owned(),
        Err(error) => error.to_string(),
    }
}

async fn usable(connection: &mut PgConnection) -> Outcome {
    same(sqlx::query_scalar::<_, i32>("SELECT $1 + 1").bind(41).fetch_one(connection).await?, 42)
}

async fn anew(connection: &mut PgConnection) -> Outcome {
    let table = table();
    let sql = format!("DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, name text)");
    sqlx::raw_sql(&sql).execute(connection).await?;
    Ok(())
}

async fn insert(connection: &mut PgConnection, id: i32) -> Result<u64, sqlx::Error> {
    let sql = format!("INSERT INTO {} VALUES ($1, $2)", table());
    Ok(sqlx::query(&sql).bind(id).bind(format!("row {id}")).execute(connection).await?.rows_affected())
}

async fn count(connection: &mut PgConnection, want: i64) -> Outcome {
    same(sqlx::query_scalar::<_, i64>(&format!("SELECT count(*) FROM {}", table())).fetch_one(connection).await?, want)
}

async fn login() -> Outcome {
    usable(&mut connect().await?).await
}

async fn wrong_password() -> Outcome {
    same(state(PgConnection::connect_with(&options().password("wrong")).await), "28P01")
}

async fn crud() -> Outcome {
    let (mut own, table) = (connect().await?, table());
    anew(&mut own).await?;
    for id in 1..=10 {
        same(insert(&mut own, id).await?, 1)?;
    }
    let update =
        sqlx::query(&format!("UPDATE {table} SET name = $1 WHERE id <= 4")).bind("y").execute(&mut own).await?;
    same(update.rows_affected(), 4)?;
    let delete = sqlx::query(&format!("DELETE FROM {table} WHERE id > $1")).bind(7).execute(&mut own).await?;
    same(delete.rows_affected(), 3)?;
    count(&mut own, 7).await
}

async fn types() -> Outcome {
    let row = sqlx::query("SELECT $1, $2, $3, $4, $5, '2026-02-03 04:05:06.789+00'::timestamptz = now()")
        .bind(1i64 << 60)
        .bind("é😀")
        .bind(&[0u8, 255][..])
        .bind(None::<i32>)
        .bind(vec![1i32, 2])
        .fetch_one(&mut connect().await?)
        .await?;
    same((row.get::<i64, _>(0), row.get::<String, _>(1)), (1i64 << 60, "é😀".to_owned()))?;
    same((row.get::<Vec<u8>, _>(2), row.get::<Option<i32>, _>(3)), (vec![0u8, 255], None))?;
    same((row.get::<Vec<i32>, _>(4), row.get::<bool, _>(5)), (vec![1, 2], false))
}

async fn prepared() -> Outcome {
    each(12, |worker| async move {
        let mut own = connect().await?;
        for round in 0..40 {
            let sql = format!("SELECT $1 + {}", round % 4);
            same(sqlx::query_scalar::<_, i32>(&sql).bind(worker).fetch_one(&mut own).await?, worker + round % 4)?;
        }
        Ok(())
    })
    .await
}

/// sqlx keeps a hundred statements.
async fn many_statements() -> Outcome {
    let mut own = connect().await?;
    for n in 0..500 {
        let sql = format!("SELECT $1 + {}", n % 250);
        same(sqlx::query_scalar::<_, i32>(&sql).bind(1).fetch_one(&mut own).await?, 1 + n % 250)?;
    }
    Ok(())
}

/// sqlx keeps its statement after the error, directly too; the program clears its cache, or reconnects.
async fn table_changed() -> Outcome {
    let mut first = connect().await?;
    anew(&mut first).await?;
    insert(&mut first, 1).await?;
    let sql: Arc<str> = format!("SELECT * FROM {}", table()).into();
    let connections: Vec<_> = futures_util::future::try_join_all((0..12).map(|_| connect())).await?;
    let connections: Arc<Vec<_>> = Arc::new(connections.into_iter().map(tokio::sync::Mutex::new).collect());
    for want in 2..6 {
        let (connections, sql) = (connections.clone(), sql.clone());
        each(12, move |worker| {
            let (connections, sql) = (connections.clone(), sql.clone());
            async move {
                let mut own = connections[usize::try_from(worker)?].lock().await;
                let mut row = sqlx::query(&sql).fetch_one(&mut *own).await;
                if row.as_ref().map_or(true, |row| row.len() != want) {
                    own.clear_cached_statements().await?;
                    row = sqlx::query(&sql).fetch_one(&mut *own).await;
                }
                same(row?.len(), want)
            }
        })
        .await?;
        let alter = format!("ALTER TABLE {} ADD COLUMN c{want} int DEFAULT 2", table());
        first.execute(alter.as_str()).await?;
    }
    Ok(())
}

async fn batch() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let sql = format!("INSERT INTO {} SELECT * FROM unnest($1::int[], $2::text[])", table());
    let ids: Vec<i32> = (0..1000).collect();
    let names: Vec<String> = ids.iter().map(|id| format!("row {id}")).collect();
    same(sqlx::query(&sql).bind(&ids).bind(&names).execute(&mut own).await?.rows_affected(), 1000)?;
    let many: String = (1000..1200).map(|id| format!("INSERT INTO {} VALUES ({id});", table())).collect();
    sqlx::raw_sql(&many).execute(&mut own).await?;
    count(&mut own, 1200).await
}

async fn pipeline_error() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let sql = format!("INSERT INTO {0} VALUES (1); SELECT 1 / 0; INSERT INTO {0} VALUES (2)", table());
    for _ in 0..5 {
        same(state(sqlx::raw_sql(&sql).execute(&mut own).await), "22012")?;
        count(&mut own, 0).await?;
    }
    Ok(())
}

async fn copy_in() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let mut copy = own.copy_in_raw(&format!("COPY {} FROM STDIN", table())).await?;
    for id in 0..5000 {
        copy.send(format!("{id}\trow\n").as_bytes()).await?;
    }
    same(copy.finish().await?, 5000)?;
    count(&mut own, 5000).await
}

async fn copy_out() -> Outcome {
    let mut own = connect().await?;
    let out = own.copy_out_raw("COPY (SELECT generate_series(1, 5000)) TO STDOUT").await?;
    let out: Vec<_> = out.try_collect().await?;
    same(out.concat().ends_with(b"\n4999\n5000\n"), true)?;
    usable(&mut own).await
}

async fn copy_error() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let sql = format!("COPY {} FROM STDIN", table());
    let mut bad = own.copy_in_raw(&sql).await?;
    bad.send(&b"1\tx\nno number\ty\n"[..]).await?;
    same(state(bad.finish().await), "22P02")?;
    let mut given = own.copy_in_raw(&sql).await?;
    given.send(&b"1\tx\n"[..]).await?;
    given.abort("changed my mind").await?;
    count(&mut own, 0).await
}

/// sqlx has no cancel; a time limit drops the query, and the pool its connection.
async fn timeout() -> Outcome {
    let pool = PgPool::connect_with(options()).await?;
    let slept = tokio::time::timeout(Duration::from_millis(400), pool.execute("SELECT pg_sleep(5)")).await;
    same(slept.is_err(), true)?;
    let mut own = pool.acquire().await?;
    usable(&mut own).await
}

async fn commit() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let mut transaction = own.begin().await?;
    insert(&mut transaction, 1).await?;
    insert(&mut transaction, 2).await?;
    transaction.commit().await?;
    count(&mut connect().await?, 2).await
}

async fn rollback() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let mut transaction = own.begin().await?;
    insert(&mut transaction, 1).await?;
    transaction.rollback().await?;
    let mut dropped = own.begin().await?;
    insert(&mut dropped, 2).await?;
    count(&mut dropped, 1).await?;
    drop(dropped);
    count(&mut own, 0).await
}

async fn savepoint() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    let mut transaction = own.begin().await?;
    insert(&mut transaction, 1).await?;
    let mut inner = transaction.begin().await?;
    insert(&mut inner, 2).await?;
    same(state(insert(&mut inner, 1).await), "23505")?;
    inner.rollback().await?;
    insert(&mut transaction, 3).await?;
    transaction.commit().await?;
    let sum = format!("SELECT sum(id) FROM {}", table());
    same(sqlx::query_scalar::<_, i64>(&sum).fetch_one(&mut own).await?, 4)
}

async fn isolation() -> Outcome {
    let mut own = connect().await?;
    let mut transaction = own.begin_with("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").await?;
    let level = sqlx::query_scalar::<_, String>("SHOW transaction_isolation").fetch_one(&mut *transaction).await?;
    same(level, "serializable")?;
    let read_only = sqlx::query_scalar::<_, String>("SHOW transaction_read_only").fetch_one(&mut *transaction).await?;
    same(read_only, "on")?;
    transaction.commit().await?;
    let level = sqlx::query_scalar::<_, String>("SHOW transaction_isolation").fetch_one(&mut own).await?;
    same(level, "read committed")
}

async fn unique_violation() -> Outcome {
    let mut own = connect().await?;
    anew(&mut own).await?;
    insert(&mut own, 1).await?;
    for _ in 0..5 {
        same(state(insert(&mut own, 1).await), "23505")?;
    }
    count(&mut own, 1).await
}

async fn syntax_error() -> Outcome {
    let mut own = connect().await?;
    for _ in 0..5 {
        same(state(sqlx::query("SELEC $1").bind(1).execute(&mut own).await), "42601")?;
        same(state(sqlx::raw_sql("SELEC 1").execute(&mut own).await), "42601")?;
        usable(&mut own).await?;
    }
    Ok(())
}

async fn error_in_a_transaction() -> Outcome {
    let mut own = connect().await?;
    let mut transaction = own.begin().await?;
    same(state(sqlx::query("SELECT 1 / $1").bind(0).execute(&mut *transaction).await), "22012")?;
    for _ in 0..3 {
        same(state(sqlx::query("SELECT 1").execute(&mut *transaction).await), "25P02")?;
    }
    transaction.rollback().await?;
    usable(&mut own).await
}

async fn cursor() -> Outcome {
    let mut own = connect().await?;
    let mut transaction = own.begin().await?;
    transaction.execute("DECLARE portions CURSOR FOR SELECT generate_series(1, 2000)").await?;
    let mut seen = 0;
    loop {
        let rows = sqlx::query_scalar::<_, i32>("FETCH 70 FROM portions").fetch_all(&mut *transaction).await?;
        if rows.is_empty() {
            return same(seen, 2000);
        }
        for row in rows {
            seen += 1;
            same(row, seen)?;
        }
    }
}

async fn large() -> Outcome {
    let value = vec![7u8; 20 << 20];
    let back = sqlx::query_scalar::<_, Vec<u8>>("SELECT $1").bind(&value).fetch_one(&mut connect().await?).await?;
    same(back == value, true)
}

async fn notify() -> Outcome {
    session_only("LISTEN")?;
    let pool = PgPool::connect_with(options()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&table()).await?;
    sqlx::query("SELECT pg_notify($1, 'hear')").bind(table()).execute(&pool).await?;
    let heard = tokio::time::timeout(Duration::from_secs(30), listener.recv()).await??;
    same(heard.payload(), "hear")
}

async fn session_state() -> Outcome {
    session_only("a session's state")?;
    let mut own = connect().await?;
    for sql in ["SET work_mem = '5MB'", "CREATE TEMPORARY TABLE mine (id int)", "SELECT pg_advisory_lock(4711)"] {
        own.execute(sql).await?;
    }
    let memory = "SELECT current_setting('work_mem') FROM (SELECT count(*) FROM mine) AS there";
    same(sqlx::query_scalar::<_, String>(memory).fetch_one(&mut own).await?, "5MB")?;
    let locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    same(sqlx::query_scalar::<_, i64>(locks).fetch_one(&mut own).await?, 1)
}

/// sqlx sends UTC as its time zone to the server; `options` come before that.
async fn startup_parameters() -> Outcome {
    each(3, |worker| async move {
        let timeout = format!("{}s", worker + 11);
        let options = options().application_name(&format!("rust{worker}")).options([("statement_timeout", &timeout)]);
        let mut own = PgConnection::connect_with(&options).await?;
        for _ in 0..20 {
            let sql = "SELECT current_setting('application_name') || current_setting('TimeZone') || \
                       current_setting('statement_timeout')";
            let all = sqlx::query_scalar::<_, String>(sql).fetch_one(&mut own).await?;
            same(all, format!("rust{worker}UTC{timeout}"))?;
        }
        Ok(())
    })
    .await
}

/// Once within a transaction, then all connections of the pool.
async fn reconnect() -> Outcome {
    let pool = PgPool::connect_with(options()).await?;
    let mut transaction = pool.begin().await?;
    let pid = sqlx::query_scalar::<_, i32>("SELECT pg_backend_pid()").fetch_one(&mut *transaction).await?;
    sqlx::query("SELECT pg_terminate_backend($1)").bind(pid).execute(&mut connect().await?).await?;
    same(usable(&mut transaction).await.is_err(), true)?;
    drop(transaction);
    for _ in 0..3 {
        // If the query runs on a server that is being killed, it is retried like any other.
        eventually(|| async {
            connect().await?.execute(KILL_OTHERS).await?;
            Ok(())
        })
        .await?;
        eventually(|| async {
            let mut own = pool.acquire().await?;
            usable(&mut own).await
        })
        .await?;
    }
    Ok(())
}

async fn tagged(connection: &mut PgConnection, tag: i32) -> Outcome {
    for round in 0..20 {
        let wanted = format!("{tag}/{round}");
        same(sqlx::query_scalar::<_, String>("SELECT $1").bind(&wanted).fetch_one(&mut *connection).await?, wanted)?;
    }
    Ok(())
}

async fn pool() -> Outcome {
    let pool = PgPool::connect_with(options()).await?;
    each(24, move |worker| {
        let pool = pool.clone();
        async move {
            for round in 0..5 {
                let mut transaction = pool.begin().await?;
                tagged(&mut transaction, worker * 10 + round).await?;
                transaction.commit().await?;
                let mut own = pool.acquire().await?;
                tagged(&mut own, worker * 10 + round).await?;
            }
            Ok(())
        }
    })
    .await
}

async fn many_connections() -> Outcome {
    each(60, |worker| async move {
        let mut own = connect().await?;
        tagged(&mut own, worker).await?;
        Ok(own.close().await?)
    })
    .await
}

async fn tls() -> Outcome {
    let authority = env("TLS_AUTHORITY");
    if authority.is_empty() {
        return none("this PostgreSQL was built without TLS");
    }
    let options = options().ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(authority);
    usable(&mut PgConnection::connect_with(&options).await?).await
}

async fn run() -> ExitCode {
    let mut report = Report::default();
    macro_rules! checks {
        ($($check:ident),*) => { $( report.check(&stringify!($check).replace('_', " "), $check()).await; )* };
    }
    checks!(login, wrong_password, crud, types, prepared, many_statements, table_changed, batch);
    report.check("pipeline", async { none("sqlx sends nothing ahead") }).await;
    checks!(pipeline_error, copy_in, copy_out, copy_error);
    report.check("cancel", async { none("sqlx has no cancel") }).await;
    checks!(timeout, commit, rollback, savepoint, isolation, unique_violation, syntax_error, error_in_a_transaction);
    checks!(cursor, large);
    report.check("notice", async { none("sqlx hands no notices to the program; it logs them") }).await;
    checks!(notify, session_state, startup_parameters, reconnect, pool, many_connections, tls);
    report.end(&format!("sqlx {}", locked(include_str!("../Cargo.lock"), "sqlx")))
}

fn main() -> ExitCode {
    weir_driver_checks::main(run())
}
