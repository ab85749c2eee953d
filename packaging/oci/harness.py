"""What the tests of the image share: its layers unpacked, a container of it under bubblewrap, mounted volumes, a PostgreSQL with TLS.

Must not know what a scenario checks.
"""

import json
import os
import pathlib
import shutil
import signal
import ssl
import subprocess
import tarfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
PG_PORT = int(os.environ.get("PORT", "15998"))
PGBIN = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
passed = 0


def check(words, holds):
    global passed
    if not holds:
        raise SystemExit(f"FAILED: {words}")
    print(f"ok: {words}", flush=True)
    passed += 1


def until(seconds, holds):
    """Whether `holds` becomes true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.1)
    return False


def run(*words, **more):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)


class Volume:
    """A mounted ConfigMap or Secret."""

    def __init__(self, folder, files):
        self.folder, self.version, self.files = folder, 0, {}
        folder.mkdir(parents=True)
        self.change(files)
        for name in files:
            (folder / name).symlink_to(f"..data/{name}")

    def change(self, files):
        self.version += 1
        self.files |= files
        new = self.folder / f"..{self.version}"
        for name, text in self.files.items():
            file = new / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        (self.folder / "..new").symlink_to(new.name)
        (self.folder / "..new").rename(self.folder / "..data")
        shutil.rmtree(self.folder / f"..{self.version - 1}", ignore_errors=True)


def unpack(image, root):
    """Lays out the image's layers."""
    with tarfile.open(image) as archive:
        blob = lambda descriptor: archive.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}")
        index = json.load(archive.extractfile("index.json"))
        manifest = json.load(blob(index["manifests"][0]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer), mode="r:gz") as files:
                files.extractall(root, filter="fully_trusted")
        return json.load(blob(manifest["config"]))["config"]


class Container:
    """The image, running."""

    def __init__(self, root, words, uid, mounts, log, sockets=None, writable=("/run/weir",), env=None):
        binds = [word for at, folder in mounts.items() for word in ["--ro-bind", str(folder), at]]
        if sockets:
            shutil.chown(sockets, uid, uid)
            binds += ["--bind", str(sockets), "/controller/run"]
        variables = [word for name, value in (env or {}).items() for word in ["--setenv", name, value]]
        tmpfs = [word for at in writable for word in ["--perms", "0755", "--tmpfs", at]]
        self.become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command = [*self.become, "bwrap", "--unshare-user", "--uid", str(uid), "--gid", str(uid), "--ro-bind", str(root), "/", *tmpfs, *binds,
                   "--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "RUNTIME_DIRECTORY", "/run/weir", *variables,
                   "--cap-drop", "ALL", "--die-with-parent", "--", *words]
        self.log = log
        self.process = subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)

    def said(self):
        return self.log.read_text()

    def pid(self):
        """The program's own process: bubblewrap stays as its parent."""
        pid = self.process.pid
        while child := pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            pid = int(child[0])
        return pid

    def signal(self, number):
        os.kill(self.pid(), number)

    def ends(self, seconds):
        return until(seconds, lambda: self.process.poll() is not None)


def certificate(folder, name):
    """A certificate that signs itself."""
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1", "-days", "2", "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt")
    return {"tls.crt": (folder / f"{name}.crt").read_text(), "tls.key": (folder / f"{name}.key").read_text()}


def start_postgres(work, server):
    data = work / "data"
    data.mkdir()
    for name, text in server.items():
        (work / name).write_text(text)
        (work / name).chmod(0o600)
        shutil.chown(work / name, "postgres", "postgres")
    password = work / "password"
    password.write_text("root-secret\n")
    shutil.chown(data, "postgres", "postgres")
    as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    run(*as_postgres, str(PGBIN / "initdb"), "-D", str(data), "-A", "scram-sha-256", "-U", "postgres", f"--pwfile={password}",
        check=True)
    options = f"-p {PG_PORT} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c ssl=on -c ssl_cert_file={work}/tls.crt " \
              f"-c ssl_key_file={work}/tls.key"
    subprocess.run([*as_postgres, str(PGBIN / "pg_ctl"), "-D", str(data), "-w", "-l", str(data / "log"), "-o", options, "start"],
                   check=True, stdout=subprocess.DEVNULL)
    lookup = """CREATE FUNCTION public.user_search(text) RETURNS TABLE (usename name, passwd text) LANGUAGE sql AS
        'SELECT usename, passwd FROM pg_shadow WHERE usename = $1'"""
    for database, sql in [
        ("postgres", "CREATE ROLE app LOGIN PASSWORD 'app-secret'"),
        ("postgres", "CREATE ROLE asker LOGIN SUPERUSER PASSWORD 'asker-secret'"),
        ("postgres", "CREATE DATABASE app OWNER app"),
        ("postgres", lookup),
        ("app", lookup),
    ]:
        psql("postgres", "root-secret", database, sql, PG_PORT)
    return lambda: run(*as_postgres, str(PGBIN / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop")


def psql(user, password, database, sql, port, sslmode="prefer"):
    url = f"host=127.0.0.1 port={port} user={user} dbname={database} sslmode={sslmode} connect_timeout=5"
    return run("psql", "-XAtq", url, "-c", sql, env=os.environ | {"PGPASSWORD": password}).stdout.strip()


def health(path):
    """The status of a probe, as the kubelet asks: it does not verify the certificate."""
    try:
        return urllib.request.urlopen(f"https://127.0.0.1:8432{path}", context=ssl._create_unverified_context(), timeout=2).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None
