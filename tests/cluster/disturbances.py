"""What a random schedule of chaos.py does to nodes, etcd, the network and the server, and how each is undone.

Each class has a `title`, a `start` and a `stop`; several are in force at the same time. `touches` are the things that no two of them may
have at once.
"""

import os, signal, subprocess, threading, time


def quietly(*command):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Disturbance:
    def __init__(self, world, chance):
        self.world, self.chance = world, chance
        self.choose()

    def choose(self):
        self.touches, self.title = set(), type(self).__name__

    def stop(self):
        pass


class OfNodes(Disturbance):
    most = 1

    def choose(self):
        self.nodes = self.chance.sample(self.world.nodes, self.chance.randint(1, self.most))
        self.touches = {node.name for node in self.nodes}
        self.title = f"{type(self).__name__} {' '.join(sorted(self.touches))}"


class NodesFrozen(OfNodes):
    most = 3

    def start(self):
        [node.process.send_signal(signal.SIGSTOP) for node in self.nodes]

    def stop(self):
        [node.process.send_signal(signal.SIGCONT) for node in self.nodes]


class NodesKilled(OfNodes):
    """Some are started again at once, while their queries run; some have lost their stored floors."""
    most = 2

    def start(self):
        self.at_once = self.chance.random() < 0.5
        for node in self.nodes:
            node.process.kill()
            node.process.wait()
            if self.chance.random() < 0.3 and os.path.exists(node.state):
                os.remove(node.state)
            self.at_once and node.start()

    def stop(self):
        [node.start() for node in self.nodes if not self.at_once]


class NodeStopped(OfNodes):
    def start(self):
        self.nodes[0].process.send_signal(self.chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]))

    def stop(self):
        try:
            self.nodes[0].process.wait(20)
        except subprocess.TimeoutExpired:
            self.nodes[0].process.kill()
            self.nodes[0].process.wait()
        self.nodes[0].start()


class NodeUpgraded(OfNodes):
    """Another process takes over; in some, one of the two is frozen or killed meanwhile."""

    def start(self):
        node = self.nodes[0]
        self.both = [node.process, node.upgrade()]
        self.end = self.chance.choice([None, signal.SIGKILL, signal.SIGSTOP])
        if self.end:
            time.sleep(self.chance.uniform(0.05, 0.8))
            self.victim = self.chance.choice(self.both)
            self.victim.poll() is None and self.victim.send_signal(self.end)

    def stop(self):
        self.end == signal.SIGSTOP and self.victim.poll() is None and self.victim.send_signal(signal.SIGCONT)
        ends = time.time() + 20
        while all(process.poll() is None for process in self.both) and time.time() < ends:
            time.sleep(0.1)
        alive = [process for process in self.both if process.poll() is None]
        if alive:
            self.nodes[0].process = alive[-1]
        else:
            self.nodes[0].start()


class OfEtcds(Disturbance):
    most = 3

    def choose(self):
        self.etcds = self.chance.sample(self.world.etcds, self.chance.randint(1, self.most))
        self.touches = {etcd.name for etcd in self.etcds}
        self.title = f"{type(self).__name__} {' '.join(sorted(self.touches))}"


class EtcdsFrozen(OfEtcds):
    def start(self):
        [etcd.process.send_signal(signal.SIGSTOP) for etcd in self.etcds]

    def stop(self):
        [etcd.process.send_signal(signal.SIGCONT) for etcd in self.etcds]


class EtcdsKilled(OfEtcds):
    def start(self):
        [etcd.kill() for etcd in self.etcds]

    def stop(self):
        [etcd.start() for etcd in self.etcds]


class EtcdWiped(OfEtcds):
    """A member loses its data: it is removed, and added again as a new one."""
    most = 1

    def choose(self):
        super().choose()
        # The two others are needed for that, and a network: etcd adds no member to a cluster that it takes for ill.
        self.touches = {"network", "slow"} | {etcd.name for etcd in self.world.etcds}

    def start(self):
        self.etcds[0].kill()

    def stop(self):
        self.etcds[0].replace(next(etcd for etcd in self.world.etcds if etcd is not self.etcds[0]))


class EtcdCompacted(Disturbance):
    """Its history is compacted, and its files are defragmented, again and again."""

    def start(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.3):
            for etcd in self.world.etcds:
                revision = etcd.status().get("header", {}).get("revision")
                revision and etcd.ask("kv/compaction", revision=revision)
                etcd.ask("maintenance/defragment")

    def stop(self):
        self.over.set()
        self.thread.join()


class Unreachable(Disturbance):
    """Packets are dropped between some and others."""

    def choose(self):
        world = self.world
        node, others = self.chance.sample(world.nodes, self.chance.randint(1, 3)), self.chance.sample(world.etcds, 1)
        self.one, self.other = self.chance.choice([
            (node, world.etcds), (node, world.etcds + [world.server]), (others, [e for e in world.etcds if e not in others] + world.nodes),
            (node[:1], [world.server])])
        names = [" ".join(member.name for member in side) for side in (self.one, self.other)]
        self.touches, self.title = {"network"}, f"{names[0]} can't reach {names[1]}"

    def start(self):
        self.cut = self.world.cut(self.one, self.other)

    def stop(self):
        self.cut.heal()


class NetworkSlow(Disturbance):
    """A part of etcd's packets is lost, so that requests take up to seconds."""

    def choose(self):
        self.share = self.chance.choice([0.1, 0.25, 0.4])
        self.touches, self.title = {"slow"}, f"{self.share:.0%} of etcd's packets are lost"

    def rules(self, action):
        for etcd in self.world.etcds:
            etcd.space.run("iptables", action, "INPUT", "-i", "eth0", "-m", "statistic", "--mode", "random", "--probability",
                           str(self.share), "-j", "DROP")

    def start(self):
        self.rules("-A")

    def stop(self):
        self.rules("-D")


class OfServer(Disturbance):
    def choose(self):
        self.touches, self.title = {"server"}, type(self).__name__


class ServerRestarted(OfServer):
    def start(self):
        self.world.server.restart(self.chance.choice([signal.SIGINT, signal.SIGQUIT]))


class ServerFrozen(OfServer):
    def start(self):
        self.world.server.signal(signal.SIGSTOP)

    def stop(self):
        self.world.server.signal(signal.SIGCONT)


class ServerFull(OfServer):
    """Other programs have nearly all of its connections."""

    def start(self):
        self.others = self.world.server.others(self.chance.randint(70, 90))

    def stop(self):
        self.others.kill()
        self.others.wait()


class ConnectionsEnded(OfServer):
    """An operator ends connections of the pool, again and again."""

    def start(self):
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.4):
            self.world.server.query("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'app' order by random() limit 3")

    def stop(self):
        self.over.set()
        self.thread.join()


class PoolRemoved(Disturbance):
    """The pool is removed from the files of some nodes, and comes back."""

    def choose(self):
        self.nodes = self.chance.sample(self.world.nodes, self.chance.randint(2, 4))
        self.touches, self.title = {"files"}, f"the pool is removed at {' '.join(node.name for node in self.nodes)}"

    def start(self):
        for node in self.nodes:
            node.write(pool="other")
            node.reload()

    def stop(self):
        for node in self.nodes:
            node.write()
            node.reload()


class BudgetReduced(Disturbance):
    """All nodes have a smaller budget. It is obeyed in the end, and from then on never exceeded until it is larger again."""

    def choose(self):
        self.size = self.chance.randint(1, self.world.sampler.budget - 1)
        self.touches, self.title = {"files"}, f"the budget is {self.size}"

    def start(self):
        for node in self.world.nodes:
            node.write(size=self.size)
            node.reload()

    def stop(self):
        # A frozen node has what it had.
        for node in self.world.nodes:
            node.write()
            node.reload()


ALL = [NodesFrozen, NodesKilled, NodeStopped, NodeUpgraded, EtcdsFrozen, EtcdsKilled, EtcdWiped, EtcdCompacted, Unreachable, NetworkSlow,
       ServerRestarted, ServerFrozen, ServerFull, ConnectionsEnded, PoolRemoved, BudgetReduced]


class Schedule:
    """Rounds of one to three disturbances that overlap, by chance from a seed."""

    def __init__(self, world, chance):
        self.world, self.chance = world, chance

    def chosen(self):
        chosen, touched = [], set()
        for kind in self.chance.sample(ALL, self.chance.choice([1, 2, 2, 3, 3])):
            one = kind(self.world, self.chance)
            if not one.touches & touched:
                touched |= one.touches
                chosen.append(one)
        return chosen

    def round(self, lease):
        chosen = self.chosen()
        moments = []
        for one in chosen:
            begins = self.chance.uniform(0, lease)
            moments += [(begins, one.start), (begins + self.chance.uniform(0.2, 3.5) * lease, one.stop)]
        print("  " + "; ".join(one.title for one in chosen), flush=True)
        began = time.time()
        for moment, act in sorted(moments, key=lambda both: both[0]):
            time.sleep(max(0, began + moment - time.time()))
            act()
        return chosen
