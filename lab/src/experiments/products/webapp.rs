//! The articles' web app in Rust, for machines without Go. The same paths, the same replies, the same page.
//!
//! What differs is in `/state` and in the report: its pool has no limit of idle connections (the pools of
//! the Rust
//! world have none), and it speaks no TLS.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use serde::Serialize;

use super::app::PAGE;
use super::httpd::{self, Request, Response};
use super::plan::Way;
use crate::steps::LabError;

/// The query of every request.
const QUERY: &str = "SELECT id, name, price, description FROM products LIMIT 1000";
/// The maximum age of a connection of `pooled`.
const LIFETIME: Duration = Duration::from_secs(120);
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'";

/// The arguments of `weir-lab app`; the Go app's own flags.
#[derive(Args, Clone, Debug)]
pub(crate) struct Flags {
    /// The address to serve at
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// `PostgreSQL`'s address
    #[arg(long)]
    postgres: SocketAddr,
    /// Weir's address
    #[arg(long)]
    weir: Option<SocketAddr>,
    /// The database's user, whose password is in `$PRODUCTS_PASSWORD`
    #[arg(long, default_value = "lab")]
    user: String,
    /// The database
    #[arg(long, default_value = "products")]
    database: String,
    /// The name of Weir's pool
    #[arg(long, default_value = "products")]
    pool: String,
    /// Only `disable`
    #[arg(long, default_value = "disable", value_parser = ["disable"])]
    sslmode: String,
    /// pooled: connections open at most
    #[arg(long, default_value_t = 90)]
    open: usize,
    /// Accepted and ignored: this pool keeps all open connections
    #[arg(long)]
    idle: Option<usize>,
}

/// Serves until the process ends.
pub(crate) fn run(flags: Flags) -> Result<(), LabError> {
    weir_pglocal::raise_descriptors();
    let listener = httpd::listen(flags.listen).map_err(|e| LabError::at(format!("listen at {}", flags.listen), e))?;
    let address = listener.local_addr().map_err(|e| LabError::at("ask for the port", e))?;
    println!("listening on http://{address}/");
    let _ = std::io::stdout().flush();
    let app = App::new(flags);
    httpd::serve(&listener, move |request| app.answer(request));
    Ok(())
}

struct App {
    flags: Flags,
    direct: Config,
    /// Connections of `new`, which are never closed.
    left: Mutex<Vec<Client>>,
    normal: Pool,
    pooled: Pool,
    through: Option<Config>,
    meters: [Meter; 4],
}

#[derive(Serialize)]
struct Product<'a> {
    id: i64,
    name: &'a str,
    price: f64,
    description: Option<&'a str>,
}

impl Product<'_> {
    fn of(message: &SimpleQueryMessage) -> Option<Product<'_>> {
        let SimpleQueryMessage::Row(row) = message else { return None };
        let (id, price) = (row.get(0)?.parse().ok()?, row.get(2)?.parse().ok()?);
        Some(Product { id, name: row.get(1)?, price, description: row.get(3) })
    }
}

impl App {
    fn new(flags: Flags) -> App {
        let password = std::env::var("PRODUCTS_PASSWORD").unwrap_or_default();
        let config = |address: SocketAddr, database: &str| {
            let mut config = Config::new();
            config.host(&address.ip().to_string()).port(address.port()).user(&flags.user).dbname(database);
            config.password(&password);
            config
        };
        let direct = config(flags.postgres, &flags.database);
        let through = flags.weir.map(|weir| config(weir, &flags.pool));
        let pool = |open, idle| Pool::new(direct.clone(), open, idle);
        let (normal, pooled) = (pool(usize::MAX, 1), pool(flags.open, usize::MAX));
        let (left, meters) = (Mutex::default(), Default::default());
        App { left, normal, pooled, through, meters, direct, flags }
    }

    fn answer(&self, request: &Request) -> Response {
        let way = request.path.strip_prefix("/products/");
        let way = way.and_then(|name| Way::ALL.into_iter().find(|way| way.name() == name));
        let json = |status, body| Response { status, headers: JSON, body };
        match (request.method.as_str(), request.path.as_str(), way) {
            (_, _, Some(way)) => match self.products(way) {
                Ok(body) => json(200, body),
                Err(text) => json(500, error(&text)),
            },
            (_, "/", _) => Response { status: 200, headers: HTML, body: PAGE.into() },
            (_, "/state", _) => json(200, self.state()),
            ("POST", "/reset", _) => {
                self.reset();
                json(200, self.state())
            }
            (_, "/reset", _) => json(405, error("POST resets the pools")),
            _ => json(404, error("no such path")),
        }
    }

    fn products(&self, way: Way) -> Result<Vec<u8>, String> {
        let began = Instant::now();
        let rows = self.rows(way)?;
        let elapsed = began.elapsed();
        let average = self.meters[way as usize].add(elapsed);
        let products: Vec<_> = rows.iter().filter_map(Product::of).collect();
        let body = Reply { elapsed: micros(elapsed), average: micros(average), products: &products };
        Ok(serde_json::to_vec(&body).expect("plain data becomes JSON"))
    }

    fn rows(&self, way: Way) -> Result<Vec<SimpleQueryMessage>, String> {
        match way {
            Way::New => {
                let mut client = self.direct.connect(NoTls).map_err(words)?;
                let rows = client.simple_query(QUERY).map_err(words)?;
                lock(&self.left).push(client);
                Ok(rows)
            }
            Way::Normal => self.normal.query(),
            Way::Pooled => self.pooled.query(),
            Way::Weir => {
                let config = self.through.as_ref().ok_or("no address of Weir was given to this app")?;
                let mut client = config.connect(NoTls).map_err(words)?;
                let rows = client.simple_query(QUERY).map_err(words)?;
                client.close().map_err(words)?;
                Ok(rows)
            }
        }
    }

    fn reset(&self) {
        let left = std::mem::take(&mut *lock(&self.left));
        drop(left);
        self.normal.reset();
        self.pooled.reset();
        self.meters.iter().for_each(Meter::reset);
    }

    fn state(&self) -> Vec<u8> {
        let state = serde_json::json!({
            "program": "Rust, the crate postgres, a pool of its own",
            "sslmode": self.flags.sslmode, "open": self.flags.open, "idle": null, "weir": self.flags.weir.is_some(),
            "ways": {
                "new": way((lock(&self.left).len(), 0, 0)), "normal": way(self.normal.state()),
                "pooled": way(self.pooled.state()), "weir": way((0, 0, 0)),
            },
        });
        state.to_string().into_bytes()
    }
}

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json"), ("Cache-Control", "no-store")];
const HTML: &[(&str, &str)] =
    &[("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"), ("Content-Security-Policy", POLICY)];

/// The counters of one endpoint in `/state`.
fn way((connections, waits, waited): (usize, u64, u64)) -> serde_json::Value {
    serde_json::json!({ "connections": connections, "waits": waits, "waited": waited })
}

/// The body of a successful reply; times in µs.
#[derive(Serialize)]
struct Reply<'a> {
    elapsed: u64,
    average: u64,
    products: &'a [Product<'a>],
}

fn error(text: &str) -> Vec<u8> {
    serde_json::json!({ "error": text }).to_string().into_bytes()
}

/// The server's message, if there is one.
#[allow(clippy::needless_pass_by_value)]
fn words(error: postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), |said| format!("{}: {}", said.severity(), said.message()))
}

/// The connection pool.
///
/// Invariant: `open` counts connections that are in use, idle, or being opened, and never exceeds `most`.
struct Pool {
    config: Config,
    most: usize,
    keep: usize,
    inside: Mutex<Inside>,
    free: Condvar,
    waits: AtomicU64,
    waited_us: AtomicU64,
}

#[derive(Default)]
struct Inside {
    open: usize,
    idle: Vec<PooledClient>,
    /// The number of resets before a connection was opened; one from before a reset is closed when it is returned.
    era: u64,
}

struct PooledClient {
    client: Client,
    born: Instant,
    era: u64,
}

impl Pool {
    fn new(config: Config, most: usize, keep: usize) -> Pool {
        let (waits, waited_us) = (AtomicU64::new(0), AtomicU64::new(0));
        Pool { config, most, keep, inside: Mutex::default(), free: Condvar::new(), waits, waited_us }
    }

    fn query(&self) -> Result<Vec<SimpleQueryMessage>, String> {
        let mut entry = self.borrow()?;
        let rows = entry.client.simple_query(QUERY).map_err(words);
        let keep = rows.is_ok() && !entry.client.is_closed();
        self.give_back(keep.then_some(entry));
        rows
    }

    fn borrow(&self) -> Result<PooledClient, String> {
        let mut inside = lock(&self.inside);
        let began = Instant::now();
        let mut waited = false;
        loop {
            if let Some(entry) = inside.idle.pop() {
                if entry.born.elapsed() < LIFETIME {
                    self.note(waited, began);
                    return Ok(entry);
                }
                inside.open -= 1;
                continue;
            }
            if inside.open < self.most {
                break;
            }
            waited = true;
            inside = self.free.wait(inside).unwrap_or_else(PoisonError::into_inner);
        }
        inside.open += 1;
        let era = inside.era;
        drop(inside);
        self.note(waited, began);
        match self.config.connect(NoTls) {
            Ok(client) => Ok(PooledClient { client, born: Instant::now(), era }),
            Err(error) => {
                self.give_back(None);
                Err(words(error))
            }
        }
    }

    /// Returns a connection; `None` for a lost one.
    fn give_back(&self, entry: Option<PooledClient>) {
        let mut inside = lock(&self.inside);
        match entry {
            Some(entry) if entry.era == inside.era && inside.idle.len() < self.keep => inside.idle.push(entry),
            closed => {
                inside.open -= 1;
                drop(inside);
                // Outside the lock: closing sends Terminate to the server.
                drop(closed);
            }
        }
        self.free.notify_one();
    }

    fn note(&self, waited: bool, began: Instant) {
        if waited {
            self.waits.fetch_add(1, Ordering::Relaxed);
            self.waited_us.fetch_add(micros(began.elapsed()), Ordering::Relaxed);
        }
    }

    fn reset(&self) {
        let mut inside = lock(&self.inside);
        let idle = std::mem::take(&mut inside.idle);
        inside.open -= idle.len();
        inside.era += 1;
        drop(inside);
        drop(idle);
        self.free.notify_all();
        self.waits.store(0, Ordering::Relaxed);
        self.waited_us.store(0, Ordering::Relaxed);
    }

    /// Open connections, requests that waited, and their total wait in µs.
    fn state(&self) -> (usize, u64, u64) {
        (lock(&self.inside).open, self.waits.load(Ordering::Relaxed), self.waited_us.load(Ordering::Relaxed))
    }
}

/// An average since the last reset: count and sum.
#[derive(Default)]
struct Meter(Mutex<(u32, Duration)>);

impl Meter {
    /// Adds a value, and returns the new average.
    fn add(&self, elapsed: Duration) -> Duration {
        let mut inside = lock(&self.0);
        inside.0 += 1;
        inside.1 += elapsed;
        inside.1 / inside.0
    }

    fn reset(&self) {
        *lock(&self.0) = (0, Duration::ZERO);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Locks a mutex, also a poisoned one: its value is never half-changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
