#!/usr/bin/env python3
"""Three Weirs that share the budget of one pool through a real etcd and a real PostgreSQL on this machine.

Samples pg_stat_activity a hundred times a second while the load moves from node to node, a node is frozen for longer than its
lease, and etcd is killed and started again. Fails if the budget was exceeded once, or if the load does not get its
connections back. `run.py WEIR`; `run.py WEIR freeze ROUNDS`: nodes under load are frozen and resumed, each for up to three
leases, that many times; `run.py WEIR roll ROUNDS`: nodes under load are stopped in order and started again, one after the other;
`run.py WEIR upgrade ROUNDS`: another process takes over from each node under load, in turn, and no client may have an error; in later
rounds one of the two processes is frozen or killed meanwhile, and then the old one before it has handed over anything; `run.py WEIR demo` serves until it is interrupted.
"""

import os, random, signal, subprocess, sys, threading, time

from common import POSTGRES, WEIR, Etcd, Sampler, failures, folder, free_port, log_of, postgres, script, start, wait_for

DEMO = sys.argv[2:] == ["demo"]
FREEZE = int(sys.argv[3]) if sys.argv[2:3] == ["freeze"] else 0
ROLL = int(sys.argv[3]) if sys.argv[2:3] == ["roll"] else 0
UPGRADE = int(sys.argv[3]) if sys.argv[2:3] == ["upgrade"] else 0
BUDGET, LEASE = 12, 4
SCRIPT = f"{folder}/script.sql"
with open(SCRIPT, "w") as to:
    to.write("select pg_sleep(0.02);\n")


class Node:
    def __init__(self, name, etcd, server):
        self.name, self.port = name, free_port()
        self.file = f"{folder}/{name}.toml"
        self.web = free_port() if DEMO else 0
        web = f'[web]\naddress = "127.0.0.1"\nport = {self.web}\n' if DEMO else ""
        with open(self.file, "w") as file:
            file.write(f"""[general]
shutdown_timeout = "1s"
[listen]
address = "127.0.0.1"
port = {self.port}
[auth]
type = "trust"
[auth.users]
app = ""
{web}[cluster]
etcd = ["http://127.0.0.1:{etcd.port}"]
name = "demo"
node = "{name}"
lease = "{LEASE}s"
floor = 1
state = "{folder}/{name}.floors"
[pools.app]
host = "127.0.0.1"
port = {server}
user = "app"
mode = "transaction"
size = {BUDGET}
""")
        self.process = start(name, WEIR, "serve", self.file)
        wait_for(self.port)


class Load:
    """Clients of one node, each with short transactions one after the other, in pgbench."""

    def __init__(self, node, clients):
        self.name = node.name
        self.process = start(f"load-{node.name}", f"{POSTGRES}/pgbench", "-n", "-h", "127.0.0.1", "-p", str(node.port), "-U",
                             "app", "-c", str(clients), "-T", "3600", "-f", SCRIPT, "app")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def has_failed(self):
        return self.process.poll() is not None or "error" in log_of(f"load-{self.name}")


def shares(node):
    out = subprocess.run([WEIR, "cluster", node.file], text=True, capture_output=True)
    return out.stdout.strip() or out.stderr.strip()


def reaches(sampler, wanted, seconds, what):
    began = time.time()
    while time.time() < began + seconds:
        if sampler.now >= wanted:
            print(f"  {what}: {wanted} connections after {time.time() - began:.1f} s", flush=True)
            return True
        time.sleep(0.05)
    failures.append(f"{what}: {sampler.now} of {wanted} connections after {seconds} s")
    print("  FAILED", failures[-1], flush=True)
    return False


def share_of(node, name):
    for line in shares(node).splitlines():
        if line.startswith("pool app"):
            for part in line.partition(": ")[2].partition(": ")[2].split("; "):
                if part.startswith(name + " has "):
                    return int(part.split()[2])
    return 0


def moves(node, via, wanted, seconds, what):
    began = time.time()
    while time.time() < began + seconds:
        if share_of(via, node.name) >= wanted:
            print(f"  {what}: a share of {wanted} after {time.time() - began:.1f} s", flush=True)
            return
        time.sleep(0.1)
    failures.append(f"{what}: {share_of(via, node.name)} of {wanted} after {seconds} s")
    print("  FAILED", failures[-1], shares(via), flush=True)


def freeze_rounds(nodes, sampler):
    """Nodes are frozen at random moments under a load whose clients come back; sometimes two at a time."""
    chance = random.Random(int(os.environ.get("SEED", "1")))
    stop = threading.Event()

    rounds = [0]

    def clients(node):
        while not stop.is_set():
            # pgbench continues without the clients that had an error: it begins anew after each round.
            load, began = Load(node, 15), rounds[0]
            while load.process.poll() is None and rounds[0] == began and not stop.wait(0.2):
                pass
            load.stop()

    threads = [threading.Thread(target=clients, args=(node,), daemon=True) for node in nodes]
    [thread.start() for thread in threads]
    time.sleep(2)
    for turn in range(FREEZE):
        frozen = chance.sample(nodes, chance.choice([1, 1, 1, 2]))
        seconds = chance.choice([0.5, 1, 1.5, 2, 3]) * LEASE
        [node.process.send_signal(signal.SIGSTOP) for node in frozen]
        time.sleep(seconds)
        held = [share_of(nodes[0], node.name) for node in frozen]
        [node.process.send_signal(signal.SIGCONT) for node in frozen]
        print(f"  round {turn + 1}: {[node.name for node in frozen]} frozen for {seconds:.0f} s, had {held} at its end; "
              f"{sampler.samples} samples, at most {sampler.most}", flush=True)
        rounds[0] += 1
        time.sleep(chance.uniform(1, 2 * LEASE))
    stop.set()
    [thread.join() for thread in threads]


def roll(nodes, sampler):
    """Each node in turn is stopped while its clients and those of the others are busy."""
    loads = [Load(node, 15) for node in nodes]
    time.sleep(3)
    for turn in range(ROLL):
        at = turn % len(nodes)
        node, other = nodes[at], nodes[(at + 1) % len(nodes)]
        began = time.time()
        # TERM waits for the clients, which stay until shutdown_timeout.
        wanted = [signal.SIGINT, signal.SIGTERM][turn // len(nodes) % 2]
        node.process.send_signal(wanted)
        status, ended = node.process.wait(30), time.time()
        kept = share_of(other, node.name)
        print(f"  round {turn + 1}: {wanted.name}: {node.name} ended after {ended - began:.1f} s with a share of {kept}; "
              f"{sampler.samples} samples, at most {sampler.most}", flush=True)
        if status or kept:
            failures.append(f"round {turn + 1}: {node.name} ended with status {status} and a share of {kept}")
        reaches(sampler, BUDGET - 1, 10, "the others use the budget")
        for number, load in enumerate(loads):
            if number != at and load.process.poll() is not None:
                failures.append(f"round {turn + 1}: clients of {nodes[number].name} had an error")
        loads[at].stop()
        node.process = start(node.name, WEIR, "serve", node.file)
        wait_for(node.port)
        loads[at] = Load(node, 15)
        moves(node, other, BUDGET // 3 - 1, 20, f"a fair share for {node.name} after its start")


def take_over(node):
    """Another process begins to take over from the node's; returns the old one."""
    old, node.process = node.process, start(node.name, WEIR, "upgrade", "--foreground", node.file)
    return old


def serves_after(node):
    """When the node has served a client; the moment goes to the failures if that takes too long."""
    command = [f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(node.port), "-U", "app", "-d", "app", "-c", "select 1"]
    if subprocess.run(command, stdout=subprocess.DEVNULL, env={**os.environ, "PGCONNECT_TIMEOUT": "20"}).returncode:
        failures.append(f"{node.name} serves no client")
    return time.time()


def upgrade(nodes, sampler):
    loads = [Load(node, 15) for node in nodes]
    time.sleep(3)
    for turn in range(UPGRADE):
        at = turn % len(nodes)
        node, other = nodes[at], nodes[(at + 1) % len(nodes)]
        # A transaction that lasts keeps the old process: its connection is a part of the node's share.
        long = turn % 2 and start("long", f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(node.port), "-U", "app", "-d", "app",
                                  "-c", f"select pg_sleep({2 * LEASE})")
        time.sleep(0.5)
        began, before = time.time(), share_of(other, node.name)
        old = take_over(node)
        status = old.wait(60)
        print(f"  round {turn + 1}: {node.name}'s old process ended after {time.time() - began:.1f} s; its share was {before} and is "
              f"{share_of(other, node.name)}; {sampler.samples} samples, at most {sampler.most}", flush=True)
        if status or (long and long.wait(60)):
            failures.append(f"round {turn + 1}: the old process ended with status {status}, or the long query had an error")
        moves(node, other, BUDGET // 3 - 1, 20, f"a fair share for {node.name}")
        failures.extend(f"round {turn + 1}: clients of {load.name} had an error" for load in loads if load.has_failed())
    for turn, (frozen, end) in enumerate((which, how) for which in ("old", "new") for how in (signal.SIGCONT, signal.SIGKILL)):
        at = turn % len(nodes)
        node, other = nodes[at], nodes[(at + 1) % len(nodes)]
        open(f"{folder}/{node.name}.log", "w").close()
        start("long", f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(node.port), "-U", "app", "-d", "app", "-c",
              f"select pg_sleep({LEASE})")
        time.sleep(0.5)
        old = take_over(node)
        while " takes over" not in log_of(node.name):
            time.sleep(0.01)
        time.sleep(0.2)
        new, process = node.process, old if frozen == "old" else node.process
        process.send_signal(signal.SIGSTOP)
        if frozen == "new":
            # The old process ends it, and accepts again; or it is ended by another one before.
            began, node.process = time.time(), old
            if end == signal.SIGKILL:
                time.sleep(1)
                new.kill()
            new.wait(60)
            took = time.time() - began
            print(f"  {node.name} serves again after {serves_after(node) - began:.1f} s; the new process lived for {took:.1f} s", flush=True)
        time.sleep(2.5 * LEASE)
        process.send_signal(end)
        if frozen == "old" and end == signal.SIGCONT:
            old.wait(60)
        print(f"  the {frozen} process of {node.name} was frozen while it was replaced, then {end.name}; at most {sampler.most}", flush=True)
        loads[at].stop()
        loads[at] = Load(node, 15)
        moves(node, other, BUDGET // 3 - 1, 40, f"a fair share for {node.name}")
    for turn, node in enumerate(nodes):
        # The old process dies when the new one serves, and before anything was handed over.
        open(f"{folder}/{node.name}.log", "w").close()
        old = take_over(node)
        while " process up" not in log_of(node.name):
            time.sleep(0.001)
        old.send_signal(signal.SIGSTOP)
        while ": ready on" not in log_of(node.name):
            time.sleep(0.01)
        time.sleep(0.5)
        old.kill()
        loads[turn].stop()
        loads[turn] = Load(node, 15)
        moves(node, nodes[(turn + 1) % len(nodes)], BUDGET // 3 - 1, 40, f"a fair share for {node.name}")
        serves_after(node)
        early = "ended before it handed over" in log_of(node.name)
        print(f"  the old process of {node.name} was killed {'before' if early else 'after'} it handed over; at most {sampler.most}", flush=True)


def run():
    etcd, server = Etcd(), postgres("create role app login", "create database app owner app")
    nodes = [Node(f"node{n}", etcd, server) for n in (1, 2, 3)]
    sampler = Sampler(BUDGET, port=server)
    print(f"etcd, PostgreSQL and three nodes run in {folder}; the budget is {BUDGET}", flush=True)
    if DEMO:
        print("The panel's page Cluster, at any node: " + ", ".join(f"http://127.0.0.1:{node.web}/#/cluster" for node in nodes))
        print(f"On a terminal: {WEIR} top --cluster http://127.0.0.1:{nodes[0].web}\nCtrl-C ends it.\n", flush=True)
        for turn in range(1_000_000):
            load = Load(nodes[turn % 3], 20)
            for _ in range(8):
                time.sleep(1)
                print(f"load on {nodes[turn % 3].name}, {sampler.now} connections at the server\n{shares(nodes[0])}\n", flush=True)
            load.stop()
    if FREEZE or ROLL or UPGRADE:
        freeze_rounds(nodes, sampler) if FREEZE else roll(nodes, sampler) if ROLL else upgrade(nodes, sampler)
        return sampler.judge()
    print("load on node1", flush=True)
    load = Load(nodes[0], 20)
    moves(nodes[0], nodes[0], BUDGET - 2, 15, "node1 gets all but the others' floors")
    for at in (1, 2):
        load.stop()
        load = Load(nodes[at], 20)
        moves(nodes[at], nodes[0], BUDGET - 3, 10, f"load moves to node{at + 1}")
    print("load on all nodes", flush=True)
    loads = [load, Load(nodes[0], 20), Load(nodes[1], 20)]
    for node in nodes:
        moves(node, nodes[0], BUDGET // 3 - 1, 15, f"a fair share for {node.name}")
    print("etcd is killed for three leases", flush=True)
    etcd.stop()
    time.sleep(3 * LEASE)
    print(f"  connections without etcd: {sampler.now} (three floors)", flush=True)
    if sampler.now > 3:
        failures.append(f"{sampler.now} connections without etcd")
    etcd.start()
    # pgbench ends at an error: the loads begin anew.
    for load in loads:
        load.stop()
    loads = [Load(node, 20) for node in nodes]
    reaches(sampler, BUDGET - 2, 20, "etcd is back")
    time.sleep(2)
    print("node1 is frozen for three leases", flush=True)
    nodes[0].process.send_signal(signal.SIGSTOP)
    time.sleep(3 * LEASE)
    print("  " + shares(nodes[1]).replace("\n", "\n  "), flush=True)
    if share_of(nodes[1], "node1") > 1:
        failures.append("a lost node keeps more than its floor")
    nodes[0].process.send_signal(signal.SIGCONT)
    time.sleep(2)
    loads[0].stop()
    loads[0] = Load(nodes[0], 20)
    for node in nodes:
        moves(node, nodes[1], BUDGET // 3 - 1, 20, f"after the thaw, a fair share for {node.name}")
    print("node3 is killed, and started again", flush=True)
    nodes[2].process.kill()
    nodes[2].process.wait()
    nodes[2].process = start("node3", WEIR, "serve", nodes[2].file)
    wait_for(nodes[2].port)
    loads[2].stop()
    loads[2] = Load(nodes[2], 20)
    moves(nodes[2], nodes[1], BUDGET // 3 - 1, 40, "a fair share for node3")
    print("node2 is stopped in order", flush=True)
    loads[1].stop()
    asked = time.time()
    nodes[1].process.send_signal(signal.SIGTERM)
    status, began = nodes[1].process.wait(30), time.time()
    if status:
        failures.append(f"node2 has ended with status {status}")
    if share_of(nodes[0], "node2") > 0:
        failures.append("a node that has left in order keeps a share")
    print(f"  it took {began - asked:.1f} s to end, with its shares given away", flush=True)
    moves(nodes[0], nodes[2], (BUDGET - 1) // 2, 20, "node1 has its part")
    print(f"  that is {time.time() - began:.1f} s after its end", flush=True)
    for at in (0, 2):
        if loads[at].process.poll() is not None:
            failures.append(f"clients of node{at + 1} had an error when node2 left")
    sampler.judge()


script(run)
