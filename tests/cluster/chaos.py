#!/usr/bin/env python3
"""Five Weirs and three etcd, each in a network namespace of its own, that share the budget of one pool of a real PostgreSQL.

Needs root, `ip`, `iptables` and `unshare`. While all nodes are under load, etcd's leader is killed, minorities are cut off, nodes
and etcd's leader are frozen beyond a lease, and etcd's disks (small tmpfs) are filled. pg_stat_activity is sampled a hundred
times a second. Fails if the budget was exceeded once, or if a node serves no client or connections are missing after healing.
`chaos.py WEIR [STEP…]`: only these steps. `chaos.py WEIR --seed NUMBER [--rounds NUMBER]`: a schedule by chance, in which several of the
failures in disturbances.py overlap in each round, with clients that check their results. KEEP is in the environment.
"""

import argparse, json, os, random, shutil, signal, subprocess, sys, threading, time, urllib.request

if missing := [tool for tool in ("ip", "iptables", "unshare", "etcd", "psql") if not shutil.which(tool)]:
    sys.exit(f"not installed: {', '.join(missing)} (on Debian: iproute2, iptables, util-linux, etcd-server, postgresql-client)")
if os.environ.get("WEIR_CHAOS_NET") != "own":
    os.execvpe("unshare", ["unshare", "-n", sys.executable] + sys.argv, {**os.environ, "WEIR_CHAOS_NET": "own"})

# The namespace first: the import creates the folder.
from common import POSTGRES, WEIR, Sampler, account, database, failures, folder, processes, script, start
from disturbances import Schedule

BUDGET, LEASE, NODES, ETCDS = 20, 4, 5, 3
DISK = 200 << 20
options = argparse.ArgumentParser()
options.add_argument("weir")
options.add_argument("steps", nargs="*")
options.add_argument("--seed", type=int, help="of a schedule by chance")
options.add_argument("--rounds", type=int, default=12)
options = options.parse_args()
chance = random.Random(options.seed or 1)
spaces, mounts = [], []


def sh(*command):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Space:
    """A network namespace with one address, on the bridge of the script's own namespace."""

    def __init__(self, name, number):
        self.name, self.address = f"wc{os.getpid()}-{name}", f"10.99.0.{number}"
        sh("ip", "netns", "add", self.name)
        spaces.append(self)
        sh("ip", "link", "add", f"h{number}", "type", "veth", "peer", "name", "eth0", "netns", self.name)
        sh("ip", "link", "set", f"h{number}", "master", "br0", "up")
        for command in (["addr", "add", f"{self.address}/24", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            sh("ip", "-n", self.name, *command)

    def start(self, log, *command, **more):
        return start(log, "ip", "netns", "exec", self.name, *command, **more)

    def run(self, *command):
        sh("ip", "netns", "exec", self.name, *command)

    def rules(self, action, others):
        for other in others:
            for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
                self.run("iptables", action, chain, side, other.address, "-j", "DROP")


class Cut:
    """Packets between two sides are dropped silently, in both directions."""

    def __init__(self, one, other):
        self.one, self.other = [x.space for x in one], [x.space for x in other]
        [space.rules("-A", self.other) for space in self.one]

    def heal(self):
        [space.rules("-D", self.other) for space in self.one]


class Etcd:
    def __init__(self, number):
        self.name, self.space = f"etcd{number}", Space(f"etcd{number}", 20 + number)
        self.disk = f"{folder}/{self.name}"
        os.mkdir(self.disk)
        sh("mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk)
        mounts.append(self.disk)
        self.client, self.peer = f"http://{self.space.address}:2379", f"http://{self.space.address}:2380"

    def ask(self, path, timeout=10, **body):
        """A request to its gateway for JSON; nothing if it fails."""
        try:
            request = urllib.request.Request(f"{self.client}/v3/{path}", json.dumps(body).encode())
            return json.load(urllib.request.urlopen(request, timeout=timeout))
        except (OSError, ValueError):
            return {}

    def replace(self, other):
        """This member has lost its data, and comes back as another one."""
        members = other.ask("cluster/member/list").get("members", [])
        [other.ask("cluster/member/remove", ID=member["ID"]) for member in members if member["peerURLs"] == [self.peer]]
        until(20, lambda: other.ask("cluster/member/add", peerURLs=[self.peer]), f"{self.name} is not added again")
        shutil.rmtree(f"{self.disk}/data", ignore_errors=True)
        self.start("existing")

    def start(self, state="new"):
        peer = self.peer
        cluster = ",".join(f"etcd{n}=http://10.99.0.{20 + n}:2380" for n in range(1, ETCDS + 1))
        self.process = self.space.start(self.name, "etcd", "--name", self.name, "--data-dir", f"{self.disk}/data", "--listen-client-urls",
                                        self.client, "--advertise-client-urls", self.client, "--listen-peer-urls", peer,
                                        "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
                                        "--initial-cluster-state", state)

    def status(self):
        return self.ask("maintenance/status", timeout=1)

    def leads(self):
        status = self.status()
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    def kill(self):
        self.process.kill()
        self.process.wait()

    def fill(self):
        with open(f"{self.disk}/filler", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass

    def empty(self):
        """The disk has room again; etcd is started anew if it has ended."""
        os.path.exists(f"{self.disk}/filler") and os.remove(f"{self.disk}/filler")
        if self.process.poll() is not None:
            self.start()


class Postgres:
    name = "the server"

    def __init__(self):
        self.space, self.data = Space("pg", 10), database()
        with open(f"{self.data}/pg_hba.conf", "a") as file:
            file.write("host all all 10.99.0.0/24 trust\n")
        self.start()
        for statement in ("create role app login", "create database app owner app", "create role others login"):
            self.query(statement)
        query(self.space.address, 5432, "app", "create table written (number int primary key)", "app")

    def start(self):
        # Its process ids begin anew with each start, as in a container.
        self.process = self.space.start("postgres", "unshare", "--pid", "--fork", "--kill-child", "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups",
                                        f"{POSTGRES}/postgres", "-D", self.data, "-c", "listen_addresses=10.99.0.10", "-c",
                                        "unix_socket_directories=", "-c", "max_connections=100", "-c", "fsync=off")
        until(30, lambda: self.query("select 1"), "PostgreSQL does not start")

    def query(self, text):
        return query(self.space.address, 5432, "postgres", text, "postgres")

    def main(self):
        return int(subprocess.run(["pgrep", "-P", str(self.process.pid)], text=True, capture_output=True, check=True).stdout.split()[0])

    def restart(self, by):
        os.kill(self.main(), by)
        self.process.wait(30)
        self.start()

    def signal(self, number):
        """To all its processes."""
        main = self.main()
        children = subprocess.run(["pgrep", "-P", str(main)], text=True, capture_output=True).stdout.split()
        [os.kill(int(pid), number) for pid in [main, *children] if os.path.exists(f"/proc/{pid}")]

    def others(self, count):
        """Connections of another program."""
        command = [f"{POSTGRES}/pgbench", "-n", "-h", self.space.address, "-U", "others", "-c", str(count), "-T", "600", "-f",
                   f"{folder}/long.sql", "postgres"]
        return start("others", *command)


class Session:
    """A session of the pool's user that is not of the cluster."""

    def __init__(self, server):
        command = [f"{POSTGRES}/psql", "-h", server.space.address, "-U", "app", "-At", "-q", "-d", "app"]
        with open(f"{folder}/sessions.log", "ab") as log:
            self.psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        processes.append(self.psql)
        self.pid = self.ask("select pg_backend_pid();")

    def ask(self, text):
        self.psql.stdin.write(text + "\n")
        return self.psql.stdout.readline().strip()

    def lives(self):
        try:
            return self.ask("select pg_backend_pid();") == self.pid
        except OSError:
            return False

    def end(self):
        self.psql.kill()
        self.psql.wait()


class Node:
    def __init__(self, number, etcds, server):
        self.name, self.space, self.clients = f"node{number}", Space(f"node{number}", 30 + number), 10
        self.file, self.state = f"{folder}/{self.name}.toml", f"{folder}/{self.name}.floors"
        self.etcd, self.server = [etcd.client for etcd in etcds[number % ETCDS:] + etcds[:number % ETCDS]], server.space.address
        # A process takes over from the one with the same socket.
        os.mkdir(f"{folder}/{self.name}")
        self.write()
        self.start()

    def write(self, size=BUDGET, pool="app"):
        with open(self.file + ".new", "w") as file:
            file.write(f"""[general]
stats_users = ["viewer"]
shutdown_timeout = "2s"
[listen]
address = "{self.space.address}"
port = 6432
unix_socket_dir = "{folder}/{self.name}"
[auth]
type = "trust"
[auth.users]
app = ""
viewer = ""
[web]
address = "127.0.0.1"
port = 8080
[cluster]
etcd = {json.dumps(self.etcd)}
name = "chaos"
node = "{self.name}"
lease = "{LEASE}s"
floor = 1
state = "{self.state}"
[pools.{pool}]
host = "{self.server}"
user = "app"
mode = "transaction"
size = {size}
""")
        os.replace(self.file + ".new", self.file)

    def start(self):
        self.process = self.space.start(self.name, WEIR, "serve", self.file)

    def reload(self):
        self.process.poll() is None and self.process.send_signal(signal.SIGHUP)

    def upgrade(self):
        """Another process begins to take over; returns it."""
        return self.space.start(self.name, WEIR, "upgrade", "--foreground", self.file)

    def get(self, path):
        code = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8080{path}', timeout=5).read().decode())"
        command = ["ip", "netns", "exec", self.space.name, sys.executable, "-c", code]
        return subprocess.run(command, text=True, stdout=subprocess.PIPE, check=True).stdout

    def view(self):
        return json.loads(self.get("/api/v1/cluster"))

    def states(self):
        return {node["name"]: node["state"] for node in self.view()["nodes"]}

    def serves(self):
        return query(self.space.address, 6432, "app", "select 1", "app")


def query(host, port, user, text, database):
    environment = {**os.environ, "PGCONNECT_TIMEOUT": "3"}
    command = [f"{POSTGRES}/psql", "-h", host, "-p", str(port), "-U", user, "-At", "-d", database, "-c", text]
    try:
        return subprocess.run(command, env=environment, capture_output=True, timeout=8).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def until(seconds, what, failed):
    """Waits until something is true; returns the seconds, or notes the failure."""
    began = time.time()
    while not what():
        if time.time() > began + seconds:
            failures.append(failed)
            print("  FAILED:", failed, flush=True)
            break
        time.sleep(0.1)
    return time.time() - began


class Load(threading.Thread):
    """Clients of one node, with transactions of several lengths; those that had an error come back."""

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.running, self.process = node, True, None
        # A slow query outlasts a lease, also when its client and its node are gone.
        self.slow = 1 if options.seed is not None else 0

    def run(self):
        while self.running:
            with open(f"{folder}/load-{self.node.name}.log", "ab") as log:
                command = [f"{POSTGRES}/pgbench", "-n", "-h", self.node.space.address, "-p", "6432", "-U", "app", "-c", str(self.node.clients),
                           "-T", str(chance.randint(2, 8)), "-f", f"{folder}/short.sql@40", "-f", f"{folder}/long.sql@2", "-f",
                           f"{folder}/slow.sql@{self.slow}", "app"]
                self.process = subprocess.Popen(command, stdout=log, stderr=log)
                try:
                    self.process.wait(25)
                except subprocess.TimeoutExpired:
                    self.process.kill()
            time.sleep(0.2)


class Checker(threading.Thread):
    """A client of one node that checks each result, and notes what was written for certain."""

    numbers = iter(range(1, 1 << 30))

    def __init__(self, node):
        super().__init__(daemon=True)
        self.node, self.running, self.checked, self.written, self.psql = node, True, 0, [], None

    def connect(self):
        command = [f"{POSTGRES}/psql", "-h", self.node.space.address, "-p", "6432", "-U", "app", "-At", "-q", "-v", "ON_ERROR_STOP=1", "-d", "app"]
        with open(f"{folder}/checker-{self.node.name}.log", "ab") as log:
            self.psql = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)

    def ask(self, text):
        self.psql.stdin.write(text + "\n")
        return self.psql.stdout.readline().strip()

    def run(self):
        while self.running:
            try:
                if not self.psql or self.psql.poll() is not None:
                    self.connect()
                number = next(self.numbers)
                got = [self.ask(f"select {number} * 7;"), self.ask(f"begin; insert into written values ({number}) returning number;"),
                       self.ask("commit; select 'committed';")]
            except (OSError, ValueError):
                got = [""]
            wanted = [str(number * 7), str(number), "committed"]
            # An error ends psql: what follows is empty.
            if [line for line, right in zip(got, wanted) if line not in (right, "")]:
                failures.append(f"{self.node.name}: {got} instead of {wanted}")
            if got == wanted:
                self.checked += 1
                self.written.append(number)
            else:
                self.psql.kill()
                self.psql.wait()
            time.sleep(0.05)

    def end(self):
        self.running = False
        self.psql and self.psql.kill()


class World:
    cut = Cut

    def __init__(self):
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "br0", "type", "bridge")
        sh("ip", "addr", "add", "10.99.0.1/24", "dev", "br0")
        sh("ip", "link", "set", "br0", "up")
        for name, seconds in (("short", 0.02), ("long", 0.5), ("slow", 1.5 * LEASE)):
            with open(f"{folder}/{name}.sql", "w") as file:
                file.write(f"select pg_sleep({seconds});\n")
        self.etcds = [Etcd(n) for n in range(1, ETCDS + 1)]
        [etcd.start() for etcd in self.etcds]
        self.server = Postgres()
        until(30, self.leader, "etcd has no leader")
        self.nodes = [Node(n, self.etcds, self.server) for n in range(1, NODES + 1)]
        self.sampler = Sampler(BUDGET, self.server.space.address)
        self.healed("the start", 30)
        self.loads = [Load(node) for node in self.nodes]
        [load.start() for load in self.loads]
        self.healed("the load", 30)

    def leader(self):
        return next((etcd for etcd in self.etcds if etcd.leads()), None)

    def healed(self, what, seconds=25):
        """Every node serves a client again, and the budget is in use, as all have waiting clients."""
        began, worst = time.time(), 0.0
        for node in self.nodes:
            until(max(1, began + seconds - time.time()), node.serves, f"after {what}, {node.name} serves no client")
            worst = time.time() - began
        if getattr(self, "loads", None):
            full = until(seconds, lambda: self.sampler.now >= BUDGET - 2, f"after {what}, {self.sampler.now} of {BUDGET} connections are used")
            worst = max(worst, full)
        print(f"  healed after {worst:.1f} s; {self.sampler.samples} samples, at most {self.sampler.most}", flush=True)

    def leader_killed(self):
        for signal_sent in (signal.SIGKILL, signal.SIGSTOP):
            leader = self.leader()
            leader.process.send_signal(signal_sent)
            time.sleep(2.5 * LEASE)
            self.healed(f"{leader.name}, the leader, had signal {signal_sent}")
            if signal_sent == signal.SIGKILL:
                leader.process.wait()
                leader.start()
            else:
                leader.process.send_signal(signal.SIGCONT)
            self.healed(f"{leader.name} is back")

    def minority_cut(self):
        everyone = self.etcds + self.nodes
        sides = [[etcd] for etcd in self.etcds] + [[node] for node in self.nodes[:2]] + [self.nodes[2:4]]
        sides += [[etcd, *chance.sample(self.nodes, 2)] for etcd in self.etcds]
        for side in sides:
            cut = Cut(side, [other for other in everyone if other not in side])
            time.sleep(2.5 * LEASE)
            names = ", ".join(member.name for member in side)
            print(f"  {names} cut off: {self.sampler.now} connections", flush=True)
            cut.heal()
            self.healed(f"{names} cut off")

    def nodes_frozen(self):
        for count in (1, 2, 1, 3, 2):
            frozen, seconds = chance.sample(self.nodes, count), chance.choice([1.2, 1.5, 2, 3]) * LEASE
            [node.process.send_signal(signal.SIGSTOP) for node in frozen]
            time.sleep(seconds)
            [node.process.send_signal(signal.SIGCONT) for node in frozen]
            self.healed(f"{[node.name for node in frozen]} frozen for {seconds:.0f} s")

    def shared(self):
        return sum(share["share"] for share in self.nodes[0].view()["pools"][0]["shares"])

    def budget_reduced(self):
        """While all nodes use all they have, the budget becomes smaller, down to one: it is reached, and then never exceeded."""
        for size in (12, 7, 1):
            for node in self.nodes:
                node.write(size=size)
                node.reload()
            # Shares become smaller one after the other; a connection is closed before its share is.
            seconds = until(30, lambda: self.shared() <= size, f"with a budget of {size}, there are {self.sampler.now} connections")
            time.sleep(0.1)
            self.sampler.budget = size
            time.sleep(2 * LEASE)
            print(f"  a budget of {size}: after {seconds:.1f} s", flush=True)
        self.sampler.budget = BUDGET
        for node in self.nodes:
            node.write()
            node.reload()
        self.healed("the reductions")

    def etcd_emptied(self):
        """All etcds come back empty, within a lease and after it, also while nodes are frozen: the budget is not given out twice."""
        for seconds, frozen in ((0, []), (0, self.nodes[:2]), (1.5 * LEASE, [])):
            [node.process.send_signal(signal.SIGSTOP) for node in frozen]
            [etcd.kill() for etcd in self.etcds]
            time.sleep(seconds)
            for etcd in self.etcds:
                shutil.rmtree(f"{etcd.disk}/data", ignore_errors=True)
                etcd.start()
            until(30, self.leader, "etcd has no leader")
            time.sleep(2 * LEASE if frozen else 0)
            [node.process.send_signal(signal.SIGCONT) for node in frozen]
            self.healed(f"etcd came back empty after {seconds:.0f} s, {len(frozen)} nodes frozen", 40)

    def pids_again(self):
        """A node is lost, and its process ids are other programs' after a restart of the server: those are not ended."""
        self.server.restart(signal.SIGQUIT)
        self.healed("the server was restarted")
        lost, others = self.nodes[0], self.nodes[1:]
        time.sleep(1)
        lost.process.kill()
        lost.process.wait()
        [node.process.send_signal(signal.SIGSTOP) for node in others]
        self.sampler.budget += 40
        self.server.restart(signal.SIGQUIT)
        sessions = [Session(self.server) for _ in range(40)]
        [node.process.send_signal(signal.SIGCONT) for node in others]
        # The lost node's share is reclaimed, or stays reserved: nobody knows that those sessions are not its.
        time.sleep(5 * LEASE)
        dead = [session.pid for session in sessions if not session.lives()]
        print(f"  sessions {sessions[0].pid} to {sessions[-1].pid} are there, but for {dead}", flush=True)
        if dead:
            failures.append(f"sessions of another program were ended: {dead}")
        [session.end() for session in sessions]
        lost.start()
        self.healed("other sessions had the process ids of a lost node", 60)
        self.sampler.budget -= 40

    def views(self):
        """What the console, the API and the metrics of a node show while another is frozen, and afterwards."""
        seen, frozen = self.nodes[0], self.nodes[4]
        frozen.process.send_signal(signal.SIGSTOP)
        # Nobody fences a node that has its floor alone: it stays late.
        until(8 * LEASE, lambda: seen.states().get(frozen.name) in ("late", "lost"), f"{frozen.name} is frozen, and shown as a member")
        frozen.process.send_signal(signal.SIGCONT)
        members = {node.name: "member" for node in self.nodes}
        until(8 * LEASE, lambda: seen.states() == members, "not all nodes are shown as members")
        view = seen.view()
        pool = view["pools"][0]
        shares = {share["node"]: share["share"] for share in pool["shares"]}
        print("  ", view["node"], view["member_state"], pool["name"], pool["budget"], shares, flush=True)
        if (view["cluster"], view["node"], view["member_state"], pool["budget"]) != ("chaos", seen.name, "member", BUDGET) \
                or sum(shares.values()) > BUDGET or set(shares) != set(members):
            failures.append(f"the API shows {view}")
        table = subprocess.run([f"{POSTGRES}/psql", "-h", seen.space.address, "-p", "6432", "-U", "viewer", "-At", "-d", "weir", "-c",
                                "show cluster"], text=True, capture_output=True)
        rows = [line.split("|") for line in table.stdout.splitlines()]
        if {row[0] for row in rows} != set(members) or any(row[1:2] + row[3:5] != ["member", "app", str(BUDGET)] for row in rows):
            failures.append(f"SHOW CLUSTER: {table.stdout}{table.stderr}")
        metrics = seen.get("/metrics")
        wanted = [f'weir_cluster_member{{cluster="chaos",node="{seen.name}"}} 1', f'weir_cluster_budget{{database="app"}} {BUDGET}']
        lines = [line for line in metrics.splitlines() if line.startswith("weir_cluster_")]
        print("  ", *lines, sep="\n   ", flush=True)
        failures.extend(f"/metrics has no {line}: {lines}" for line in wanted if line not in lines)

    def disk_full(self):
        for full in ([self.leader()], self.etcds):
            [etcd.fill() for etcd in full]
            time.sleep(4 * LEASE)
            ended = [etcd.name for etcd in full if etcd.process.poll() is not None]
            print(f"  disks of {len(full)} full: {ended} ended, {self.sampler.now} connections", flush=True)
            [etcd.empty() for etcd in full]
            self.healed(f"the disks of {len(full)} etcd were full", 40)

    def schedule(self):
        checkers = [Checker(node) for node in self.nodes]
        [checker.start() for checker in checkers]
        schedule = Schedule(self, chance)
        for number in range(options.rounds):
            print(f"round {number + 1}", flush=True)
            schedule.round(LEASE)
            self.healed(f"round {number + 1}", 60)
        [checker.end() for checker in checkers]
        written = {number for checker in checkers for number in checker.written}
        command = [f"{POSTGRES}/psql", "-h", self.server.space.address, "-U", "postgres", "-At", "-d", "app", "-c", "select number from written"]
        found = {int(line) for line in subprocess.run(command, text=True, capture_output=True, check=True).stdout.split()}
        print(f"{len(written)} transactions were checked", flush=True)
        if written - found or not written:
            failures.append(f"committed, and not there: {sorted(written - found)[:10]} of {len(written)}")

    def end(self):
        for load in self.loads:
            load.running = False
            load.process and load.process.kill()
        self.sampler.judge()


STEPS = ["leader_killed", "minority_cut", "nodes_frozen", "budget_reduced", "etcd_emptied", "pids_again", "views", "disk_full"]


def run():
    world = World()
    for step in options.steps or (STEPS if options.seed is None else ["schedule"]):
        print(step.replace("_", " "), flush=True)
        getattr(world, step)()
    world.end()


def clean():
    [subprocess.run(["umount", mount]) for mount in mounts]
    [subprocess.run(["ip", "netns", "del", space.name]) for space in spaces]


script(run, clean)
