#!/usr/bin/env python3
"""The configuration that three Weirs share through a real etcd, with a real PostgreSQL, on this machine: `config.py WEIR`.

Applied at one node, it is in force at all within two seconds; a file that is wrong, or holds a password, is refused whole; a node
that can't use a revision keeps the former one and reports it; a node that starts without etcd has the last good one; a change
through the API of one node is seen at the others; no secret is in etcd; with a key file, passwords are there encrypted, and a node with
another key refuses them.
"""

import base64, json, os, shutil, subprocess, time, urllib.error, urllib.request

from common import POSTGRES, WEIR, Etcd, check, folder, free_port, log_of, postgres, psql, script, start, wait_for, weir, within

SOON = 2
# Two leases, and some.
LATER = 40
# Within the wait of this test, and not a password that another program has.
SECRET, OTHER, THIRD, FOURTH = "the-secret-of-app", "another-secret", "a-third-secret", "of-eve-a-secret"


def dump(etcd):
    """All keys and values."""
    body = json.dumps({"key": base64.b64encode(b"\0").decode(), "range_end": base64.b64encode(b"\0").decode()})
    url = f"http://127.0.0.1:{etcd.port}/v3/kv/range"
    with urllib.request.urlopen(url, body.encode(), 10) as answer:
        found = json.load(answer).get("kvs", [])
    decoded = [(base64.b64decode(kv["key"]).decode(), base64.b64decode(kv.get("value", "")).decode()) for kv in found]
    return dict(decoded)


class Node:
    def __init__(self, name, etcd):
        self.name, self.port, self.web = name, free_port(), free_port()
        self.folder = f"{folder}/{name}"
        os.mkdir(self.folder)
        self.file = f"{self.folder}/weir.toml"
        with open(f"{self.folder}/app.password", "w") as file:
            file.write(SECRET + "\n")
        os.chmod(f"{self.folder}/app.password", 0o600)
        with open(self.file, "w") as file:
            file.write(f"""# {name}'s own
[listen]
address = "127.0.0.1"
port = {self.port}
[web]
address = "127.0.0.1"
port = {self.web}
[cluster]
etcd = ["http://127.0.0.1:{etcd.port}"]
name = "shared"
node = "{name}"
lease = "4s"
floor = 1
state = "{self.folder}/floors"
""")
        self.start()

    def start(self):
        self.process = start(self.name, WEIR, "serve", self.file)
        wait_for(self.port)
        wait_for(self.web)

    def api(self, path, method="GET", body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.web}/api/v1/{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"{}")

    def revision(self):
        return self.api("cluster")[1]["config_revision"]

    def refused(self):
        return self.api("cluster")[1]["config_refused"]

    def query(self, user="ann", password=OTHER, database="app", sql="select 1"):
        environment = {**os.environ, "PGPASSWORD": password, "PGCONNECT_TIMEOUT": "5"}
        done = subprocess.run([f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(self.port), "-U", user, "-At", "-d", database,
                               "-c", sql], text=True, capture_output=True, env=environment)
        return done.stdout.strip() if done.returncode == 0 else done.stderr.strip()

    def log(self):
        return log_of(self.name)


def shared_file(name, server, verifier, size=6, more=""):
    file = f"{folder}/{name}"
    with open(file, "w") as to:
        to.write(f"""# what all nodes share
[auth]
type = "scram-sha-256"

[auth.users]
ann = "{verifier}"

[pools.app]
host = "127.0.0.1"   # the server
port = {server}
user = "app"
password_file = "app.password"
size = {size}
{more}""")
    return file


def record(etcd):
    return json.loads(dump(etcd).get("/weir/shared/pool/app", "{}"))


def run():
    etcd = Etcd()
    server = postgres(f"create role app login password '{SECRET}'", "create database app owner app", f"create role ann login password '{OTHER}'",
                      hba="host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n", max_connections=100)
    verifier = psql(server, "select rolpassword from pg_authid where rolname = 'ann'")
    nodes = [Node(f"node{n}", etcd) for n in (1, 2, 3)]
    one, two, three = nodes
    print(f"etcd, PostgreSQL and three nodes without pools run in {folder}", flush=True)
    code, out, error = weir("export", one.file)
    check("export without a shared configuration fails and says how to get one", code == 1 and "apply" in error, error)

    print("a file is applied", flush=True)
    first = shared_file("first.toml", server, verifier)
    code, out, error = weir("diff", first, "--node", one.file)
    check("diff shows what is new, and exits with 1", code == 1 and "+ pool app" in out, (out, error))
    code, out, error = weir("apply", first, "--node", one.file, "--comment", "the first")
    check("apply shows the change, the revision and the nodes", code == 0 and "+ pool app" in out and "node node3 runs it" in out,
          (out, error))
    for node in nodes:
        within(f"{node.name} runs it", SOON, lambda: node.revision() > 0 and node.query() == "1", lambda: node.query())
    code, out, error = weir("diff", first, "--node", two.file)
    check("diff is empty then, and exits with 0", (code, out) == (0, ""), (code, out, error))
    code, out, error = weir("export", three.file)
    check("export prints the text with its comments", out == open(first).read(), out)
    code, out, error = weir(one.file)
    check("the status shows the revision and the comment", "the first" in out and "configuration" in out, out)

    print("another size", flush=True)
    began = time.time()
    code, out, error = weir("apply", shared_file("second.toml", server, verifier, size=9), "--node", one.file)
    check("apply shows the change of a key", code == 0 and "pool app size: 6 -> 9" in out, (out, error))
    for node in nodes:
        within(f"{node.name} has it", SOON, lambda: '9' in str(pool_size(node)), lambda: pool_size(node))
    within("etcd has the budget", SOON, lambda: record(etcd).get("budget") == 9, lambda: record(etcd))
    check("all within two seconds and the command's time", time.time() - began < 2 * SOON + 2)

    print("what is wrong is refused", flush=True)
    before = dump(etcd)["/weir/shared/settings"]
    bad = shared_file("bad.toml", server, verifier, more='sise = 3\n')
    code, out, error = weir("apply", bad, "--node", one.file)
    check("a mistake is shown with its file and line", code == 1 and "bad.toml:14" in error and "sise" in error, error)
    plain = shared_file("plain.toml", server, verifier)
    text = open(plain).read().replace('password_file = "app.password"', f'password = "{SECRET}"')
    open(plain, "w").write(text)
    code, out, error = weir("apply", plain, "--node", one.file)
    check("a password is refused with what to do", code == 1 and "password_file" in error and "secrets_key_file" in error and SECRET not in error + out, error)
    users = shared_file("users.toml", server, OTHER)
    code, out, error = weir("apply", users, "--node", one.file)
    check("a user's password is refused", code == 1 and "auth.users.ann" in error and OTHER not in error + out, error)
    check("nothing was written", dump(etcd)["/weir/shared/settings"] == before)

    print("a node that can't use a revision keeps the former one", flush=True)
    for node in (one, two):
        shutil.copy(f"{node.folder}/app.password", f"{node.folder}/new.password")
    moved = shared_file("moved.toml", server, verifier, size=8)
    text = open(moved).read().replace("app.password", "new.password")
    open(moved, "w").write(text)
    code, out, error = weir("apply", moved, "--node", one.file)
    check("apply reports the node", code == 1 and "node3 refuses it" in out and "new.password" in out, (out, error))
    check("the others run it", one.revision() == two.revision() > three.revision() > 0)
    check("the node serves with the former one", three.query() == "1" and "9" in str(pool_size(three)), pool_size(three))
    check("its API says why", "new.password" in three.refused(), three.refused())
    check("its log says why", "is refused, the former one stays" in three.log())
    check("its metrics say that", metric(three, "weir_cluster_config_refused") == 1 and metric(one, "weir_cluster_config_refused") == 0)
    within("others show it", 8, lambda: any("new.password" in row["config_refused"] for row in one.api("cluster")[1]["nodes"]))
    check("the newest decides the budget", record(etcd).get("budget") == 8, record(etcd))
    code, answer = three.api("pools/app", "PATCH", {"size": 5})
    check("a change at the outdated node is a conflict", code == 409, (code, answer))
    shutil.copy(f"{one.folder}/app.password", f"{three.folder}/new.password")
    code, answer = three.api("reload", "POST")
    within("with the file, a reload adopts it", SOON, lambda: three.revision() == one.revision() and not three.refused(),
           lambda: (code, answer, three.revision(), three.refused()))

    print("a change by the API", flush=True)
    revision = one.revision()
    code, answer = two.api("pools/app?comment=more-for-app", "PATCH", {"size": 7})
    check("node2 takes it", code == 200, (code, answer))
    for node in nodes:
        within(f"{node.name} has it", SOON, lambda: node.revision() > revision and "7" in str(pool_size(node)),
               lambda: (node.revision(), pool_size(node)))
    code, out, error = weir("export", one.file)
    check("export has it, with the comments", "size = 7" in out and "# the server" in out, out)
    versions = three.api("config/versions")
    check("the history of node3 has it, with node and comment",
          all(word in json.dumps(versions) for word in ('"cluster"', '"node2"', '"more-for-app"')), versions)
    code, answer = two.api("pools/app", "PATCH", {"password": SECRET, "password_file": None})
    check("a password by the API is refused", code == 400 and "secrets_key_file" in str(answer) and SECRET not in str(answer), (code, answer))
    check("the nodes' own files are as they were", all("[pools" not in open(node.file).read() for node in nodes))

    print("a node starts without etcd", flush=True)
    # Killed: a node that leaves in order gives its floors up.
    three.process.kill()
    three.process.wait()
    etcd.stop()
    three.start()
    within("it has the last good revision", LATER, lambda: three.query() == "1" and "7" in str(pool_size(three)), three.query)
    within("it reports which", SOON, lambda: three.revision() > revision, three.revision)
    check("its log says so", "from disk" in three.log())
    code, answer = three.api("pools/app", "PATCH", {"size": 3})
    check("a change is refused then", code == 503, (code, answer))
    etcd.start()
    within("with etcd back, a change is taken", 15, lambda: three.api("pools/app", "PATCH", {"size": 4})[0] == 200)
    for node in nodes:
        within(f"{node.name} has it", 10, lambda: "4" in str(pool_size(node)), lambda: pool_size(node))

    encrypted(etcd, server, nodes)
    ended(etcd, server, nodes)
    stored = json.dumps(dump(etcd))
    check("no secret is in etcd", not any(secret in stored for secret in (SECRET, OTHER, THIRD, FOURTH)))
    copies = [open(f"{n.folder}/floors.settings").read() for n in nodes]
    check("no secret is in the nodes' copies", not any(s in copy for s in (SECRET, OTHER, THIRD, FOURTH) for copy in copies))
    check("the copies are private", all(os.stat(f"{n.folder}/floors.settings").st_mode & 0o77 == 0 for n in nodes))


def keys(node, *lines):
    with open(f"{node.folder}/cluster.key", "w") as to:
        to.write("\n".join(lines) + "\n")
    os.chmod(f"{node.folder}/cluster.key", 0o600)


def encrypted(etcd, server, nodes):
    print("with a key file, secrets are encrypted", flush=True)
    one, two, three = nodes
    code, out, error = weir("key", f"{one.folder}/cluster.key")
    check("a key is made, for its owner only", code == 0 and os.stat(f"{one.folder}/cluster.key").st_mode & 0o77 == 0, error)
    check("it is not overwritten", weir("key", f"{one.folder}/cluster.key")[0] == 1)
    first, other = open(f"{one.folder}/cluster.key").read().strip(), weir("key")[1].strip()
    keys(two, first)
    keys(three, other)
    for node in nodes:
        with open(node.file, "a") as to:
            to.write('secrets_key_file = "cluster.key"\n')
        node.process.terminate()
        node.process.wait()
        node.start()
    before = one.revision()
    plain = shared_file("with-secrets.toml", server, OTHER)
    text = open(plain).read().replace('password_file = "app.password"', f'password = "{SECRET}"')
    open(plain, "w").write(text)
    code, out, error = weir("apply", plain, "--node", one.file)
    check("a node with another key refuses it, and says what to do", code == 1 and "node3 refuses it" in out and "add that key" in out,
          (out, error))
    check("nothing secret is printed", SECRET not in out + error and OTHER not in out + error, (out, error))
    check("the others run it", one.revision() == two.revision() > three.revision() >= before)
    for node in (one, two, three):
        check(f"{node.name} serves", node.query() == "1", node.query())
    stored = json.dumps(dump(etcd))
    check("etcd has the encrypted form", stored.count("enc:v1:") == 2 and SECRET not in stored and OTHER not in stored)
    keys(three, other, first)
    three.api("reload", "POST")
    within("with that key, a reload adopts it", SOON, lambda: three.revision() == one.revision() and not three.refused(),
           lambda: (three.revision(), three.refused()))
    keys(three, first)
    code, out, error = weir("diff", plain, "--node", one.file)
    check("diff compares what is decrypted", (code, out) == (0, ""), (out, error))
    code, exported, error = weir("export", one.file)
    check("export prints the encrypted form", code == 0 and exported.count("enc:v1:") == 2 and SECRET not in exported, error)
    code, out, error = weir("apply", "-", "--node", one.file, stdin=exported)
    check("apply takes it back, and there is nothing to change", code == 0 and "nothing to change" in out, (out, error))
    check("export --plain prints the file as it was", weir("export", "--plain", one.file)[1] == text)
    values = [line.split('"')[1] for line in exported.splitlines() if "enc:v1:" in line]
    swapped = exported.replace(values[0], "-").replace(values[1], values[0]).replace('"-"', f'"{values[1]}"')
    code, out, error = weir("apply", "-", "--node", one.file, stdin=swapped)
    check("swapped secrets are refused", code == 1 and "another place" in error, (out, error))

    print("a password by the API is encrypted", flush=True)
    psql(server, f"alter role app password '{THIRD}'")
    revision = one.revision()
    code, answer = two.api("pools/app", "PATCH", {"password": THIRD})
    check("node2 takes it", code == 200 and THIRD not in str(answer), (code, answer))
    code, answer = three.api("users", "POST", {"name": "eve", "password": FOURTH})
    within("node3 takes a user", SOON, lambda: code in (200, 201) or three.api("users", "POST", {"name": "eve", "password": FOURTH})[0] < 300,
           lambda: (code, answer))
    for node in nodes:
        within(f"{node.name} knows the user", SOON, lambda: node.revision() > revision + 1 and node.query("eve", FOURTH) == "1",
               lambda: node.query("eve", FOURTH))
    psql(server, "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app'")
    for node in nodes:
        within(f"{node.name} logs in with the new password", SOON, lambda: node.query() == "1", node.query)
    code, out, error = weir("diff", plain, "--node", one.file)
    check("diff shows that it differs, and not how", code == 1 and "(another secret)" in out and SECRET not in out and THIRD not in out, out)
    changes = json.dumps(one.api("config/versions"))
    check("the history has no secret", THIRD not in changes and FOURTH not in changes)

    print("another key", flush=True)
    second = weir("key")[1].strip()
    for node in nodes:
        keys(node, second, first)
    revision, exported = one.revision(), weir("export", one.file)[1]
    code, out, error = weir("apply", "-", "--node", one.file, stdin=exported)
    again = weir("export", one.file)[1]
    # The API stores a verifier of eve's password, which is no secret to encrypt.
    check("apply encrypts again what export printed", code == 0 and again.count("enc:v1:") == 2 and 'eve = "SCRAM' in again,
          (out, error, again))
    for node in nodes:
        keys(node, second)
    two.process.kill()
    two.process.wait()
    etcd.stop()
    two.start()
    # The one before was killed: its queries may still run.
    within("a node starts without etcd, with the encrypted copy", LATER, lambda: two.query() == "1" and two.query("eve", FOURTH) == "1", two.query)
    etcd.start()
    os.chmod(f"{three.folder}/cluster.key", 0o644)
    code, answer = three.api("reload", "POST")
    check("a key that others can read is refused", code >= 400 and "chmod 600" in str(answer), (code, answer))
    check("and the node serves on", three.query() == "1")
    os.chmod(f"{three.folder}/cluster.key", 0o600)
    within("with another mode a reload succeeds", 10, lambda: three.api("reload", "POST")[0] < 300)
    within("node1 is a member again", 15, lambda: one.api("pools/app", "PATCH", {"size": 5})[0] == 200)
    for node in nodes:
        within(f"{node.name} has it", 10, lambda: "5" in str(pool_size(node)), lambda: pool_size(node))


def ended(etcd, server, nodes):
    print("the shared configuration is ended", flush=True)
    one, two, three = nodes
    code, out, error = weir("end", one.file)
    check("not by a node whose file has no pools", code == 1 and "has no pools" in error, (out, error))
    for node in (one, two):
        with open(node.file, "a") as to:
            to.write(f'''
[auth.users]
ann = "{OTHER}"
[pools.app]
host = "127.0.0.1"
port = {server}
user = "app"
password = "{THIRD}"
size = 11
[pools.own]
host = "127.0.0.1"
port = {server}
dbname = "app"
user = "app"
password = "{THIRD}"
''')
    code, out, error = weir("end", one.file, "--comment", "back to files")
    check("the changes and the nodes are shown", code == 1 and "+ pool own" in out and "pool app size: 5 -> 11" in out
          and "node node2 has its own file's" in out and "node node3 refuses it" in out and "has no pools" in out, (out, error))
    check("nothing secret is printed", THIRD not in out + error and OTHER not in out + error)
    for node in (one, two):
        within(f"{node.name} has its own pools", SOON, lambda: node.query(database="own") == "1" and "11" in str(pool_size(node)),
               lambda: (node.query(database="own"), pool_size(node)))
        check("and no user of the shared ones", node.query("eve", FOURTH) != "1")
    check("a node without pools keeps the shared ones", three.query("eve", FOURTH) == "1" and "has no pools" in three.refused(), three.refused())
    within("the files' budget is in etcd", SOON, lambda: record(etcd).get("budget") == 11, lambda: record(etcd))
    code, out, error = weir(one.file)
    check("the status says so", "ended with revision" in out and "back to files" in out and "its own configuration" in out, out)
    code, out, error = weir("export", "--plain", one.file)
    check("export prints what was shared", code == 0 and THIRD in out and "has ended it" in error, error)
    former = weir("export", one.file)[1]
    check("it can't be ended twice", weir("end", one.file)[0] == 1)
    code, answer = one.api("pools/own", "PATCH", {"size": 3})
    check("a change goes into the node's file", code == 200 and "size = 3" in open(one.file).read(), (code, answer))
    check("and to no other node", "size = 3" not in open(two.file).read())
    code, answer = three.api("pools/app", "PATCH", {"size": 3})
    check("a change at the node that has refused it is a conflict", code == 409, (code, answer))
    # Killed: a node that leaves in order gives its floors up.
    for node in (two, three):
        node.process.kill()
        node.process.wait()
        node.start()
    check("a restart keeps that", two.query(database="own") == "1" and three.query("eve", FOURTH) == "1")
    three.process.kill()
    three.process.wait()
    with open(three.file, "a") as to:
        to.write(f'[pools.own]\nhost = "127.0.0.1"\nport = {server}\ndbname = "app"\nuser = "app"\npassword = "{THIRD}"\n'
                 f'[auth.users]\nann = "{OTHER}"\n')
    three.start()
    within("with pools in its file, node3 has them", SOON, lambda: three.query(database="own") == "1" and not three.refused(), three.refused)
    etcd.stop()
    two.process.kill()
    two.process.wait()
    two.start()
    within("a node that starts without etcd has its own file's", LATER, lambda: two.query() == "1" and "11" in str(pool_size(two)), two.query)
    etcd.start()
    within("apply begins it again", 10, lambda: weir("apply", "-", "--node", one.file, stdin=former)[0] == 0)
    for node in nodes:
        within(f"{node.name} has the shared pools", 10, lambda: node.query("eve", FOURTH) == "1" and node.query(database="own") != "1",
               lambda: node.query("eve", FOURTH))


def pool_size(node):
    """The pool's size as it is written."""
    code, found = node.api("pools/app/config")
    return json.dumps(found).partition('"size": ')[2][:3] if code == 200 else None


def metric(node, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{node.web}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(name):
                return float(line.split()[-1])


script(run)
