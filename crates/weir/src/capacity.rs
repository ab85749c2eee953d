//! How many connections a database server takes, and which are open, over a short connection with a pool's own login.
//!
//! Owns the queries. They use what every user may read: the state of another role's backends is hidden, its database
//! and user are not.

use weir_admin::{RoleConnections, ServerCapacity};
use weir_config::{Config, PoolConfig};
use weir_pgclient::{Answer, Error};

use crate::activity::open;
use crate::cluster::Permit;
use crate::pool_test::OF_CLIENTS;

/// The name by which the connection is recognised at the server.
const APPLICATION: &str = "weir capacity";
/// The most pairs of a database and a user that are read.
const ROLES: usize = 50;

/// Reads the limit and the connections of the pool's first server.
pub(crate) fn read(config: &Config, pool: &PoolConfig, permit: Option<Permit>) -> Result<ServerCapacity, String> {
    let mut look = open(config, pool, APPLICATION, permit)?;
    let mut ask = |query: &str| look.query(query).map_err(|error: Error| error.to_string());
    let limits = ask("select pg_catalog.current_setting('max_connections') as most, (select sum(setting::int) from \
         pg_catalog.pg_settings where name in ('superuser_reserved_connections', 'reserved_connections')) as reserved")?;
    let roles = ask(&format!(
        "select datname, usename, count(*) as connections, sum(count(*)) over () as total \
         from pg_catalog.pg_stat_activity where pid <> pg_catalog.pg_backend_pid() and {OF_CLIENTS} \
         group by datname, usename order by count(*) desc, datname, usename limit {ROLES}"
    ))?;
    let user = look.end();
    let limit = |name: &str| number(&limits, 0, name).ok_or_else(|| format!("the server did not show its {name}"));
    Ok(ServerCapacity {
        max_connections: limit("most")?,
        reserved: limit("reserved")?,
        connections: number(&roles, 0, "total").unwrap_or(0),
        by_role: (0..roles.rows.len().min(ROLES)).map(|row| role(&roles, row)).collect(),
        user,
    })
}

fn role(answer: &Answer, row: usize) -> RoleConnections {
    let text = |column: &str| answer.get(row, column).unwrap_or_default().to_owned();
    let connections = number(answer, row, "connections").unwrap_or(0);
    RoleConnections { database: text("datname"), user: text("usename"), connections }
}

/// A number of an answer; none if the row is missing, or if the server sent something else.
fn number(answer: &Answer, row: usize, column: &str) -> Option<u32> {
    answer.get(row, column)?.parse().ok()
}
