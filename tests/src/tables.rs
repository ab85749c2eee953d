//! The console's tables as PgBouncer's documentation lists them.

/// The columns of PgBouncer 1.25, as its documentation lists them. 1.18 has fewer, in the same order. FDS is missing:
/// it is for the takeover by a new process.
pub const TABLES: [(&str, &str); 18] = [
    (
        "POOLS",
        "database user cl_active cl_waiting cl_active_cancel_req cl_waiting_cancel_req sv_active sv_active_cancel \
         sv_being_canceled sv_idle sv_used sv_tested sv_login maxwait maxwait_us pool_mode load_balance_hosts",
    ),
    (
        "STATS",
        "database total_server_assignment_count total_xact_count total_query_count total_received total_sent \
         total_xact_time total_query_time total_wait_time total_client_parse_count total_server_parse_count \
         total_bind_count avg_server_assignment_count avg_xact_count avg_query_count avg_recv avg_sent avg_xact_time \
         avg_query_time avg_wait_time avg_client_parse_count avg_server_parse_count avg_bind_count total_client_login_count avg_client_login_count",
    ),
    (
        "STATS_TOTALS",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
         wait_time client_parse_count server_parse_count bind_count client_login_count",
    ),
    (
        "STATS_AVERAGES",
        "database server_assignment_count xact_count query_count bytes_received bytes_sent xact_time query_time \
         wait_time avg_client_parse_count avg_server_parse_count avg_bind_count avg_client_login_count",
    ),
    ("TOTALS", "name value"),
    ("CLIENTS", CONNECTIONS),
    ("SERVERS", CONNECTIONS),
    ("SOCKETS", SOCKETS),
    ("ACTIVE_SOCKETS", SOCKETS),
    (
        "DATABASES",
        "name host port database force_user pool_size min_pool_size reserve_pool_size server_lifetime pool_mode \
         load_balance_hosts max_connections current_connections max_client_connections current_client_connections \
         paused disabled",
    ),
    (
        "USERS",
        "name pool_size reserve_pool_size pool_mode max_user_connections current_connections \
         max_user_client_connections current_client_connections",
    ),
    ("CONFIG", "key value default changeable"),
    ("LISTS", "list items"),
    ("MEM", "name size used free memtotal"),
    ("DNS_HOSTS", "hostname ttl addrs"),
    ("DNS_ZONES", "zonename serial count"),
    ("STATE", "key value"),
    ("VERSION", "version"),
];

const CONNECTIONS: &str = "type user database replication state addr port local_addr local_port connect_time \
                           request_time wait wait_us close_needed ptr link remote_pid tls application_name \
                           prepared_statements id";

const SOCKETS: &str = "type user database replication state addr port local_addr local_port connect_time \
                       request_time wait wait_us close_needed ptr link remote_pid tls application_name \
                       prepared_statements id recv_pos pkt_pos pkt_remain send_pos send_remain pkt_avail send_avail";
