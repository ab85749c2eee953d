#!/usr/bin/env python3
"""Five Weirs and three etcd, each in a network namespace of its own, that share the budget of one pool of a real PostgreSQL.

Needs root, `ip`, `iptables` and `unshare`. While all nodes are under load, etcd's leader is killed, minorities are cut off, nodes
and etcd's leader are frozen beyond a lease, and etcd's disks (small tmpfs) are filled. pg_stat_activity is sampled a hundred
times a second. Fails if the budget was exceeded once, or if a node serves no client or connections are missing after healing.
`chaos.py WEIR [STEP…]`: only these steps; SEED and KEEP are in the environment.
"""

import json, os, random, shutil, signal, subprocess, sys, threading, time, urllib.request

if missing := [tool for tool in ("ip", "iptables", "unshare", "etcd", "psql") if not shutil.which(tool)]:
    sys.exit(f"not installed: {', '.join(missing)} (on Debian: iproute2, iptables, util-linux, etcd-server, postgresql-client)")
if os.environ.get("WEIR_CHAOS_NET") != "own":
    os.execvpe("unshare", ["unshare", "-n", sys.executable] + sys.argv, {**os.environ, "WEIR_CHAOS_NET": "own"})

# The namespace first: the import creates the folder.
from common import POSTGRES, WEIR, Sampler, account, database, failures, folder, processes, script, start

BUDGET, LEASE, NODES, ETCDS = 20, 4, 5, 3
DISK = 200 << 20
chance = random.Random(int(os.environ.get("SEED", "1")))
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

    def rules(self, action, others):
        for other in others:
            for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d")):
                sh("ip", "netns", "exec", self.name, "iptables", action, chain, side, other.address, "-j", "DROP")


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
        self.client = f"http://{self.space.address}:2379"

    def start(self):
        peer = f"http://{self.space.address}:2380"
        cluster = ",".join(f"etcd{n}=http://10.99.0.{20 + n}:2380" for n in range(1, ETCDS + 1))
        self.process = self.space.start(self.name, "etcd", "--name", self.name, "--data-dir", f"{self.disk}/data", "--listen-client-urls",
                                        self.client, "--advertise-client-urls", self.client, "--listen-peer-urls", peer,
                                        "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster)

    def status(self):
        try:
            request = urllib.request.Request(self.client + "/v3/maintenance/status", b"{}")
            return json.load(urllib.request.urlopen(request, timeout=1))
        except (OSError, ValueError):
            return {}

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
    def __init__(self):
        self.space, data = Space("pg", 10), database()
        with open(f"{data}/pg_hba.conf", "a") as file:
            file.write("host all all 10.99.0.0/24 trust\n")
        self.space.start("postgres", "setpriv", f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups",
                         f"{POSTGRES}/postgres", "-D", data, "-c", "listen_addresses=10.99.0.10", "-c", "unix_socket_directories=",
                         "-c", "max_connections=100", "-c", "fsync=off")
        until(30, lambda: query(self.space.address, 5432, "postgres", "select 1", "postgres"), "PostgreSQL does not start")
        for statement in ("create role app login", "create database app owner app"):
            query(self.space.address, 5432, "postgres", statement, "postgres")


class Node:
    def __init__(self, number, etcds, server):
        self.name, self.space, self.clients = f"node{number}", Space(f"node{number}", 30 + number), 10
        self.file = f"{folder}/{self.name}.toml"
        with open(self.file, "w") as file:
            file.write(f"""[general]
stats_users = ["viewer"]
[listen]
address = "{self.space.address}"
port = 6432
[auth]
type = "trust"
[auth.users]
app = ""
viewer = ""
[web]
address = "127.0.0.1"
port = 8080
[cluster]
etcd = {json.dumps([etcd.client for etcd in etcds[number % ETCDS:] + etcds[:number % ETCDS]])}
name = "chaos"
node = "{self.name}"
lease = "{LEASE}s"
floor = 1
state = "{folder}/{self.name}.floors"
[pools.app]
host = "{server.space.address}"
user = "app"
mode = "transaction"
size = {BUDGET}
""")
        self.start()

    def start(self):
        self.process = self.space.start(self.name, WEIR, "serve", self.file)

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

    def run(self):
        while self.running:
            with open(f"{folder}/load-{self.node.name}.log", "ab") as log:
                command = [f"{POSTGRES}/pgbench", "-n", "-h", self.node.space.address, "-p", "6432", "-U", "app", "-c", str(self.node.clients),
                           "-T", str(chance.randint(2, 8)), "-f", f"{folder}/short.sql@20", "-f", f"{folder}/long.sql@1", "app"]
                self.process = subprocess.Popen(command, stdout=log, stderr=log)
                try:
                    self.process.wait(25)
                except subprocess.TimeoutExpired:
                    self.process.kill()
            time.sleep(0.2)


class World:
    def __init__(self):
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "br0", "type", "bridge")
        sh("ip", "addr", "add", "10.99.0.1/24", "dev", "br0")
        sh("ip", "link", "set", "br0", "up")
        for name, seconds in (("short", 0.02), ("long", 0.5)):
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

    def views(self):
        """What the console, the API and the metrics of a node show while another is frozen, and afterwards."""
        seen, frozen = self.nodes[0], self.nodes[4]
        frozen.process.send_signal(signal.SIGSTOP)
        # Nobody fences a node that has its floor alone: it stays silent.
        until(8 * LEASE, lambda: seen.states().get(frozen.name) in ("silent", "lost"), f"{frozen.name} is frozen, and shown as a member")
        frozen.process.send_signal(signal.SIGCONT)
        members = {node.name: "member" for node in self.nodes}
        until(8 * LEASE, lambda: seen.states() == members, "not all nodes are shown as members")
        view = seen.view()
        pool = view["pools"][0]
        shares = {share["node"]: share["share"] for share in pool["shares"]}
        print("  ", view["node"], view["standing"], pool["name"], pool["budget"], shares, flush=True)
        if (view["cluster"], view["node"], view["standing"], pool["budget"]) != ("chaos", seen.name, "member", BUDGET) \
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

    def end(self):
        for load in self.loads:
            load.running = False
            load.process and load.process.kill()
        self.sampler.judge()


STEPS = ["leader_killed", "minority_cut", "nodes_frozen", "views", "disk_full"]


def run():
    world = World()
    for step in sys.argv[2:] or STEPS:
        print(step.replace("_", " "), flush=True)
        getattr(world, step)()
    world.end()


def clean():
    [subprocess.run(["umount", mount]) for mount in mounts]
    [subprocess.run(["ip", "netns", "del", space.name]) for space in spaces]


script(run, clean)
