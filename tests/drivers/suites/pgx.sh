# shellcheck shell=bash disable=SC2034,SC2154
title=pgx package='pgx 5.11.0' size=12
prepare() {
    need go psql || return 1
    cd "$cache" || return 1
    printf 'package suite\n\nimport _ "github.com/jackc/pgx/v5"\n' >suite.go
    [ -e go.mod ] || fetched go mod init suite || return 1
    fetched go get -t github.com/jackc/pgx/v5@v5.11.0 || return 1
}
suite() {
    psql -qX -c 'CREATE EXTENSION hstore' -c 'CREATE EXTENSION ltree' -c 'CREATE DOMAIN uint64 AS numeric(20, 0)' >&2
    local pgx=github.com/jackc/pgx/v5 test="host=$PGHOST port=$PGPORT user=$PGUSER password=$PGPASSWORD database=$PGDATABASE"
    PGX_TEST_DATABASE=$test PGX_TEST_TCP_CONN_STRING=$test timeout "${WEIR_SUITES_SECONDS:-900}" go test -v -count 1 -p 1 \
        "$pgx" "$pgx/pgconn" "$pgx/pgtype" "$pgx/pgxpool" "$pgx/stdlib" 2>&1 |
        sed -n 's/^ *--- PASS: \([^ ]*\).*/ok \1/p; s/^ *--- FAIL: \([^ ]*\).*/FAIL \1/p'
}
differs() {
    case $1 in
        TestConnCheckConn | TestConnPing | TestPoolAcquireChecksIdleConns | TestCheckIdleConn | TestFatalRxError | TestFatalTxError)
            echo 'pg_terminate_backend() with the process id of a client' ;;
        TestConnOnNotice) echo 'client_min_messages at startup is refused' ;;
        TestConnectProtocolVersion32) echo 'Weir speaks protocol 3.2 with a longer cancel key in front of an older server, too' ;;
        TestConnMultiplePrepareAndDeallocate*) echo 'pg_prepared_statements has those of all clients' ;;
        TestPrepare*HandlesTimeoutBetweenParseAndDescribe) echo 'a known Parse is answered by Weir, without a time on the server' ;;
        *) return 1 ;;
    esac
}
