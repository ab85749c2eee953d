#!/bin/bash
# psql: what people type and scripts do. Each check runs psql once or several times; README.md has the names.
set -u
export PGHOST=$HOST PGPORT=$PORT PGUSER=$USER_NAME PGPASSWORD=$PASSWORD PGDATABASE=$DATABASE PGCONNECT_TIMEOUT=20
failed=0 done=0
table=${PSQL_TABLE:-psql}_$MODE
version=$(psql --version | awk '{print $3}')

# says NAME WANTED OUTPUT…: each output must contain the text before it.
says() {
    local name=$1
    shift
    done=$((done + 1))
    while [ $# -gt 0 ]; do
        if [[ $2 != *"$1"* ]]; then
            failed=$((failed + 1))
            echo "FAIL $name: wanted \"$1\", got: $(tr '\n' ' ' <<<"${2:0:300}")"
            return
        fi
        shift 2
    done
    echo "ok   $name"
}
none() { done=$((done + 1)); echo "none $1: $2"; }
run() { psql -X -v ON_ERROR_STOP=1 -At "$@" 2>&1; }
# Continues after an error, in one connection.
script() { psql -X -At 2>&1 <<<"$1"; }

run -c "DROP TABLE IF EXISTS $table" -c "CREATE TABLE $table (id int PRIMARY KEY, name text)" >/dev/null
says 'login' 'hello 42' "$(run -c "SELECT 'hello ' || 42")"
says 'wrong password' 'authentication failed' "$(PGPASSWORD=wrong run -c 'SELECT 1')"
says 'crud' 'INSERT 0 2' "$(run -c "INSERT INTO $table VALUES (1, 'one'), (2, 'two')")" \
    'UPDATE 1' "$(run -c "UPDATE $table SET name = 'zwei' WHERE id = 2")" \
    '2|zwei' "$(run -c "SELECT * FROM $table")" 'DELETE 2' "$(run -c "DELETE FROM $table")"
says 'types' '7|é ☃|\x00ff||{1,2}' "$(run -c "SELECT 7, 'é ☃', '\\x00ff'::bytea, NULL, '{1,2}'::int[]")"
if [ "${version%%.*}" -ge 18 ]; then
    says 'prepared' $'43\n44' "$(script 'SELECT $1::int + 1 \parse p
\bind_named p 42 \g
\bind_named p 43 \g
\close_prepared p')"
elif [ "${version%%.*}" -ge 16 ]; then
    says 'prepared' '43' "$(script 'SELECT $1::int + 1 \bind 42 \g')"
else
    says 'prepared' '43' "$(run -c 'BEGIN; PREPARE p (int) AS SELECT $1 + 1; EXECUTE p (42); DEALLOCATE p; COMMIT')"
fi
none 'many statements' 'psql keeps no statements'
says 'table changed' '1|2' "$(run -c "CREATE TABLE ${table}_wide AS SELECT 1 AS a" -c "SELECT * FROM ${table}_wide" \
    -c "ALTER TABLE ${table}_wide ADD b int DEFAULT 2" -c "SELECT * FROM ${table}_wide" -c "DROP TABLE ${table}_wide")"
says 'batch' $'1\n2\n3' "$(run -c 'SELECT 1; SELECT 2; SELECT 3')"
if [ "${version%%.*}" -ge 18 ]; then
    requests=$(seq 1 300 | sed "s/.*/SELECT 'row ' || \$1 \\\\bind & \\\\sendpipeline/")
    answers=$(script "\\startpipeline
$requests
\\endpipeline
SELECT 'still here';")
    says 'pipeline' $'row 299\nrow 300\nstill here' "$answers" '301' "$(grep -c '^' <<<"$answers")"
    # Commands after an error are skipped until the next sync; psql numbers those that it has not executed.
    answers=$(script '\startpipeline
SELECT 1 / $1::int \bind 1 \sendpipeline
SELECT 1 / $1::int \bind 0 \sendpipeline
SELECT 77 \bind \sendpipeline
\syncpipeline
SELECT 88 \bind \sendpipeline
\endpipeline
SELECT 99;')
    says 'pipeline error' 'division by zero' "$answers" $'88\n99' "$answers" '0' "$(grep -c '^77$' <<<"$answers")"
else
    none 'pipeline' 'psql before 18 has no pipelines'
    says 'pipeline error' 'division by zero' "$(script 'SELECT 1; SELECT 1/0 \; SELECT 2; SELECT 4')" \
        '4' "$(script 'SELECT 1; SELECT 1/0 \; SELECT 2; SELECT 4')"
fi
rows=$(seq 1 5000 | sed 's/.*/&\trow &/')
says 'copy in' 'COPY 5000' "$(run -c "COPY $table FROM STDIN" <<<"$rows")" \
    'COPY 5000' "$(run -c "TRUNCATE $table" -c "\\copy $table FROM STDIN" <<<"$rows")"
says 'copy out' $'5000\trow 5000' "$(run -c "COPY $table TO STDOUT")" '5000' "$(run -c "\\copy $table TO STDOUT" | tail -1)"
says 'copy error' 'invalid input syntax for type integer' "$(printf 'x\ty\n' | run -c "\\copy $table FROM STDIN")" \
    'still here' "$(script "COPY $table FROM STDIN;
x	y
\\.
SELECT 'still here';")"

# Ctrl-C: psql sends a cancel request.
psql -X -At -c 'SELECT pg_sleep(60)' >"$CACHE/cancelled" 2>&1 &
psql_pid=$!
for _ in $(seq 60); do
    sleep 0.5
    kill -INT $psql_pid 2>/dev/null || break
done
wait $psql_pid
says 'cancel' 'canceling statement due to user request' "$(cat "$CACHE/cancelled")"
none 'timeout' 'psql has no limit on a statement'"'"'s time'

run -c "TRUNCATE $table" >/dev/null
says 'commit' '1' "$(run -1 -c "INSERT INTO $table VALUES (1, 'one')" -c "SELECT count(*) FROM $table")" \
    '1' "$(run -c "SELECT count(*) FROM $table")"
run -1 -c "INSERT INTO $table VALUES (5, 'five')" -c 'SELECT 1/0' >/dev/null
says 'rollback' '1|one' "$(run -c "SELECT count(*), min(name) FROM $table")"
says 'savepoint' '2' "$(script "BEGIN; INSERT INTO $table VALUES (2, 'two'); SAVEPOINT a; SELECT 1/0; ROLLBACK TO a;
SELECT count(*) FROM $table; ROLLBACK;")"
says 'isolation' 'serializable' "$(script 'BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY; SHOW transaction_isolation;')" \
    'read-only transaction' "$(script "BEGIN READ ONLY; DELETE FROM $table;")"
says 'unique violation' 'duplicate key' "$(script "INSERT INTO $table VALUES (1, 'again'); SELECT 'on';")" \
    'on' "$(script "INSERT INTO $table VALUES (1, 'again'); SELECT 'on';" | tail -1)"
says 'syntax error' 'syntax error at or near "SELEC"' "$(script 'SELEC 1; SELECT 1;')"
says 'error in a transaction' 'current transaction is aborted' "$(script 'BEGIN; SELECT 1/0; SELECT 1; ROLLBACK;')" \
    'well' "$(script "BEGIN; SELECT 1/0; SELECT 1; ROLLBACK; SELECT 'well';" | tail -1)"
says 'cursor' '5000' "$(run -v FETCH_COUNT=100 -c 'SELECT generate_series(1, 5000)' | tail -1)"
says 'large' '20000000' "$(run -c "SELECT repeat('x', 20000000)" | tr -d '\n' | wc -c)" \
    '300000' "$(run -c 'SELECT generate_series(1, 300000)' | tail -1)"
says 'notice' 'NOTICE:  noted' "$(run -c "DO \$\$ BEGIN RAISE NOTICE 'noted'; END \$\$")"
if [ "$MODE" = transaction ]; then
    none 'notify' 'LISTEN needs session mode'
    none 'session state' 'what outlives a transaction (SET, temporary tables, advisory locks) needs session mode'
else
    says 'notify' 'with payload "hear"' "$(script "LISTEN $table; NOTIFY $table, 'hear'; SELECT 1;")"
    says 'session state' $'7MB\n1' "$(script "SET work_mem = '7MB'; CREATE TEMP TABLE kept AS SELECT 1 AS n; SHOW work_mem;
SELECT n FROM kept;")"
fi
says 'startup parameters' 'Asia/Tokyo' "$(PGOPTIONS='-c TimeZone=Asia/Tokyo' run -c 'SHOW TimeZone')" \
    'LATIN1' "$(PGCLIENTENCODING=LATIN1 run -c 'SHOW client_encoding')" 'tokyo' "$(PGAPPNAME=tokyo run -c 'SHOW application_name')"
# A script ends with its connection; the next one continues.
says 'reconnect' 'terminating connection' "$(script 'BEGIN; SELECT pg_terminate_backend(pg_backend_pid()); SELECT 1;')" \
    'again' "$(run -c "SELECT 'again'")"
none 'pool' 'psql has no pool'
for number in $(seq 60); do run -c "SELECT 'answer $number'" >"$CACHE/many.$number" & done
wait
says 'many connections' '60' "$(for number in $(seq 60); do grep -x "answer $number" "$CACHE/many.$number"; done | wc -l)"
if [ -n "$TLS_AUTHORITY" ]; then
    export PGSSLROOTCERT=$TLS_AUTHORITY
    says 'tls' 'verified' "$(PGSSLMODE=verify-full PGCHANNELBINDING=require run -c "SELECT 'verified'")" \
        'in the clear' "$(PGSSLMODE=disable run -c "SELECT 'in the clear'")"
else
    none 'tls' 'this PostgreSQL was built without TLS'
fi

# Checks beyond those of all drivers.
says 'backslash commands' 'id|integer||not null' "$(run -c "\\d $table")" \
    'again' "$(run -c "\\c $DATABASE" -c "SELECT 'again'")"
says 'variables and gset' 'sum 1' "$(run <<<"SELECT 'sum ' || sum(id) AS line FROM $table \\gset
\\echo :line")"
run -c "DROP TABLE $table" >/dev/null
echo "psql $version: $done checks, $failed failed"
[ $failed -eq 0 ]
