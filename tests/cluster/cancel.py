#!/usr/bin/env python3
"""Requests to cancel in a cluster of three Weirs with a real etcd and a real PostgreSQL, on this machine: `cancel.py WEIR`.

A request that arrives at any node ends the query of the session that it names, wherever that is, also after a restart of its
node. A request with a wrong secret ends none, one for a node that is away is closed, and the numbers of all nodes differ.
"""

import base64, json, socket, struct, subprocess, time, urllib.request

from common import POSTGRES, WEIR, Etcd, check, folder, free_port, postgres, script, start, wait_for

LEASE, SOON = 2, 8


def keys(port, prefix):
    """The keys below a prefix, with their values."""
    encode = lambda text: base64.b64encode(text.encode()).decode()
    body = json.dumps({"key": encode(prefix), "range_end": encode(prefix[:-1] + chr(ord(prefix[-1]) + 1))}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v3/kv/range", body, 5) as answer:
        found = json.load(answer).get("kvs", [])
    decode = lambda text: base64.b64decode(text).decode()
    return {decode(entry["key"])[len(prefix):]: decode(entry["value"]) for entry in found}


class Node:
    def __init__(self, name, etcd_port, server):
        self.name, self.port = name, free_port()
        self.file = f"{folder}/{name}.toml"
        with open(self.file, "w") as file:
            file.write(f"""[listen]
address = "127.0.0.1"
port = {self.port}
[general]
workers = 2
admin_users = ["app"]
[auth]
type = "trust"
[auth.users]
app = ""
[limits]
cancel_wait_timeout = "3s"
[cluster]
etcd = ["http://127.0.0.1:{etcd_port}"]
name = "demo"
node = "{name}"
lease = "{LEASE}s"
[pools.postgres]
host = "127.0.0.1"
port = {server}
user = "app"
mode = "transaction"
size = 12
""")
        self.start()

    def start(self):
        self.process = start(self.name, WEIR, "serve", self.file)
        wait_for(self.port)

    def stop(self):
        self.process.kill()
        self.process.wait()


class Session:
    """A client of a node, as far as this test needs the protocol."""

    def __init__(self, node):
        self.socket = socket.create_connection(("127.0.0.1", node.port), 10)
        self.socket.settimeout(10)
        self.buffer = b""
        body = struct.pack("!I", 196608) + b"user\0app\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!I", len(body) + 4) + body)
        for kind, body in self.until_ready():
            if kind == b"K":
                self.key = body

    def messages(self):
        while True:
            while len(self.buffer) < 5 or len(self.buffer) < 1 + struct.unpack("!I", self.buffer[1:5])[0]:
                more = self.socket.recv(65536)
                if not more:
                    raise OSError("the connection was closed")
                self.buffer += more
            end = 1 + struct.unpack("!I", self.buffer[1:5])[0]
            message, self.buffer = (self.buffer[:1], self.buffer[5:end]), self.buffer[end:]
            yield message

    def until_ready(self):
        found = []
        for message in self.messages():
            found.append(message)
            if message[0] == b"Z":
                return found

    def begin(self, text):
        body = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack("!I", len(body) + 4) + body)

    def error(self):
        """The SQLSTATE with which the query ended, if it failed."""
        for kind, body in self.until_ready():
            if kind == b"E":
                return next(field[1:].decode() for field in body.split(b"\0") if field[:1] == b"C")

    def peer(self):
        return struct.unpack("<H", self.key[1:3])[0]


def send_cancel(node, key):
    """Returns after how many seconds the node has closed the connection."""
    began = time.time()
    with socket.create_connection(("127.0.0.1", node.port), 10) as visitor:
        visitor.settimeout(20)
        visitor.sendall(struct.pack("!II", 16, 80877102) + key)
        try:
            visitor.recv(1)
        except ConnectionError:
            pass
    return time.time() - began


def ends(session, via, key=None, length=5):
    """Whether a query ends by a request that is sent by way of this node, and after how many seconds."""
    session.begin(f"select pg_sleep({length})")
    time.sleep(0.5)
    began = time.time()
    send_cancel(via, key or session.key)
    return session.error() == "57014", time.time() - began


def numbered(node):
    """A session of the node with its number in the key."""
    end = time.time() + SOON
    while time.time() < end:
        session = Session(node)
        if session.peer():
            return session
        time.sleep(0.2)
    raise SystemExit(f"{node.name} has no number")


def run():
    port, server = Etcd().port, postgres(superuser="app", max_connections=40)
    nodes = [Node(f"node{n}", port, server) for n in (1, 2, 3)]
    sessions = [numbered(node) for node in nodes]
    owners = keys(port, "/weir/demo/peer/")
    check("each node has a number of its own, which etcd knows",
          {str(s.peer()): n.name for s, n in zip(sessions, nodes)} == owners and len(owners) == 3, owners)
    time.sleep(SOON)
    for node, session in zip(nodes, sessions):
        for via in nodes:
            ended, seconds = ends(session, via)
            check(f"a query at {node.name} is cancelled by way of {via.name} ({seconds:.2f} s)", ended and seconds < 3)
    wrong = sessions[0].key[:4] + bytes(byte ^ 0x5c for byte in sessions[0].key[4:])
    ended, _ = ends(sessions[0], nodes[1], wrong, 2)
    check("a wrong secret cancels nothing", not ended)
    for node in nodes:
        show = [f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(node.port), "-U", "app", "-At", "-d", "weir", "-c", "show peers"]
        ports = lambda: {line.split("|")[2] for line in subprocess.run(show, capture_output=True, text=True).stdout.splitlines()}
        others = {str(other.port) for other in nodes if other is not node}
        by = time.monotonic() + 15
        while ports() != others and time.monotonic() < by:
            time.sleep(0.2)
        check(f"SHOW PEERS of {node.name} lists the other nodes", ports() == others, ports())

    number = sessions[2].peer()
    nodes[2].stop()
    seconds = send_cancel(nodes[0], sessions[2].key)
    check(f"a request for a node that is away is closed ({seconds:.2f} s)", seconds < 5)
    nodes[2].start()
    again = numbered(nodes[2])
    check("the number is the name's after a restart", again.peer() == number, (again.peer(), number))
    ended, seconds = ends(again, nodes[1])
    check(f"a query at the restarted node is cancelled by way of node2 ({seconds:.2f} s)", ended and seconds < 3)


script(run)
