#!/usr/bin/env bash
# Installs, upgrades, removes and purges the Debian packages of target/packages in a clean Debian, which boots its own systemd in
# a container, with a client connected through Weir to a PostgreSQL of this machine: `make packages-test`.
#
# Needs root, systemd-nspawn, mmdebstrap, psql and PostgreSQL's programs; five minutes, most of them for the first download of
# Debian, which ROOT_TAR (target/packages.root.tar) keeps. Everything listens on the loopback. The ports 6432 and PORT
# (15999) must be free.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

port=${PORT:-15999} root_tar=${ROOT_TAR:-target/packages.root.tar} suite=${SUITE:-trixie}
out=target/packages
work=$(mktemp -d)
postgres=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
passed=0

finish() {
    # The end of its first process is the end of the container.
    [ -z "${leader-}" ] || kill -KILL "$leader" 2>/dev/null || true
    [ ! -d "$work/data" ] || as_postgres "$postgres/pg_ctl" -D "$work/data" -m immediate stop >/dev/null 2>&1 || true
    [ -z "${container-}" ] || wait "$container" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

as_postgres() {
    setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
}

# Runs a command in the container.
inside() {
    nsenter --target "$leader" --mount --uts --ipc --pid --cgroup -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        DEBIAN_FRONTEND=noninteractive "$@"
}

# Reports one check: check WORDS COMMAND…
check() {
    local words=$1
    shift
    if ! "$@"; then
        echo "FAILED: $words" >&2
        inside journalctl --no-pager -n 30 -u weir -u pgbouncer >&2 || true
        exit 1
    fi
    echo "ok: $words"
    passed=$((passed + 1))
}

start_postgres() {
    chmod 711 "$work"
    install -d -o postgres "$work/data"
    as_postgres "$postgres/initdb" -D "$work/data" -A trust -U postgres >/dev/null
    as_postgres "$postgres/pg_ctl" -D "$work/data" -w -l "$work/data/log" \
        -o "-p $port -c listen_addresses=127.0.0.1 -c unix_socket_directories=" start >/dev/null
}

boot() {
    [ -f "$root_tar" ] || mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,logrotate,man-db \
        "$suite" "$root_tar"
    mkdir "$work/root"
    tar -C "$work/root" -xf "$root_tar"
    cp "$out"/*.deb "$work/"*.deb "$work/root/root/"
    # systemd of this Debian boots with cgroups of version 1 only when it is asked to.
    systemd-nspawn --quiet --register=no --keep-unit --directory="$work/root" --boot SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 \
        </dev/null >"$work/boot.log" 2>&1 &
    container=$!
    local tries
    for tries in $(seq 60); do
        leader=$(pgrep -P "$container" | head -n 1 || true)
        if [ -n "$leader" ] && inside systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; then
            return
        fi
        sleep 1
    done
    echo "the container did not boot after $tries s" >&2
    tail -n 20 "$work/boot.log" >&2
    exit 1
}

# Starts psql with a pipe as its input: lines go to descriptor 5, answers to a file.
connect() {
    mkfifo "$work/lines"
    PGPASSWORD=secret psql -X -q -A -t -h 127.0.0.1 -p 6432 -U app app <"$work/lines" >"$work/answers" 2>&1 &
    exec 5>"$work/lines"
}

# Whether the connected client gets this answer to a query: answers QUERY ANSWER
answers() {
    echo "$1;" >&5
    local tries
    for tries in $(seq 50); do
        [ "$(tail -n 1 "$work/answers")" = "$2" ] && return
        sleep 0.1
    done
    echo "after $tries tries: $(tail -n 3 "$work/answers")" >&2
    return 1
}

main_pid() {
    inside systemctl show --property=MainPID --value weir
}

is_active() {
    inside systemctl is-active --quiet "$1"
}

configure_weir() {
    inside sh -c "cat >>/etc/weir/weir.toml && echo '\"app\" \"secret\"' >/etc/weir/userlist.txt" <<END

[pools.app]
host = "127.0.0.1"
port = $port
database = "postgres"
user = "postgres"
size = 5
END
}

# A later version of the same files.
packaging/deb.sh target/packages.tree/root "$(dpkg-deb -f "$out"/weir_*.deb Version)+next" amd64 "$work"
start_postgres
boot

check "weir installs" inside sh -c 'dpkg -i /root/weir_*[0-9]_amd64.deb >/dev/null'
check "the service runs" is_active weir
check "it runs as the user weir" test "$(inside ps -o user= -p "$(main_pid)" 2>/dev/null || inside stat -c %U "/proc/$(main_pid)")" = weir
configure_weir
check "the configuration is valid" inside weir check --color never /etc/weir/weir.toml
old=$(main_pid)
check "systemctl reload ends" timeout 60 nsenter --target "$leader" --all -- systemctl reload weir
check "a reload is a take-over" test "$(main_pid)" != "$old"
check "the service runs after it" is_active weir
connect
check "a client is served" answers "SELECT 6 * 7" 42
echo "SET TimeZone = 'Asia/Tokyo';" >&5
check "it has a session setting" answers "SHOW TimeZone" Asia/Tokyo
old=$(main_pid)
check "a later version installs" inside sh -c 'dpkg -i /root/weir_*next_amd64.deb >/dev/null'
check "another process serves" test "$(main_pid)" != "$old"
check "the client is still connected, with its setting" answers "SHOW TimeZone" Asia/Tokyo
sleep 2
check "the service runs after the upgrade" is_active weir
exec 5>&-
check "weir-pgbouncer installs" inside sh -c 'dpkg -i /root/weir-pgbouncer_*next_amd64.deb >/dev/null'
check "pgbouncer is Weir" inside sh -c 'pgbouncer -V | grep -q "PgBouncer 1.*Weir"'
check "its manual page is there" inside test -e /usr/share/man/man1/pgbouncer.1.gz
check "without a pgbouncer.ini it does not run" inside sh -c '! systemctl is-active --quiet pgbouncer'
check "both are purged" inside sh -c 'dpkg --purge weir-pgbouncer weir >/dev/null 2>&1'
check "nothing runs" inside sh -c '! pgrep -x weir >/dev/null 2>&1'
check "nothing is left" inside sh -c '! ls -d /etc/weir /var/lib/weir /var/log/weir /usr/bin/weir /usr/sbin/pgbouncer 2>/dev/null'
echo "$passed passed, 0 failed"
