#!/bin/bash
# psql: what people type.
set -u
export PGHOST=$HOST PGPORT=$PORT PGUSER=$USER_NAME PGPASSWORD=$PASSWORD PGDATABASE=$DATABASE PGCONNECT_TIMEOUT=20
failed=0 done=0
table=psql_$MODE

# says NAME WANTED OUTPUT: the output must hold the words.
says() {
    done=$((done + 1))
    if grep -qF -- "$2" <<<"$3"; then
        echo "ok   $1"
    else
        failed=$((failed + 1))
        printf 'FAIL %s: wanted "%s", got: %s\n' "$1" "$2" "$3"
    fi
}

run() { psql -X -v ON_ERROR_STOP=1 -At "$@" 2>&1; }

says 'connects with SCRAM and asks' 'hello 42' "$(run -c "SELECT 'hello ' || 42")"
says 'several statements' $'1\n2' "$(run -c 'SELECT 1' -c 'SELECT 2')"
says 'an error is shown as the server tells it' 'ERROR:  relation "nowhere" does not exist' \
    "$(run -c 'SELECT * FROM nowhere')"
says 'a wrong password is refused' 'failed' "$(PGPASSWORD=wrong run -c 'SELECT 1')"
says 'a table' 'CREATE TABLE' \
    "$(run -c "DROP TABLE IF EXISTS $table" -c "CREATE TABLE $table (id int PRIMARY KEY, name text)")"
says 'copy in' 'COPY 3' "$(printf '1\tone\n2\ttwo\n3\tthree\n' | run -c "COPY $table FROM STDIN")"
says 'copy out' $'2\ttwo' "$(run -c "COPY $table TO STDOUT")"
says '\copy with an error' 'invalid input syntax for type integer' \
    "$(printf 'x\ty\n' | run -c "\\copy $table FROM STDIN")"
says 'describes a table' 'id|integer||not null' "$(run -c "\\d $table")"
says 'lists databases' 'template1' "$(run -c '\l')"
says 'a single transaction' '4' "$(run -1 -c "INSERT INTO $table VALUES (4, 'four')" -c "SELECT count(*) FROM $table")"
run -1 -c "INSERT INTO $table VALUES (5, 'five')" -c 'SELECT 1/0' >/dev/null
says 'a failed transaction is undone' '4' "$(run -c "SELECT count(*) FROM $table")"
says 'prepared within a transaction' 'two' \
    "$(run -c "BEGIN; PREPARE p (int) AS SELECT name FROM $table WHERE id = \$1; EXECUTE p (2); COMMIT")"
says 'a script from standard input' 'sum 10' "$(run <<<"\\set wanted 10
SELECT 'sum ' || sum(id) AS line FROM $table \\gset
\\echo :line")"
says 'a notice' 'NOTICE:  noted' "$(run -c "DO \$\$ BEGIN RAISE NOTICE 'noted'; END \$\$")"
says 'a cursor in portions' '999' "$(run -v FETCH_COUNT=100 -c 'SELECT generate_series(1, 999)' | tail -1)"
says 'a large result' '300000' "$(run -c 'SELECT generate_series(1, 300000)' | tail -1)"
says 'another connection within psql' 'again' "$(run -c "\\c $DATABASE" -c "SELECT 'again'")"
says 'client encoding' 'LATIN1' "$(PGCLIENTENCODING=LATIN1 run -c 'SHOW client_encoding')"
says 'options' 'Asia/Tokyo' "$(PGOPTIONS='-c TimeZone=Asia/Tokyo' run -c 'SHOW TimeZone')"

# Ctrl-C: psql sends a cancel request.
psql -X -c 'SELECT pg_sleep(60)' >"$CACHE/psql-cancel.$MODE" 2>&1 &
psql_pid=$!
for _ in 1 2 3 4 5 6 7 8 9 10; do
    sleep 0.3
    kill -INT $psql_pid 2>/dev/null || break
done
wait $psql_pid
says 'Ctrl-C cancels' 'canceling statement due to user request' "$(cat "$CACHE/psql-cancel.$MODE")"
run -c "DROP TABLE $table" >/dev/null
echo "psql $(psql --version | awk '{print $3}'): $done checks, $failed failed"
[ $failed -eq 0 ]
