//! Which problems of pools are those of their database server: they are one incident, and one alert.

use weir_admin::{Health, PoolHealth, is_grave_class};
use weir_config::Config;

/// The server of a pool whose state is one of the server; none where it is the pool's own. A server is known by the
/// addresses in the configuration.
pub(crate) fn server_with_problem(pool: &str, health: &PoolHealth, config: &Config) -> Option<String> {
    let is_server = match health.state {
        Health::Slow | Health::CannotGrow | Health::NotAnswering | Health::CannotConnect | Health::LoginRejected => {
            true
        }
        Health::Failing => {
            health.error.as_ref().and_then(|error| error.sqlstate.as_bytes().get(..2)).is_some_and(is_grave_class)
        }
        _ => false,
    };
    let pool = config.pool(pool).filter(|_| is_server)?;
    let targets = pool.targets.iter().map(ToString::to_string);
    Some(targets.collect::<Vec<String>>().join(", "))
}
