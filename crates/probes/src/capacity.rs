//! How many connections a database server takes, and which are open, over a connection with a pool's own login.
//!
//! Owns the queries. They use what every user may read: the state of another role's backends is hidden, its database
//! and user are not.

use weir_admin::{NamedClients, ProbeError, RoleConnections, ServerCapacity};
use weir_config::{Config, PoolConfig};
use weir_pgclient::{Answer, Error};

use crate::look::Look;
use crate::looks::Looks;
use crate::permit::Permit;
use crate::pool_test::OF_CLIENTS;

/// The name by which the connection is recognised at the server.
const APPLICATION: &str = "weir capacity";
/// The most pairs of a database and a user that are read.
const ROLES: usize = 50;
/// The most applications that are named.
const APPLICATIONS: usize = 3;

/// Reads the limit and the connections of the pool's first server.
pub(crate) fn read(
    looks: &Looks,
    config: &Config,
    pool: &PoolConfig,
    permit: impl FnOnce() -> Result<Option<Permit>, ProbeError>,
) -> Result<ServerCapacity, ProbeError> {
    let (limits, roles, applications, user) = looks.ask(config, pool, APPLICATION, permit, query)?;
    let limit = |name: &'static str| number(&limits, 0, name).ok_or(ProbeError::NotShown(name));
    Ok(ServerCapacity {
        max_connections: limit("most")?,
        reserved: limit("reserved")?,
        connections: number(&roles, 0, "total").unwrap_or(0),
        looks: looks.count(pool.target()),
        by_application: (0..applications.rows.len()).map(|row| application(&applications, row)).collect(),
        by_role: (0..roles.rows.len().min(ROLES)).map(|row| role(&roles, row)).collect(),
        user,
    })
}

/// Limits, connections by roles and by applications, and the user that asked. A connection that is opened only for this does not count.
fn query(look: &mut Look) -> Result<(Answer, Answer, Answer, String), Error> {
    let limits = look.query(
        "select pg_catalog.current_setting('max_connections') as most, (select sum(setting::int) from \
         pg_catalog.pg_settings where name in ('superuser_reserved_connections', 'reserved_connections')) as reserved",
    )?;
    let counts = if look.is_kept { "true" } else { "pid <> pg_catalog.pg_backend_pid()" };
    let roles = look.query(&format!(
        "select datname, usename, count(*) as connections, sum(count(*)) over () as total \
         from pg_catalog.pg_stat_activity where {counts} and {OF_CLIENTS} \
         group by datname, usename order by count(*) desc, datname, usename limit {ROLES}"
    ))?;
    let applications = look.query(&format!(
        "select application_name, usename, count(*) as connections from pg_catalog.pg_stat_activity \
         where {counts} and {OF_CLIENTS} group by application_name, usename order by count(*) desc limit {APPLICATIONS}"
    ))?;
    Ok((limits, roles, applications, look.user.clone()))
}

fn application(answer: &Answer, row: usize) -> NamedClients {
    let text = |column: &str| answer.get(row, column).unwrap_or_default().to_owned();
    let clients = number(answer, row, "connections").unwrap_or(0);
    NamedClients { user: text("usename"), application_name: text("application_name"), clients }
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
