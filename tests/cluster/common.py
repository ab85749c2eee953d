"""What the cluster's test scripts share: a temporary folder, processes, etcd, PostgreSQL, checks, and the end of a script.

A script is called with the path of Weir as its first argument. Its folder, with the log of each process, stays when a check fails,
and with KEEP in the environment. PG_BIN is the folder of PostgreSQL's programs.
"""

import os, pwd, shutil, signal, socket, subprocess, sys, tempfile, threading, time

WEIR = os.path.abspath(sys.argv[1])
POSTGRES = os.environ.get("PG_BIN") or subprocess.run(
    "ls -d /usr/lib/postgresql/*/bin | tail -1", shell=True, text=True, capture_output=True).stdout.strip()
folder = tempfile.mkdtemp(prefix=f"weir-{os.path.basename(sys.argv[0]).removesuffix('.py')}-")
os.chmod(folder, 0o755)
processes, failures = [], []
# PostgreSQL refuses to run as root.
account = pwd.getpwnam("nobody") if os.getuid() == 0 else None
unprivileged = {"user": account.pw_uid, "group": account.pw_gid} if account else {}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, *command, **more):
    log = open(f"{folder}/{name}.log", "ab")
    process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **more)
    processes.append(process)
    return process


def log_of(name):
    with open(f"{folder}/{name}.log") as file:
        return file.read()


def wait_for(port, seconds=30):
    end = time.time() + seconds
    while time.time() < end:
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nothing listens on port {port}; see {folder}")


def check(what, holds, shown=""):
    print(f"  {'ok' if holds else 'FAILED'}: {what}", flush=True)
    if not holds:
        failures.append(f"{what} {shown}")


def within(what, seconds, holds, shown=lambda: ""):
    began = time.time()
    while time.time() < began + seconds:
        if holds():
            return check(f"{what}, after {time.time() - began:.1f} s", True)
        time.sleep(0.05)
    check(what, False, shown())


def weir(*arguments, stdin=None):
    done = subprocess.run([WEIR, "cluster", *arguments], text=True, capture_output=True, input=stdin)
    return done.returncode, done.stdout, done.stderr


class Etcd:
    """One etcd on loopback; `arguments` are further ones of its command line."""

    def __init__(self, *arguments, scheme="http"):
        self.port, self.peer = free_port(), free_port()
        self.arguments, self.scheme = arguments, scheme
        self.start()

    def start(self):
        client, peer = f"{self.scheme}://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.peer}"
        self.process = start("etcd", "etcd", "--data-dir", f"{folder}/etcd", "--listen-client-urls", client,
                             "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                             "--initial-cluster", f"default={peer}", *self.arguments)
        wait_for(self.port)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def restart(self):
        self.stop()
        self.start()


def database(superuser="postgres"):
    """A new data folder of PostgreSQL."""
    data = f"{folder}/data"
    os.mkdir(data)
    if account:
        os.chown(data, account.pw_uid, account.pw_gid)
    subprocess.run([f"{POSTGRES}/initdb", "-D", data, "-U", superuser, "-A", "trust", "-N"], check=True,
                   stdout=subprocess.DEVNULL, **unprivileged)
    return data


def postgres(*statements, superuser="postgres", hba=None, max_connections=60):
    """A PostgreSQL on loopback in which these statements were executed; returns its port."""
    data, port = database(superuser), free_port()
    if hba:
        with open(f"{data}/pg_hba.conf", "w") as file:
            file.write(hba)
    start("postgres", f"{POSTGRES}/postgres", "-D", data, "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c",
          "unix_socket_directories=", "-c", f"max_connections={max_connections}", "-c", "fsync=off", **unprivileged)
    wait_for(port)
    time.sleep(1)
    for statement in statements:
        psql(port, statement, superuser)
    return port


def psql(port, statement, user="postgres"):
    command = [f"{POSTGRES}/psql", "-h", "127.0.0.1", "-p", str(port), "-U", user, "-At", "-d", "postgres", "-c", statement]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


class Sampler(threading.Thread):
    """Counts the connections of the user `app` at the server a hundred times a second, and compares them with the budget."""

    def __init__(self, budget, host="127.0.0.1", port=5432):
        super().__init__(daemon=True)
        self.budget, self.began = budget, time.time()
        self.samples, self.most, self.now, self.over, self.running = 0, 0, 0, [], True
        self.command = [f"{POSTGRES}/psql", "-h", host, "-p", str(port), "-U", "postgres", "-At", "-q", "-d", "postgres"]
        self.connect()
        self.start()

    def connect(self):
        self.psql = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1)
        processes.append(self.psql)

    def run(self):
        while self.running:
            try:
                self.sample()
            except OSError:
                pass
            if self.running:
                # The server was restarted.
                self.psql.kill()
                time.sleep(0.05)
                self.connect()

    def sample(self):
        query = "select count(*) from pg_stat_activity where usename = 'app' and backend_type = 'client backend';\n"
        while self.running:
            began = time.time()
            self.psql.stdin.write(query)
            line = self.psql.stdout.readline()
            if not line:
                return
            self.now = int(line)
            self.samples += 1
            self.most = max(self.most, self.now)
            if self.now > self.budget:
                self.over.append((round(began - self.began, 2), self.now))
                if len(self.over) == 1:
                    self.show()
            time.sleep(max(0, 0.008 - (time.time() - began)))

    def show(self):
        """What the server has when the budget is exceeded, for the one who looks for the reason."""
        self.psql.stdin.write("select pid, client_addr, client_port, state, now() - backend_start as age, now() - state_change as since,"
                              " query from pg_stat_activity where usename = 'app' order by backend_start; select 'end';\n")
        while (line := self.psql.stdout.readline().strip()) != "end":
            print("    ", line, flush=True)

    def judge(self):
        self.running = False
        self.join(2)
        seconds = time.time() - self.began
        print(f"{self.samples} samples in {seconds:.0f} s ({self.samples / seconds:.0f} a second), at most {self.most} of {self.budget}")
        if self.over:
            failures.append(f"over budget in {len(self.over)} samples: {self.over[:10]}")


def script(run, clean=lambda: None):
    """Runs a script, ends the processes that it has started, cleans up, and exits with 1 if a check has failed."""
    try:
        run()
    except KeyboardInterrupt:
        pass
    except (Exception, SystemExit) as error:
        failures.append(repr(error))
    finally:
        for process in processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
        for process in processes:
            process.wait()
        clean()
        if failures:
            print("\n".join(failures), f"\nlogs: {folder}")
            sys.exit(1)
        if os.environ.get("KEEP"):
            print("logs:", folder)
        else:
            shutil.rmtree(folder, ignore_errors=True)
        print("passed")
