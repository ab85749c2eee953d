//! Every setting of PgBouncer has an effect that a test shows, or none, which `weir check` reports.
//!
//! Owns the list of settings with their tests, and the tests that have no other file. SHOW CONFIG and the table in
//! crates/config show that the list is complete, and the sources that its tests exist.

mod limits;
mod listening;
mod logs;
mod protocol;
mod server;
mod tls;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_tests::{Ini, Site, weir_binary};

use Effect::{Nothing, Outside, Seen};

/// The effect of a setting.
#[derive(Clone, Copy)]
enum Effect {
    /// The effect that this test shows.
    Seen(&'static str),
    /// None; it is accepted with this value, and reported.
    Nothing(&'static str),
    /// One that no test of these programs shows: what runs it, or why nothing does.
    Outside(&'static str),
}

/// Settings of `[pgbouncer]`: PgBouncer's, then Weir's own.
const GENERAL: &[(&str, Effect)] = &[
    ("logfile", Seen("the_log_goes_to_the_file_and_pidfile_names_the_process")),
    ("pidfile", Seen("the_log_goes_to_the_file_and_pidfile_names_the_process")),
    ("listen_addr", Seen("clients_connect_to_listen_addr")),
    ("listen_port", Seen("clients_connect_to_listen_addr")),
    ("listen_backlog", Seen("listen_backlog_bounds_connections_that_are_not_accepted_yet")),
    ("unix_socket_dir", Seen("the_unix_socket_has_its_folder_its_mode_and_its_group")),
    ("unix_socket_mode", Seen("the_unix_socket_has_its_folder_its_mode_and_its_group")),
    ("unix_socket_group", Seen("the_unix_socket_has_its_folder_its_mode_and_its_group")),
    ("user", Seen("the_process_becomes_its_user")),
    ("job_name", Nothing("bouncer")),
    ("conffile", Nothing("/etc/pgbouncer/pgbouncer.ini")),
    ("so_reuseport", Seen("so_reuseport_lets_two_share_a_port")),
    ("peer_id", Seen("a_cancel_finds_its_query_whichever_process_accepts_it")),
    ("pool_mode", Seen("behaviour_01_in_statement_mode_a_transaction_is_an_error_that_closes_both_sides")),
    ("max_client_conn", Seen("clients_are_limited_in_all_and_a_database_and_a_user")),
    ("default_pool_size", Seen("servers_are_limited_a_pool_and_a_database_and_a_user")),
    ("min_pool_size", Seen("behaviour_14_min_pool_size_fills_gently")),
    ("reserve_pool_size", Seen("behaviour_14_the_reserve_opens_only_for_clients_that_have_waited")),
    ("reserve_pool_timeout", Seen("behaviour_14_the_reserve_opens_only_for_clients_that_have_waited")),
    ("max_db_connections", Seen("servers_are_limited_a_pool_and_a_database_and_a_user")),
    ("max_db_client_connections", Seen("clients_are_limited_in_all_and_a_database_and_a_user")),
    ("max_user_connections", Seen("servers_are_limited_a_pool_and_a_database_and_a_user")),
    ("max_user_client_connections", Seen("clients_are_limited_in_all_and_a_database_and_a_user")),
    ("server_round_robin", Seen("server_round_robin_uses_servers_alternately")),
    ("max_prepared_statements", Seen("behaviour_06_a_server_keeps_the_statements_used_last")),
    ("track_extra_parameters", Seen("track_extra_parameters_decides_what_is_followed")),
    ("ignore_startup_parameters", Seen("behaviour_18_unknown_startup_parameters_are_refused_unless_ignored")),
    ("disable_pqexec", Seen("disable_pqexec_refuses_simple_queries_and_nothing_else")),
    ("application_name_add_host", Seen("application_name_add_host_names_the_clients_address")),
    ("login_notify_message", Seen("login_notify_message_is_sent_to_each_client")),
    ("auth_type", Seen("behaviour_17_each_method_accepts_the_secrets_that_it_can_use")),
    ("auth_file", Seen("auth_file_lists_the_users")),
    ("auth_hba_file", Seen("auth_hba_file_and_auth_ident_file_decide_about_logins")),
    ("auth_ident_file", Seen("auth_hba_file_and_auth_ident_file_decide_about_logins")),
    ("auth_user", Seen("behaviour_17_auth_query_runs_as_auth_user_in_its_own_visible_pool")),
    ("auth_query", Seen("behaviour_17_auth_query_runs_as_auth_user_in_its_own_visible_pool")),
    ("auth_dbname", Seen("auth_dbname_is_the_database_of_the_lookup")),
    ("auth_ldap_options", Seen("ldap_is_a_type_of_its_own_too")),
    ("auth_oauth_options", Seen("a_client_with_a_token_of_the_issuer_logs_in_and_queries")),
    ("scram_iterations", Seen("scram_iterations_is_sent_to_clients")),
    ("syslog", Seen("the_system_log_gets_datagrams_and_its_absence_stops_nothing")),
    ("syslog_ident", Seen("the_system_log_gets_datagrams_and_its_absence_stops_nothing")),
    ("syslog_facility", Seen("the_system_log_gets_datagrams_and_its_absence_stops_nothing")),
    ("log_connections", Seen("what_is_logged_is_chosen")),
    ("log_disconnections", Seen("what_is_logged_is_chosen")),
    ("log_pooler_errors", Seen("what_is_logged_is_chosen")),
    ("log_stats", Seen("statistics_are_logged_each_stats_period")),
    ("stats_period", Seen("statistics_are_logged_each_stats_period")),
    ("verbose", Seen("verbose_logs_more")),
    ("admin_users", Seen("admin_users_and_stats_users_decide_about_the_console")),
    ("stats_users", Seen("admin_users_and_stats_users_decide_about_the_console")),
    ("server_reset_query", Seen("behaviour_03_the_reset_query_is_configurable_and_may_be_empty")),
    ("server_reset_query_always", Seen("behaviour_03_server_reset_query_always_runs_it_at_each_release")),
    ("server_check_delay", Seen("behaviour_15_the_check_delay_counts_from_the_last_use")),
    ("server_check_query", Seen("behaviour_15_the_check_query_is_configurable_and_may_be_empty")),
    ("server_fast_close", Seen("server_fast_close_ends_sessions_whose_server_must_close")),
    ("server_lifetime", Seen("behaviour_13_server_lifetime_never_closes_a_linked_server")),
    ("server_idle_timeout", Seen("behaviour_13_the_idle_timeout_respects_min_pool_size")),
    ("server_connect_timeout", Seen("server_connect_timeout_ends_a_login_that_hangs")),
    ("server_login_retry", Seen("behaviour_12_with_no_server_left_waiters_get_the_servers_own_error_at_once")),
    ("query_timeout", Seen("behaviour_16_query_timeout_closes_and_does_not_cancel")),
    ("query_wait_timeout", Seen("behaviour_16_query_wait_timeout_ends_a_wait_and_the_notice_comes_before")),
    ("query_wait_notify", Seen("behaviour_16_query_wait_timeout_ends_a_wait_and_the_notice_comes_before")),
    ("cancel_wait_timeout", Seen("behaviour_10_a_cancel_that_takes_too_long_closes_its_server")),
    ("client_idle_timeout", Seen("behaviour_16_client_idle_timeout_applies_to_unlinked_clients")),
    ("client_login_timeout", Seen("a_client_that_never_logs_in_is_disconnected_in_time")),
    ("idle_transaction_timeout", Seen("behaviour_16_idle_transaction_timeout_counts_from_the_servers_last_packet")),
    ("transaction_timeout", Seen("behaviour_16_transaction_timeout_counts_the_whole_transaction")),
    ("suspend_timeout", Seen("behaviour_20_a_suspend_closes_what_could_not_be_flushed_in_time")),
    ("autodb_idle_timeout", Seen("unused_pools_are_dropped_in_time")),
    ("pool_idle_timeout", Seen("unused_pools_are_dropped_in_time")),
    ("dns_max_ttl", Seen("behaviour_19_a_change_of_dns_recycles_only_the_servers_on_vanished_addresses")),
    ("dns_nxdomain_ttl", Seen("what_the_name_servers_do_not_know_is_left_to_the_system")),
    ("dns_zone_check_period", Nothing("60")),
    ("resolv_conf", Seen("behaviour_19_a_change_of_dns_recycles_only_the_servers_on_vanished_addresses")),
    ("client_tls_sslmode", Seen("each_mode_to_clients")),
    ("client_tls_key_file", Seen("each_mode_to_clients")),
    ("client_tls_cert_file", Seen("each_mode_to_clients")),
    ("client_tls_ca_file", Seen("certificates_of_clients_name_their_user")),
    ("client_tls_protocols", Seen("ciphers_and_protocols_to_clients_are_configurable")),
    ("client_tls_ciphers", Seen("ciphers_and_protocols_to_clients_are_configurable")),
    ("client_tls13_ciphers", Seen("ciphers_and_protocols_to_clients_are_configurable")),
    ("client_tls_dheparams", Nothing("legacy")),
    ("client_tls_ecdhcurve", Nothing("secp384r1")),
    ("server_tls_sslmode", Seen("each_mode_to_a_server_with_tls")),
    ("server_tls_key_file", Seen("ciphers_protocols_and_the_certificate_to_servers_are_configurable")),
    ("server_tls_cert_file", Seen("ciphers_protocols_and_the_certificate_to_servers_are_configurable")),
    ("server_tls_ca_file", Seen("a_server_of_another_authority")),
    ("server_tls_protocols", Seen("ciphers_protocols_and_the_certificate_to_servers_are_configurable")),
    ("server_tls_ciphers", Seen("ciphers_protocols_and_the_certificate_to_servers_are_configurable")),
    ("server_tls13_ciphers", Seen("ciphers_protocols_and_the_certificate_to_servers_are_configurable")),
    ("pkt_buf", Nothing("8192")),
    ("max_packet_size", Seen("max_packet_size_bounds_what_is_passed_on")),
    ("sbuf_loopcnt", Nothing("9")),
    ("tcp_defer_accept", Seen("a_silent_client_is_accepted_a_second_later_where_accepting_is_deferred")),
    ("tcp_socket_buffer", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
    ("tcp_keepalive", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
    ("tcp_keepcnt", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
    ("tcp_keepidle", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
    ("tcp_keepintvl", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
    ("tcp_user_timeout", Seen("what_is_asked_of_a_socket_is_what_the_system_answers")),
];

/// Weir's own settings that are in `[pgbouncer]` too.
const OWN: &[(&str, Effect)] = &[
    ("alert_alertmanager", Seen("a_real_alertmanager_takes_the_alert_and_its_end")),
    ("alert_clients_percent", Seen("states_and_thresholds_are_conditions_and_what_is_off_is_none")),
    ("alert_clients_waiting", Seen("states_and_thresholds_are_conditions_and_what_is_off_is_none")),
    ("alert_errors_per_second", Seen("states_and_thresholds_are_conditions_and_what_is_off_is_none")),
    ("alert_for", Seen("a_short_one_is_never_sent_and_one_that_flaps_is_one_alert")),
    ("alert_pagerduty_key", Seen("a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back")),
    ("alert_pagerduty_url", Seen("a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back")),
    ("alert_repeat", Seen("a_condition_that_lasts_is_sent_once_repeated_and_ended")),
    ("alert_slack", Seen("a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back")),
    ("alert_source", Seen("a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back")),
    ("alert_states", Seen("states_and_thresholds_are_conditions_and_what_is_off_is_none")),
    ("alert_wait_p95", Seen("states_and_thresholds_are_conditions_and_what_is_off_is_none")),
    ("alert_webhook", Seen("a_server_that_is_away_is_told_to_each_kind_of_target_and_resolved_when_it_is_back")),
    ("cluster_address", Outside("make cluster-cancel-test")),
    ("cluster_etcd", Outside("make cluster-test")),
    ("cluster_floor", Outside("make cluster-test")),
    ("cluster_lease", Outside("make cluster-test")),
    ("cluster_name", Outside("make cluster-test")),
    ("cluster_node", Outside("make cluster-test")),
    ("cluster_secrets_key_file", Outside("make cluster-config-test")),
    ("cluster_state", Outside("make cluster-test")),
    ("cluster_ca_file", Outside("make cluster-etcd-test")),
    ("cluster_cert_file", Outside("make cluster-etcd-test")),
    ("cluster_key_file", Outside("make cluster-etcd-test")),
    ("cluster_password_file", Outside("make cluster-etcd-test")),
    ("cluster_user", Outside("make cluster-etcd-test")),
    (
        "log_min_duration_statement",
        Seen("no_value_is_stored_or_logged_and_slow_statements_have_the_fingerprint_of_the_table"),
    ),
    ("log_statement_sample_percent", Seen("a_sample_of_the_slow_statements_is_logged")),
    (
        "otlp_ca_file",
        Outside("the collector of the tests has no TLS; tests/panel and weir top read such files by the same code"),
    ),
    ("otlp_endpoint", Seen("metrics_arrive_with_their_kinds_headers_and_attributes")),
    ("otlp_headers", Seen("metrics_arrive_with_their_kinds_headers_and_attributes")),
    ("otlp_interval", Seen("metrics_arrive_with_their_kinds_headers_and_attributes")),
    ("otlp_metrics", Seen("a_query_with_a_sampled_trace_has_spans_over_every_protocol_and_no_other_has")),
    ("otlp_resource", Seen("metrics_arrive_with_their_kinds_headers_and_attributes")),
    ("otlp_spans", Seen("a_query_with_a_sampled_trace_has_spans_over_every_protocol_and_no_other_has")),
    ("drain_time", Seen("a_drain_is_announced_first_and_the_api_shows_how_far_it_is")),
    ("shutdown_delay", Seen("a_shutdown_with_a_delay_serves_new_clients_until_it_begins")),
    ("track_statements", Seen("the_api_sorts_limits_filters_and_resets_and_nothing_is_counted_unless_asked_for")),
    ("watch_files", Seen("a_link_that_is_switched_changes_the_files_behind_it")),
    ("workers", Seen("clients_of_all_pools_are_served_on_two_and_three_workers")),
    ("io", Seen("the_log_s_first_line_says_what_sockets_are_served_with")),
    ("web_address", Seen("an_ini_may_have_an_api_too")),
    ("web_history", Seen("the_history_of_a_pool_survives_a_restart")),
    ("web_lab", Seen("the_lab_s_reports_are_listed_and_read")),
    ("web_oidc_admin_groups", Seen("the_greatest_role_of_a_users_groups_counts")),
    ("web_oidc_ca_file", Outside("tests/panel/sso.mjs logs in with the defaults")),
    ("web_oidc_client_id", Outside("tests/panel/sso.mjs logs in through a real provider")),
    ("web_oidc_client_secret", Outside("tests/panel/sso.mjs logs in through a real provider")),
    ("web_oidc_groups_claim", Seen("groups_are_a_list_or_a_text_at_the_top_or_within")),
    ("web_oidc_issuer", Outside("tests/panel/sso.mjs logs in through a real provider")),
    ("web_oidc_label", Outside("tests/panel/sso.mjs logs in through a real provider")),
    ("web_oidc_operator_groups", Seen("the_greatest_role_of_a_users_groups_counts")),
    ("web_oidc_redirect_url", Outside("tests/panel/sso.mjs logs in with the defaults")),
    ("web_oidc_scopes", Outside("tests/panel/sso.mjs logs in with the defaults")),
    ("web_oidc_user_claim", Seen("a_user_has_a_name_that_no_local_account_has")),
    ("web_oidc_viewer_groups", Seen("the_greatest_role_of_a_users_groups_counts")),
    ("web_port", Seen("an_ini_may_have_an_api_too")),
    ("web_tls_cert_file", Seen("with_a_certificate_the_api_is_encrypted")),
    ("web_tls_key_file", Seen("with_a_certificate_the_api_is_encrypted")),
    ("spread_clients", Seen("one_server_serves_the_clients_of_both_workers")),
    ("on_dirty", Seen("with_reset_the_next_client_finds_nothing_in_transaction_mode")),
    ("max_pinned", Seen("in_auto_only_a_share_of_a_pool_is_kept_and_one_client_more_is_given_the_reason")),
    ("listen", Seen("many_clients_listen_on_one_server_and_the_others_serve_everybody")),
    ("old_primary_timeout", Seen("two_primaries_are_never_written_to_at_once")),
    ("server_tcp_timeout", Seen("a_primary_whose_packets_are_lost_is_left_by_default")),
    ("switch_timeout", Seen("an_operator_can_move_a_pool_only_to_a_host_that_takes_writes")),
    ("pin_refuse", Seen("a_kind_that_a_pool_refuses_is_an_error_and_where_it_is_found_afterwards_the_client_goes")),
    ("warn_on_dirty", Seen("a_client_is_warned_once_for_each_kind_of_state_that_it_loses")),
    ("max_address_connections", Seen("limits_of_a_database_of_an_address_and_of_one_user_hold")),
    ("proxy_from", Seen("behind_a_balancer_the_address_in_its_header_counts")),
    ("auth_failure_delay", Seen("a_failed_login_is_answered_later_each_time_and_no_other_client_waits")),
    ("auth_hide_unknown_users", Seen("behaviour_17_a_user_that_auth_query_does_not_find_is_told_so_under_every_type")),
    ("auth_pam_service", Seen("pam_checks_passwords_by_the_service_that_is_named")),
    ("server_tls_direct", Seen("tls_to_servers_begins_at_once_if_it_is_direct")),
    ("auth_query_cache", Seen("clients_of_one_user_wait_for_one_query_and_the_answer_is_kept")),
    ("log_format", Seen("lines_are_json_where_the_file_says_so")),
    ("shutdown_timeout", Seen("shutdown_timeout_ends_a_shutdown_that_waits")),
    ("upgrade_timeout", Seen("a_client_that_stays_in_a_transaction_gets_an_error_after_upgrade_timeout")),
    ("max_logins_per_host", Seen("a_host_gets_so_many_logins_at_once_whatever_the_number_of_pools")),
    ("require_auth", Seen("a_server_may_request_only_methods_of_require_auth")),
    ("untracked_startup_parameters", Seen("parameters_that_are_not_tracked_are_refused_or_dropped")),
    ("core_dumps", Seen("a_crash_dumps_no_memory_unless_configured")),
    ("on_server_down", Seen("where_clients_are_refused_they_get_an_error_fast_and_are_served_when_it_is_back")),
    (
        "first_server_timeout",
        Seen("a_client_of_a_pool_that_never_had_a_server_gets_the_reason_and_then_a_server_once_it_is_there"),
    ),
    ("connects_per_second", Seen("connects_per_second_bounds_how_fast_servers_open")),
    ("client_statements", Seen("a_client_may_not_hold_more_statements_than_its_limit")),
    ("client_statement_memory", Seen("one_client_does_not_take_the_memory_for_statements_of_others")),
    ("pool_statement_memory", Seen("one_pool_does_not_take_the_memory_for_statements_of_others")),
    ("statement_memory", Seen("a_limit_on_statements_takes_effect_on_reload")),
];

/// Keys of a connection string in `[databases]`.
const DATABASES: &[(&str, Effect)] = &[
    ("dbname", Seen("a_database_leads_to_the_server_of_its_connection_string")),
    ("host", Seen("a_database_leads_to_the_server_of_its_connection_string")),
    ("port", Seen("a_database_leads_to_the_server_of_its_connection_string")),
    ("user", Seen("a_database_leads_to_the_server_of_its_connection_string")),
    ("password", Seen("a_database_leads_to_the_server_of_its_connection_string")),
    ("auth_user", Seen("auth_settings_of_a_database_take_precedence")),
    ("auth_dbname", Seen("auth_settings_of_a_database_take_precedence")),
    ("auth_query", Seen("auth_settings_of_a_database_take_precedence")),
    ("client_encoding", Seen("parameters_of_a_database_are_those_of_its_servers")),
    ("datestyle", Seen("parameters_of_a_database_are_those_of_its_servers")),
    ("timezone", Seen("parameters_of_a_database_are_those_of_its_servers")),
    ("application_name", Seen("parameters_of_a_database_are_those_of_its_servers")),
    ("pool_size", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("min_pool_size", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("reserve_pool_size", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("reserve_pool", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("max_db_connections", Seen("servers_are_limited_a_pool_and_a_database_and_a_user")),
    ("max_db_client_connections", Seen("clients_are_limited_in_all_and_a_database_and_a_user")),
    ("server_lifetime", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("query_wait_timeout", Seen("sizes_and_times_of_a_database_take_precedence")),
    ("load_balance_hosts", Seen("load_balance_hosts_alternates_or_uses_the_first")),
    ("pool_mode", Seen("modes_of_databases_and_users_take_precedence")),
    ("connect_query", Seen("every_server_begins_with_the_connect_query")),
    ("target_session_attrs", Seen("only_a_server_that_fits_is_taken")),
    ("patroni_api", Seen("the_host_that_patroni_names_is_tried_first")),
    ("patroni_interval", Seen("the_host_that_patroni_names_is_tried_first")),
    ("patroni_max_lag", Seen("a_standby_is_tried_first_that_is_not_far_behind")),
    ("patroni_ca_file", Seen("patroni_is_asked_with_tls_and_its_certificate_is_checked")),
    ("on_server_down", Seen("where_clients_are_refused_they_get_an_error_fast_and_are_served_when_it_is_back")),
    ("require_auth", Seen("a_server_may_request_only_methods_of_require_auth")),
    ("old_primary_timeout", Seen("two_primaries_are_never_written_to_at_once")),
    ("switch_timeout", Seen("an_operator_can_move_a_pool_only_to_a_host_that_takes_writes")),
];

/// Keys of a line in `[users]`.
const USERS: &[(&str, Effect)] = &[
    ("pool_mode", Seen("modes_of_databases_and_users_take_precedence")),
    ("pool_size", Seen("sizes_and_times_of_a_user_take_precedence")),
    ("reserve_pool_size", Seen("sizes_and_times_of_a_user_take_precedence")),
    ("max_user_connections", Seen("servers_are_limited_a_pool_and_a_database_and_a_user")),
    ("max_user_client_connections", Seen("clients_are_limited_in_all_and_a_database_and_a_user")),
    ("query_timeout", Seen("behaviour_16_timeouts_of_a_user_take_precedence_over_the_general_ones")),
    ("query_wait_timeout", Seen("sizes_and_times_of_a_user_take_precedence")),
    ("idle_transaction_timeout", Seen("behaviour_16_timeouts_of_a_user_take_precedence_over_the_general_ones")),
    ("transaction_timeout", Seen("timeouts_of_a_users_transactions_and_of_its_idle_clients")),
    ("client_idle_timeout", Seen("timeouts_of_a_users_transactions_and_of_its_idle_clients")),
];

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All Rust sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

fn names(list: &[(&str, Effect)]) -> BTreeSet<String> {
    list.iter().map(|(name, _)| (*name).to_owned()).collect()
}

#[track_caller]
fn assert_same(what: &str, listed: &BTreeSet<String>, wanted: &BTreeSet<String>) {
    let missing: Vec<_> = wanted.difference(listed).collect();
    let left_over: Vec<_> = listed.difference(wanted).collect();
    assert!(missing.is_empty() && left_over.is_empty(), "{what}: no test of {missing:?}, no setting {left_over:?}");
}

#[test]
fn every_setting_of_show_config_has_its_test() {
    let site = Site::ini(&Ini::new());
    let shown = site.weir().show("CONFIG");
    let keys = (0..shown.rows.len()).map(|row| shown.get(row, "key").unwrap().to_owned()).collect();
    assert_same("[pgbouncer]", &names(&[GENERAL, OWN].concat()), &keys);
}

#[test]
fn every_word_of_a_database_and_of_a_user_has_its_test() {
    // The table of settings names its keys in an ini by `.database(&["…"])` and `.user("…")`.
    let mut databases = BTreeSet::new();
    let mut users = BTreeSet::new();
    for source in sources(&root().join("crates/config/src/settings")) {
        let text = fs::read_to_string(source).unwrap();
        for call in [".database(&[", ".database_own(&["] {
            for words in text.split(call).skip(1).filter_map(|rest| rest.split(']').next()) {
                databases.extend(words.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
        users.extend(text.split(".user(\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned));
    }
    assert_same("[databases]", &names(DATABASES), &databases);
    assert_same("[users]", &names(USERS), &users);
}

#[test]
fn every_test_that_is_named_for_a_setting_exists() {
    let folders = ["tests/postgres", "tests/pgbouncer", "crates"];
    let files = folders.iter().flat_map(|folder| sources(&root().join(folder)));
    let text: String = files.map(|file| fs::read_to_string(file).unwrap()).collect();
    let mut missing = Vec::new();
    for (setting, effect) in [GENERAL, OWN, DATABASES, USERS].concat() {
        if let Seen(test) = effect
            && !text.contains(&format!("fn {test}("))
        {
            missing.push((setting, test));
        }
    }
    assert!(missing.is_empty(), "there is no such test: {missing:?}");
    for (setting, effect) in OWN {
        if let Outside(why) = effect {
            println!("{setting}: not shown here: {why}");
        }
    }
}

#[test]
fn settings_without_effect_are_accepted_and_reported() {
    let mut ini = Ini::new();
    for (name, effect) in GENERAL {
        if let Nothing(value) = effect {
            ini = ini.set(name, value);
        }
    }
    let site = Site::ini(&ini);
    let file = site.weir().folder().join("pgbouncer.ini");
    let output = Command::new(weir_binary()).arg("check").arg(&file).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    for (name, effect) in GENERAL {
        let reported = printed.contains(&format!("{name} has no effect"));
        assert_eq!(reported, matches!(effect, Nothing(_)), "{name}: {printed}");
    }
    // Accepted, and shown as written.
    let shown = site.weir().show("CONFIG");
    let value = |name: &str| (0..shown.rows.len()).find(|row| shown.get(*row, "key") == Some(name));
    for (name, effect) in GENERAL {
        let row = value(name).unwrap_or_else(|| panic!("SHOW CONFIG has no {name}"));
        if let Nothing(written) = effect
            && *name != "conffile"
        {
            assert_eq!(shown.get(row, "value"), Some(*written), "{name}");
        }
    }
}

#[test]
fn an_unknown_setting_is_an_error_that_names_file_and_line() {
    let folder = weir_pglocal::TempFolder::new().unwrap();
    let file = folder.path().join("pgbouncer.ini");
    for (text, line, name) in [
        ("[pgbouncer]\nlisten_port = 6432\nmax_clients_con = 7\n", 3, "max_clients_con"),
        ("[pgbouncer]\n[databases]\napp = host=127.0.0.1 pool_sise=7\n", 3, "pool_sise"),
        ("[pgbouncer]\n[users]\napp = pool_size=3 min_pool_size=7\n", 3, "min_pool_size"),
    ] {
        fs::write(&file, text).unwrap();
        let output = Command::new(weir_binary()).arg("serve").arg(&file).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && printed.contains(name), "{printed}");
        assert!(printed.contains(&format!("pgbouncer.ini:{line}")), "{printed}");
    }
}
