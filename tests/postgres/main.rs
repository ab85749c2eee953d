//! Weir against real PostgreSQL, one file per topic. The names of the tests are the guarantees.
//!
//! Suites that hold everywhere run everywhere: against PostgreSQL alone, and through Weir in session and transaction
//! mode. `cargo test -p weir-tests --features postgres`, with `direct` for the suites without Weir.

/// Each suite as three tests: `direct`, `session`, `transaction`.
macro_rules! everywhere {
    ($($suite:ident),* $(,)?) => {
        $(
            mod $suite {
                use weir_tests::{Mode, Site};

                #[test]
                fn direct() {
                    super::$suite(&Site::direct());
                }

                #[test]
                fn session() {
                    super::$suite(&Site::pooled(Mode::Session));
                }

                #[test]
                fn transaction() {
                    super::$suite(&Site::pooled(Mode::Transaction));
                }
            }
        )*
    };
}

mod access_rules;
mod auth_query;
mod autodb;
mod behaviours;
mod bulk;
mod cancel;
mod closing;
mod command;
mod console;
mod console_commands;
mod copy;
mod custom_settings;
mod dblink;
mod death;
mod defaults;
mod definitions;
mod dirty;
mod drain;
mod dry_run;
mod extended;
mod fair_shares;
mod health;
mod holding;
mod hosts;
mod last_answers;
mod leaving_functions;
mod limits_servers;
mod listening;
mod listening_gaps;
mod login;
mod malformed;
mod memory;
mod modes;
mod oauth;
mod outage;
mod overload;
mod own_questions;
mod parameters;
mod passwords;
mod patroni;
mod peering;
mod pgbench;
mod pins;
mod pool_tests;
mod primaries;
mod queries;
mod reload;
mod replication;
mod scale;
mod sequences;
mod server_passwords;
mod server_tls;
mod server_tokens;
mod settings;
mod shapes;
mod shared_plans;
mod simple;
mod slow;
mod spread;
mod sql_statements;
mod startup;
mod statements;
mod strangers;
mod tls;
mod top_statements;
mod upgrade;
mod upgrade_changes;
mod waiting;
mod web;
mod web_access;
mod web_alerts;
mod web_change;
mod web_hostile;
mod web_incident;
mod web_log;
mod web_queries;
mod web_secrets;
mod web_servers;
mod web_settings;
mod web_telemetry;
mod web_users;
mod web_versions;
mod workers;

#[cfg(feature = "long")]
mod soak;
