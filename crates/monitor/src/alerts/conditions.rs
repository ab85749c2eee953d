//! The conditions of a moment: states of health, and thresholds of figures. Pure.

use weir_admin::{AlertKey, Condition, Health, PoolHealth, identifier};
use weir_base::plural;
use weir_config::Config;

use crate::faults::FaultView;
use crate::pool_server::server_with_problem;

/// What a second's figures say of a pool.
pub(crate) struct PoolMoment<'a> {
    pub(crate) name: &'a str,
    pub(crate) health: &'a PoolHealth,
    pub(crate) clients_waiting: f64,
    pub(crate) wait_ms_p95: f64,
    pub(crate) errors_per_second: f64,
}

/// The conditions that hold; `clients`: those of the process.
pub(crate) fn conditions<'a>(
    config: &Config,
    pools: impl Iterator<Item = PoolMoment<'a>>,
    clients: u32,
    faults: &[FaultView],
) -> Vec<Condition> {
    let mut found = of_faults(faults);
    for pool in pools {
        found.extend(of_health(config, &pool));
        found.extend(of_thresholds(config, &pool));
    }
    let (percent, most) = (config.alerts.clients_percent, config.max_clients);
    // What this limit refuses is a fault already.
    let refuses = faults.iter().any(|fault| fault.kind == "limit" && fault.pool.is_none());
    if percent > 0 && !refuses && u64::from(clients) * 100 >= u64::from(most) * u64::from(percent) && most > 0 {
        let summary = format!("{clients} of {most} clients are connected (max_clients).");
        let advice =
            "See which applications hold connections that they do not need (SHOW CLIENTS), or raise max_clients.";
        found.push(condition("max_clients", None, (true, clients.into(), 0), summary, advice));
    }
    found
}

/// One condition of each kind: the worst fault of a kind speaks for all.
fn of_faults(faults: &[FaultView]) -> Vec<Condition> {
    let mut found: Vec<Condition> = Vec::new();
    // One that lasts for some seconds more makes no alert.
    for fault in faults.iter().filter(|fault| fault.not_seen_since.is_none()) {
        if !found.iter().any(|condition| condition.key.rule == fault.kind) {
            let since = if fault.problem { (fault.since * 1e6) as u64 } else { 0 };
            let about = (fault.problem, fault.clients.into(), since);
            found.push(condition(fault.kind, fault.pool.as_deref(), about, fault.summary.clone(), &fault.advice));
        }
    }
    found
}

/// The condition of workers that do not answer the control plane.
pub(crate) fn workers_do_not_answer() -> Condition {
    let summary = "The workers of Weir do not answer.".to_owned();
    condition("workers", None, (true, 0, 0), summary, "Look at Weir's log, and at the load of its machine.")
}

fn of_health(config: &Config, pool: &PoolMoment<'_>) -> Option<Condition> {
    let state = pool.health.state;
    // A state that is held for some seconds makes no alert, and an alert knows itself when it was last seen.
    if pool.health.not_seen_since > 0 || !config.alerts.states.iter().any(|name| name == state.name()) {
        return None;
    }
    // A pause is what an operator wants, until clients wait too long for its end.
    if state == Health::Paused && !pool.health.is_problem() {
        return None;
    }
    let reason = pool.health.reason().map(|reason| format!(": {}", reason.trim_end_matches('.')));
    let (name, reason) = (identifier(pool.name), reason.unwrap_or_default());
    let summary = format!("Pool {name} is in the state \"{state}\"{reason}.");
    let critical = state >= Health::Stalled || state == Health::Paused;
    let about = (critical, pool.health.clients(), pool.health.problem_since());
    let server = server_with_problem(pool.name, pool.health, config);
    Some(Condition { server, ..condition(state.name(), Some(pool.name), about, summary, pool.health.advice()) })
}

fn of_thresholds(config: &Config, pool: &PoolMoment<'_>) -> Vec<Condition> {
    let alerts = &config.alerts;
    let (name, waiting) = (identifier(pool.name), pool.clients_waiting.max(0.0) as u64);
    let wait = alerts.wait_p95.micros() as f64 / 1e3;
    let mut found = Vec::new();
    let mut check = |rule, most: f64, value: f64, summary: String, advice| {
        if most > 0.0 && value >= most {
            found.push(condition(rule, Some(pool.name), (false, waiting, 0), summary, advice));
        }
    };
    check(
        "clients_waiting",
        f64::from(alerts.clients_waiting),
        pool.clients_waiting,
        format!("{} for a server of pool {name}.", plural(waiting, "client waits", "clients wait")),
        "See what the pool's servers do: the incidents in the panel.",
    );
    check(
        "wait_p95",
        wait,
        pool.wait_ms_p95,
        format!("95 % of the waits in pool {name} take up to {:.0} ms.", pool.wait_ms_p95),
        "See what the pool's servers do: the incidents in the panel.",
    );
    check(
        "errors_per_second",
        f64::from(alerts.errors_per_second),
        pool.errors_per_second,
        format!("The servers of pool {name} send {:.0} errors a second.", pool.errors_per_second),
        "See the errors by their codes on the pool's page.",
    );
    found
}

fn condition(
    rule: &str,
    pool: Option<&str>,
    (critical, clients, since): (bool, u64, u64),
    summary: String,
    advice: &str,
) -> Condition {
    let key = AlertKey { rule: rule.to_owned(), pool: pool.map(str::to_owned) };
    Condition { key, critical, summary, advice: advice.to_owned(), clients, since, server: None }
}

#[cfg(test)]
mod tests {
    use weir_base::Span;

    use super::*;

    fn rules(config: &Config, state: Health, waiting: f64, clients: u32) -> Vec<String> {
        let health = PoolHealth { state, ..PoolHealth::default() };
        let pool = PoolMoment {
            name: "app",
            health: &health,
            clients_waiting: waiting,
            wait_ms_p95: 80.0,
            errors_per_second: f64::NAN,
        };
        conditions(config, std::iter::once(pool), clients, &[]).into_iter().map(|found| found.key.rule).collect()
    }

    #[test]
    fn a_state_that_is_not_seen_any_more_is_no_condition() {
        let (mut config, states) = (Config::default(), vec!["stalled".to_owned()]);
        config.alerts.states = states;
        let found = |not_seen_since| {
            let health = PoolHealth { state: Health::Stalled, since: 1, not_seen_since, ..PoolHealth::default() };
            let (clients_waiting, wait_ms_p95, errors_per_second) = (0.0, 0.0, 0.0);
            let pool = PoolMoment { name: "app", health: &health, clients_waiting, wait_ms_p95, errors_per_second };
            of_health(&config, &pool).map(|condition| condition.since)
        };
        assert_eq!((found(0), found(5)), (Some(1), None));
    }

    #[test]
    fn a_pause_is_a_condition_when_clients_wait_too_long_for_its_end() {
        let config = Config::default();
        let found = |kept_waiting| {
            let health =
                PoolHealth { state: Health::Paused, since: 1, kept_waiting, waiting: 2, ..PoolHealth::default() };
            let (clients_waiting, wait_ms_p95, errors_per_second) = (2.0, 0.0, 0.0);
            let pool = PoolMoment { name: "app", health: &health, clients_waiting, wait_ms_p95, errors_per_second };
            of_health(&config, &pool)
        };
        assert_eq!(found(0), None);
        let condition = found(60_000_000).expect("a condition");
        assert_eq!((condition.key.rule.as_str(), condition.critical, condition.since), ("paused", true, 60_000_000));
        let words = "Pool app is in the state \"paused\": clients wait since 1970-01-01 00:01:00 UTC.";
        assert_eq!((condition.summary.as_str(), condition.clients), (words, 2));
    }

    #[test]
    fn states_and_thresholds_are_conditions_and_what_is_off_is_none() {
        let mut config = Config { max_clients: 100, ..Config::default() };
        config.alerts.clients_percent = 0;
        config.alerts.states = vec!["stalled".to_owned()];
        assert_eq!(rules(&config, Health::Stalled, 5.0, 0), ["stalled"]);
        assert!(rules(&config, Health::Saturated, 5.0, 100).is_empty(), "every threshold is off");
        config.alerts.clients_waiting = 5;
        config.alerts.wait_p95 = Span::from_millis(80);
        config.alerts.errors_per_second = 1;
        config.alerts.clients_percent = 90;
        assert_eq!(rules(&config, Health::Healthy, 5.0, 90), ["clients_waiting", "wait_p95", "max_clients"]);
        assert_eq!(rules(&config, Health::Healthy, 4.0, 89), ["wait_p95"]);
    }
}
