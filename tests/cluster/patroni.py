#!/usr/bin/env python3
"""Weir before two PostgreSQLs that Patroni keeps, with etcd, on this machine: `patroni.py WEIR`.

A hundred clients read and write in transaction mode while `patronictl` switches the primary, while the primary and its Patroni are
killed, and while they hang; once with Patroni's REST API as a source (`patroni_api`), and once without. A planned switchover (SWITCH, then patronictl) costs no
error; one that Weir knows nothing of, and a crash, cost the transactions in flight, once each, with an SQLSTATE that a client may
retry. Patroni and psycopg2 are installed from PyPI into target/patroni. ROUNDS is the number of switchovers of each kind (2), CLIENTS
that of clients (100).
"""

import os, subprocess, sys

VERSIONS = ["patroni[etcd3]==4.1.5", "psycopg2-binary==2.9.10"]
HERE = os.path.dirname(os.path.abspath(__file__))
TOOLS = os.path.abspath(f"{HERE}/../../target/patroni")
if sys.prefix != TOOLS:
    if not os.path.exists(f"{TOOLS}/bin/patroni"):
        # PostgreSQL runs as another user than root, and so does Patroni: its Python must not be in root's home.
        subprocess.run(["/usr/bin/python3", "-m", "venv", TOOLS], check=True)
        subprocess.run([f"{TOOLS}/bin/pip", "install", "--quiet", *VERSIONS], check=True)
    os.execv(f"{TOOLS}/bin/python", [f"{TOOLS}/bin/python", os.path.abspath(sys.argv[0]), *sys.argv[1:]])

import json, random, signal, threading, time, urllib.error, urllib.request

import psycopg2

from common import POSTGRES, WEIR, Etcd, check, folder, free_port, log_of, script, start, unprivileged, wait_for, within

CLIENTS = int(os.environ.get("CLIENTS", "100"))
ROUNDS = int(os.environ.get("ROUNDS", "2"))
# What a client may retry: the server ends, or the connection to it is lost; it shuts down or starts up; it takes no writes any more.
RETRYABLE = {"08000", "08003", "08006", "57P01", "57P02", "57P03", "25006"}
OTHER = {"a": "b", "b": "a"}


class Node:
    """One PostgreSQL with its Patroni."""

    def __init__(self, name, etcd):
        self.name, self.port, self.api = name, free_port(), free_port()
        self.file, self.data = f"{folder}/{name}.yml", f"{folder}/{name}"
        os.mkdir(self.data, 0o700)
        if unprivileged:
            os.chown(self.data, unprivileged["user"], unprivileged["group"])
        settings = {
            "scope": "weir", "name": name, "restapi": {"listen": f"127.0.0.1:{self.api}", "connect_address": f"127.0.0.1:{self.api}"},
            "etcd3": {"host": f"127.0.0.1:{etcd.port}"},
            "bootstrap": {
                "dcs": {"ttl": 20, "loop_wait": 2, "retry_timeout": 3, "postgresql": {
                    "use_pg_rewind": True, "parameters": {"max_connections": 60, "wal_keep_size": "64MB"}}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "data-checksums"]},
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.port}", "data_dir": f"{self.data}/data",
                "bin_dir": POSTGRES, "pgpass": f"{self.data}/pgpass", "parameters": {"unix_socket_directories": self.data},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"],
                "authentication": {user: {"username": "postgres", "password": "p"} for user in ("superuser", "replication", "rewind")}}}
        with open(self.file, "w") as file:
            json.dump(settings, file)
        self.start()

    def start(self):
        self.process = start(f"patroni-{self.name}", f"{TOOLS}/bin/patroni", self.file, **unprivileged,
                             env={"PATH": os.environ["PATH"], "HOME": self.data, "LC_ALL": "C"})

    def processes(self):
        """PostgreSQL's processes, the first one before its children."""
        try:
            with open(f"{self.data}/data/postmaster.pid") as file:
                postmaster = file.readline().strip()
        except OSError:
            return []
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", postmaster], text=True, capture_output=True).stdout.split()
        return [int(process) for process in [postmaster, *children]]

    def signal(self, number):
        for process in self.processes():
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def answers(self, path):
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{self.api}/{path}", timeout=2).status == 200
        except OSError:
            return False

    def kill(self):
        """Ends the node without a word: Patroni first, so that it repairs nothing, then PostgreSQL with all its processes."""
        self.process.kill()
        self.process.wait()
        self.signal(signal.SIGKILL)


class Direct(threading.Thread):
    """Writes at each node without Weir, and tries again: when did a primary take writes?"""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.running, self.written = node, True, []
        self.start()

    def run(self):
        while self.running:
            try:
                connection = psycopg2.connect(host="127.0.0.1", port=self.node.port, user="app", dbname="postgres", connect_timeout=1)
                connection.autocommit = True
                cursor = connection.cursor()
                while self.running:
                    cursor.execute("insert into direct values (1)")
                    self.written.append(time.monotonic())
                    time.sleep(0.005)
            except psycopg2.Error:
                time.sleep(0.01)


def sqlstate(error):
    """psycopg2 has none, and no text of the server, where the connection ends behind the message: Weir's log has that."""
    closed = "server closed the connection unexpectedly" in str(error)
    return error.pgcode or ("08006" if closed else str(error))


class Client(threading.Thread):
    """Reads, writes or runs blocks through Weir, until it is stopped. Each error is noted, and the transaction repeated."""

    def __init__(self, number, port):
        super().__init__(daemon=True)
        self.number, self.port, self.running, self.waits, self.errors, self.done = number, port, True, [], [], 0
        self.start()

    def run(self):
        connection = None
        while self.running:
            began = time.monotonic()
            while self.running:
                try:
                    if connection is None or connection.closed:
                        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="app", dbname="app", sslmode="disable")
                        connection.autocommit = True
                    self.transaction(connection.cursor())
                    self.done += 1
                    break
                except psycopg2.Error as error:
                    self.errors.append((time.monotonic(), sqlstate(error), str(error).strip()))
                    if connection is not None and not connection.closed:
                        connection.close()
            self.waits.append((began, time.monotonic() - began))
            time.sleep(random.uniform(0.05, 0.15))

    def transaction(self, cursor):
        kind = self.number % 3
        if kind == 0:
            cursor.execute("select count(*) from (select 1 from written limit 10) few")
        elif kind == 1:
            cursor.execute("insert into written(client) values (%s)", (self.number,))
        else:
            cursor.execute("begin")
            cursor.execute("insert into written(client) values (%s)", (self.number,))
            cursor.execute("select 1")
            cursor.execute("commit")


class Weir:
    def __init__(self, name, nodes, *lines):
        self.name, self.port = name, free_port()
        ports = ", ".join(str(node.port) for node in nodes)
        with open(f"{folder}/{name}.toml", "w") as file:
            file.write("\n".join([
                "[general]", "workers = 2", 'admin_users = ["app"]', "[listen]", 'address = "127.0.0.1"', f"port = {self.port}", "[auth]", 'type = "trust"', "[auth.users]", 'app = ""', "[pools.app]",
                'host = ["127.0.0.1", "127.0.0.1"]', f"port = [{ports}]", 'database = "postgres"', 'mode = "transaction"', "size = 20",
                'target_session_attrs = "read-write"', *lines, ""]))
        self.process = start(name, WEIR, "serve", f"{folder}/{name}.toml")
        wait_for(self.port)

    def show(self, what):
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="app", dbname="pgbouncer", sslmode="disable")
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(what)
        rows = [dict(zip([column.name for column in cursor.description], row)) for row in cursor] if cursor.description else []
        connection.close()
        return rows

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Stage:
    def __init__(self):
        self.etcd = Etcd()
        self.nodes, self.hung = {}, None

    def begin(self):
        for name in ("a", "b"):
            self.nodes[name] = Node(name, self.etcd)
        within("there is a primary and a standby", 120, self.is_whole)
        primary = psycopg2.connect(host="127.0.0.1", port=self.primary().port, user="postgres", dbname="postgres")
        primary.autocommit = True
        primary.cursor().execute("create role app login; create table written(at timestamptz default clock_timestamp(), client int);"
                                 "create table direct(n int); grant all on written, direct to app")
        primary.close()

    def is_whole(self):
        """One node is the primary, and the other one streams from it."""
        asked = [(node.answers("primary"), node.answers("replica?lag=0")) for node in self.nodes.values()]
        return sorted(asked) == [(False, True), (True, False)]

    def primary(self):
        return next(node for node in self.nodes.values() if node.answers("primary"))

    def patronictl(self, *arguments):
        node = next(iter(self.nodes.values()))
        done = subprocess.run([f"{TOOLS}/bin/patronictl", "-c", node.file, *arguments], text=True, capture_output=True,
                              env={"PATH": os.environ["PATH"], "HOME": folder, "LC_ALL": "C.UTF-8"})
        if done.returncode:
            raise SystemExit(f"patronictl {arguments}: {done.stdout}{done.stderr}")

    def switchover(self):
        primary = self.primary().name
        self.patronictl("switchover", "weir", "--primary", primary, "--candidate", OTHER[primary], "--force")

    def planned(self, weir):
        """As docs/howto/failover.md says: first Weir leaves the old primary. Patroni's API is what patronictl asks, too."""
        old, new = self.primary(), self.nodes[OTHER[self.primary().name]]
        switch = threading.Thread(target=weir.show, args=(f"SWITCH app 127.0.0.1:{new.port}",))
        switch.start()
        while any(server["port"] == old.port for server in weir.show("SHOW SERVERS")):
            time.sleep(0.02)
        order = json.dumps({"leader": old.name, "candidate": new.name}).encode()
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{old.api}/switchover", order), timeout=60).close()
        switch.join()

    def crash(self):
        node = self.primary()
        node.kill()
        # The lease in etcd has to end first.
        within("  the other node is the primary", 90, lambda: self.nodes[OTHER[node.name]].answers("primary"))
        node.start()

    def hang(self):
        """Nothing of the primary's node runs any more, and all its connections stay open."""
        node = self.primary()
        node.process.send_signal(signal.SIGSTOP)
        node.signal(signal.SIGSTOP)
        within("  the other node is the primary", 90, lambda: self.nodes[OTHER[node.name]].answers("primary"))
        self.hung = node

    def run(self, what, weir, act):
        """Runs clients while `act` moves the primary; returns their errors."""
        direct = [Direct(node) for node in self.nodes.values()]
        clients = [Client(number, weir.port) for number in range(CLIENTS)]
        time.sleep(4)
        began = time.monotonic()
        old = self.primary()
        act()
        new = self.nodes[OTHER[old.name]]
        within(f"{what}: the other node is the primary", 90, lambda: new.answers("primary"))
        within(f"{what}: Weir is there", 30, lambda: weir.show("SHOW PRIMARIES")[0]["primary"] == f"127.0.0.1:{new.port}",
               lambda: weir.show("SHOW PRIMARIES"))
        time.sleep(2)
        if self.hung:
            # A connection of the direct client hangs there, too.
            self.hung.kill()
            self.hung.start()
            self.hung = None
        for thread in [*direct, *clients]:
            thread.running = False
        for thread in [*direct, *clients]:
            thread.join(60)
        written = sorted(at for one in direct for at in one.written if at > began - 1)
        gap = max(after - before for before, after in zip(written, written[1:]))
        wait = max(wait for client in clients for at, wait in client.waits if at + wait > began)
        errors = [error for client in clients for error in client.errors]
        most = max(len(client.errors) for client in clients)
        done = sum(client.done for client in clients)
        codes = {code: sum(1 for _, other, _ in errors if other == code) for _, code, _ in errors}
        print(f"{what}: {done} transactions, {len(errors)} errors {codes or ''}, no primary took writes for {gap:.2f} s, longest wait "
              f"{wait:.2f} s ({wait / gap:.2f} times)", flush=True)
        check(f"{what}: errors are of transactions in flight, and may be retried", most <= 1 and {*codes} <= RETRYABLE, errors[:5])
        within(f"{what}: the nodes are whole again", 90, self.is_whole)
        return errors


def judge(stage, name, *lines):
    weir = Weir(name.replace(" ", "-"), stage.nodes.values(), *lines)
    for _ in range(ROUNDS):
        errors = stage.run(f"{name}, planned switchover", weir, lambda: stage.planned(weir))
        check("  no error", not errors, errors[:5])
        stage.run(f"{name}, switchover of which Weir is not told", weir, stage.switchover)
    stage.run(f"{name}, crash", weir, stage.crash)
    if lines:
        stage.run(f"{name}, the primary hangs", weir, stage.hang)
        said = sorted((row["url"].split("/")[-1], row["status"]) for row in weir.show("SHOW PATRONI"))
        check("  SHOW PATRONI has what Patroni says", said == [("primary", 200), ("primary", 503)], said)
    log = log_of(weir.name)
    told = {line.split("pooler error: ")[1] for line in log.splitlines() if "pooler error: " in line}
    known = {"server conn crashed?", "terminating connection because the primary has moved"}
    check("  clients were told that the server is lost (08006) or the primary has moved (57P01)", told <= known, told)
    check("  no worker has failed", "panicked" not in log and "broken" not in log)
    weir.stop()


stage = None


def run():
    global stage
    stage = Stage()
    stage.begin()
    apis = ", ".join(f'"http://127.0.0.1:{node.api}"' for node in stage.nodes.values())
    judge(stage, "without the REST API")
    judge(stage, "with the REST API", f"patroni_api = [{apis}]")


def clean():
    for node in stage.nodes.values() if stage else []:
        node.kill()


script(run, clean)
