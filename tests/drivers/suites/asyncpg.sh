# shellcheck shell=bash disable=SC2034,SC2154
title=asyncpg package='asyncpg 0.32.0'
prepare() { python_suite asyncpg==0.32.0 pytest==8.4.2 pytest-timeout==2.4.0 distro==1.9.0; }
suite() {
    # Its tests import what is installed, not the sources beside them.
    rm -rf tests && cp -r source/tests . &&
        pytest_results tests --ignore tests/test__sourcecode.py --ignore tests/test__environment.py
}
differs() {
    case $1 in
        *test_listen_02 | *test_listen_notletters) echo 'the process id in a notification is the server'"'"'s' ;;
        *test_pool_min_size_restored_after_idle_connection_loss | *test_pool_remote_close)
            echo 'pg_terminate_backend() with the process id of a client, or of a server that it shares' ;;
        *TestLogListeners*) echo 'client_min_messages at startup is refused' ;;
        *test_type_cache_invalidation_in_pool) echo 'DROP DATABASE finds the idle servers of the pool' ;;
        *test_copy_records_to_table_no_stmt_cache) echo 'pg_prepared_statements has those of all clients' ;;
        *test_executemany_server_failure_during_writes) echo 'a pooler takes more of a request ahead of the error' ;;
        *) return 1 ;;
    esac
}
