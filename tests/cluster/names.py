#!/usr/bin/env python3
"""Two processes with one node's name, and a real etcd and PostgreSQL, on this machine: `names.py WEIR`.

The second one says at /readyz, in SHOW CLUSTER and to a client that waits that the name is in use, and opens no connection, while the first
one serves as before. When that has ended, the second one is the node.
"""

import os, subprocess, urllib.error, urllib.request

from common import POSTGRES, WEIR, Etcd, check, folder, free_port, log_of, postgres, psql, script, start, wait_for, within

NAME = "another process has this node's name"


class Process:
    def __init__(self, title, etcd, server):
        self.title, self.port, self.web = title, free_port(), free_port()
        self.file = f"{folder}/{title}.toml"
        os.mkdir(f"{folder}/{title}")
        with open(self.file, "w") as file:
            file.write(f"""[general]
stats_users = ["app"]
[listen]
address = "127.0.0.1"
port = {self.port}
unix_socket_dir = "{folder}/{title}"
[auth]
type = "trust"
[auth.users]
app = ""
[limits]
query_wait_timeout = "1s"
[web]
address = "127.0.0.1"
port = {self.web}
[cluster]
etcd = ["http://127.0.0.1:{etcd.port}"]
name = "demo"
node = "same"
lease = "4s"
[pools.app]
host = "127.0.0.1"
port = {server}
user = "app"
mode = "transaction"
size = 4
""")
        self.process = start(title, WEIR, "serve", self.file)
        wait_for(self.port)
        wait_for(self.web)

    def ready(self):
        """The status of /readyz, and what it says."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.web}/readyz", timeout=10) as answer:
                return answer.status, answer.read().decode().strip()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()

    def ask(self, database, text):
        command = [f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", "app", "-At", "-d", database, "-c", text]
        done = subprocess.run(command, text=True, capture_output=True, timeout=60)
        return done.stdout.strip() or done.stderr.strip()

    def states(self):
        """By node, the state that SHOW CLUSTER has."""
        return {line.split("|")[0]: line.split("|")[1] for line in self.ask("weir", "show cluster").splitlines() if "|" in line}

    def log(self):
        return log_of(self.title)


def run():
    etcd, server = Etcd(), postgres("create role app login", "create database app owner app")
    first = Process("first", etcd, server)
    within("the first process is ready", 20, lambda: first.ready()[0] == 200, first.log)
    within("it serves a client", 20, lambda: first.ask("app", "select 6 * 7") == "42", first.log)
    opened = psql(server, "select count(*) from pg_stat_activity where usename = 'app'")
    second = Process("second", etcd, server)
    within("/readyz of the second one is 503, with the reason", 20, lambda: second.ready()[0] == 503 and NAME in second.ready()[1],
           lambda: f"{second.ready()} {second.log()}")
    check("SHOW CLUSTER of the second one has it", second.states().get("same") == "name in use", second.states())
    said = second.ask("app", "select 1")
    check("the error of a client that waits there says so", NAME in said, said)
    check("it has opened no connection", psql(server, "select count(*) from pg_stat_activity where usename = 'app'") == opened)
    check("the first one is ready, a member, and serves", (first.ready()[0], first.states(), first.ask("app", "select 6 * 7")) ==
          (200, {"same": "member"}, "42"), (first.ready(), first.states()))
    first.process.terminate()
    check("the first one ends in order", first.process.wait(60) == 0, first.log())
    within("the second one is ready then", 60, lambda: second.ready()[0] == 200, second.log)
    within("it is a member, and serves", 20, lambda: (second.states(), second.ask("app", "select 6 * 7")) == ({"same": "member"}, "42"), second.log)


script(run)
