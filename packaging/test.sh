#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian packages of target/packages in a clean Debian that boots its own systemd, with
# clients connected through Weir to PostgreSQL, does there what README.md's first configuration says, and takes the place of
# Debian's PgBouncer: `make packages-test`.
#
# Needs root, systemd-nspawn and mmdebstrap; five minutes, most of them for the first download of Debian, which ROOT_TAR
# (target/packages.root.tar) keeps. SUITE=bookworm takes another Debian. The container has a network of its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. packaging/container.sh

suite=${SUITE:-trixie}
root_tar=${ROOT_TAR:-target/packages.root-$suite.tar}
out=target/packages arch=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'end_container; rm -rf "$work"' EXIT

# Starts psql with a pipe as its input: lines go to descriptor 5, answers to a file.
connect() {
    mkfifo "$work/lines"
    inside env PGPASSWORD=secret psql -X -q -A -t -h 127.0.0.1 -p 6432 -U app app <"$work/lines" >"$work/answers" 2>&1 &
    exec 5>"$work/lines"
}

# Whether the connected client gets this answer to a query: answers QUERY ANSWER
answers() {
    echo "$1;" >&5
    until_true last_answer "$2"
}

last_answer() {
    [ "$(tail -n 1 "$work/answers")" = "$1" ]
}

main_pid() {
    inside systemctl show --property=MainPID --value weir
}

is_active() {
    inside systemctl is-active --quiet "$1"
}

# The resident memory of the service in KiB is at most this much.
memory_is_at_most() {
    [ "$(inside sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$(main_pid)/status")" -le "$1" ]
}

configure_weir() {
    lines "cat >>/etc/weir/weir.toml && echo '\"app\" \"secret\"' >/etc/weir/userlist.txt" <<END

[pools.app]
host = "/var/run/postgresql"
database = "postgres"
user = "weir"
size = 5
END
    lines "su - postgres -c 'createuser weir'"
}

installed_and_upgraded() {
    check "weir installs" lines 'apt-get install --quiet --yes /root/weir_*[0-9]_*.deb'
    check "the service runs" is_active weir
    check "it runs as the user weir" test "$(inside stat -c %U "/proc/$(main_pid)")" = weir
    check "it has at most 13 MiB of memory at start" memory_is_at_most 13312
    for unit in weir pgbouncer; do
        [ "$unit" = weir ] || lines 'apt-get install --quiet --yes /root/weir-pgbouncer_*[0-9]_*.deb' >/dev/null
        check "the exposure of $unit is at most 2.0" inside systemd-analyze security --threshold=20 --no-pager "$unit"
    done
    lines 'apt-get remove --quiet --yes weir-pgbouncer >/dev/null'
    check "removed and installed again, it serves" lines 'apt-get remove --quiet --yes weir && ! systemctl is-active weir &&
        apt-get install --quiet --yes /root/weir_*[0-9]_*.deb && systemctl is-active weir && systemctl is-enabled weir'
    check "a disabled service stays so" lines 'systemctl disable --now weir && dpkg -i /root/weir_*[0-9]_*.deb &&
        ! systemctl is-active weir && systemctl enable --now weir'
    configure_weir
    check "the configuration is valid, and PostgreSQL answers" lines 'su weir -s /bin/sh -c "weir check /etc/weir/weir.toml --connect"'
    old=$(main_pid)
    check "systemctl reload ends" timeout 60 nsenter --target "$leader" --all -- systemctl reload weir
    check "a reload is a take-over" test "$(main_pid)" != "$old"
    check "the service runs after it" is_active weir
    connect
    check "a client is served" answers "SELECT 6 * 7" 42
    echo "SET TimeZone = 'Asia/Tokyo';" >&5
    check "it has a session setting" answers "SHOW TimeZone" Asia/Tokyo
    old=$(main_pid)
    check "a later version installs" lines 'apt-get install --quiet --yes /root/weir_*next_*.deb'
    check "another process serves" test "$(main_pid)" != "$old"
    check "the client is still connected, with its setting" answers "SHOW TimeZone" Asia/Tokyo
    sleep 2
    check "the service runs after the upgrade" is_active weir
    exec 5>&-
}

# The commands of a section of README.md: its blocks for a shell, but for the one ("sh last") that removes what they have made.
readme() {
    awk '/^## / { on = ($0 == "## A first configuration") } on && /^```$/ { code = 0 } on && code; on && /^```sh$/ { code = 1 }' README.md
}

# What README.md shows, as an ordinary user of the machine in an empty folder; only `psql` of the superuser is run as postgres.
first_configuration() {
    lines 'systemctl stop weir && useradd --create-home ann && install -d -o ann /home/ann/first'
    readme | sed 's/^psql -d postgres/psql -X -d postgres/' >"$work/root/root/readme.sh"
    lines 'grep "^psql -X -d postgres" /root/readme.sh >/tmp/superuser.sh; grep -v "^psql -X -d postgres" /root/readme.sh >/tmp/user.sh
           sed -i "s/^\(weir serve.*\)&.*/\1>log 2>\&1 \&\ncurl --retry 20 --retry-connrefused -s http:\/\/127.0.0.1:8432\/readyz/" /tmp/user.sh'
    check "README: the user and the database" lines 'su - postgres -c "sh -e /tmp/superuser.sh"'
    check "README: its commands" lines 'su ann -c "cd /home/ann/first && sh -e /tmp/user.sh" >/tmp/said 2>&1 </dev/null || true; cat /tmp/said
        grep -q "^ app" /tmp/said && grep -q cl_active /tmp/said && grep -q ready /tmp/said'
    check "README: the panel" lines 'curl -sf http://127.0.0.1:8432/ | grep -qi "<html"'
    lines 'sed -i "s/^size = 20/size = 7/" /home/ann/first/weir.toml; pkill -HUP -u ann -x weir'
    check "README: HUP applies a changed file" until_true lines \
        'psql -X "postgresql://admin:admin-secret@127.0.0.1:6432/weir" -Atc "SHOW DATABASES" | grep -q "^app|.*|7|"'
    check "README: weir upgrade replaces the process" lines 'old=$(pgrep -u ann -x weir)
        su ann -c "cd /home/ann/first && weir upgrade weir.toml" && [ "$(pgrep -u ann -x weir)" != "$old" ] &&
        psql -X "postgresql://app:client-secret@127.0.0.1:6432/app" -Atc "SELECT current_user" | grep -qx app'
    lines 'pkill -INT -u ann -x weir'
    check "README: it ends" until_true lines '! pgrep -u ann -x weir'
}

in_place_of_pgbouncer() {
    lines 'apt-get purge --quiet --yes weir >/dev/null 2>&1; dpkg -i /root/archives/*.deb >/dev/null 2>&1
        su - postgres -c "psql -Xqc \"ALTER ROLE app PASSWORD '"'server-secret'"'\""
        echo "\"app\" \"server-secret\"" >/etc/pgbouncer/userlist.txt
        printf "[databases]\n* = host=127.0.0.1\n" | cat - /etc/pgbouncer/pgbouncer.ini >/tmp/ini && cat /tmp/ini >/etc/pgbouncer/pgbouncer.ini
        systemctl restart pgbouncer'
    asks='psql -X "postgresql://app:server-secret@127.0.0.1:6432/app" -Atc "SELECT current_user" | grep -qx app'
    check "Debian's PgBouncer serves" until_true lines "$asks"
    check "weir-pgbouncer takes its place" lines 'apt-get install --quiet --yes /root/weir_*next_*.deb /root/weir-pgbouncer_*next_*.deb'
    check "the package pgbouncer is gone, its files are not" lines '! dpkg -s pgbouncer 2>/dev/null | grep -q "^Status: install ok" &&
        test -s /etc/pgbouncer/pgbouncer.ini'
    check "its unit serves the same file" is_active pgbouncer
    check "its clients are served" until_true lines "$asks"
    check "by Weir" lines 'pgbouncer -V | grep -q "^This is Weir"'
    check "its manual page is there" inside test -e /usr/share/man/man1/pgbouncer.1.gz
    check "a reload takes over" lines "systemctl reload pgbouncer && systemctl is-active pgbouncer && $asks"
    # Before it no query was parallel: the segment of such a one goes with its backend, which may outlive psql.
    segments=$(lines 'ls /dev/shm' | tr '\n' ' ')
    lines 'systemctl stop pgbouncer'
    check "its end leaves PostgreSQL's shared memory, of the same user" lines "echo before: $segments; ls /dev/shm; test -n '$segments'
        cd /dev/shm && ls -d $segments && su - postgres -c 'psql -Xqc \"SET debug_parallel_query = on\" -c \"SELECT count(*) FROM pg_class\"'"
}

removed() {
    check "without a pgbouncer.ini pgbouncer does not run" lines 'rm -r /etc/pgbouncer; systemctl start pgbouncer; ! systemctl is-active pgbouncer'
    check "both are purged" lines 'apt-get purge --quiet --yes weir-pgbouncer weir'
    check "nothing runs" lines '! pgrep -x weir && ! pgrep -x pgbouncer'
    check "nothing is left" lines '! ls -d /etc/weir /var/lib/weir /var/log/weir /usr/bin/weir /usr/sbin/pgbouncer'
}

# A later version of the same files.
packaging/deb.sh "target/packages.tree/$arch/root" "$(dpkg-deb -f "$out"/weir_*_"$arch".deb Version)+next" "$arch" "$work"
boot "$out"/*_"$arch".deb "$work"/*.deb
installed_and_upgraded
first_configuration
in_place_of_pgbouncer
removed
echo "$passed passed, 0 failed"
