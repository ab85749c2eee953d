#!/usr/bin/env python3
"""Runs the image of target/packages as Kubernetes does, and as CloudNativePG and Crunchy's operator do: `make image-test`.

The image is unpacked and runs under bubblewrap with a read-only root, as a user without privileges. Its files are mounted as the
kubelet writes them: behind a link `..data`, which is switched to change them. The PostgreSQL of this machine, a temporary one, has
TLS. Needs root, bwrap, openssl, PostgreSQL's programs, and helm in target/tools (`make charts`). The last line counts.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import ssl
import subprocess
import sys
import tarfile
import tempfile
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

    def __init__(self, root, words, uid, mounts, log, sockets=None):
        writable = ["/run/weir"]
        binds = [word for at, folder in mounts.items() for word in ["--ro-bind", str(folder), at]]
        if sockets:
            shutil.chown(sockets, uid, uid)
            binds += ["--bind", str(sockets), "/controller/run"]
        tmpfs = [word for at in writable for word in ["--perms", "0755", "--tmpfs", at]]
        self.become = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        command = [*self.become, "bwrap", "--unshare-user", "--uid", str(uid), "--gid", str(uid), "--ro-bind", str(root), "/", *tmpfs, *binds,
                   "--proc", "/proc", "--dev", "/dev", "--clearenv", "--setenv", "RUNTIME_DIRECTORY", "/run/weir",
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


def rendered(values):
    """The weir.toml and the container of the chart."""
    text = run(str(ROOT / "target/tools/helm"), "template", "weir", str(ROOT / "packaging/helm/weir"), "-f", str(values)).stdout
    block = text[text.index("  weir.toml: |\n") + len("  weir.toml: |\n"):]
    lines = block[:block.index("\n---")].splitlines()
    args = re.search(r"args: \[(.*)\]", text).group(1).split(", ")
    return "\n".join(line[4:] for line in lines) + "\n", args


def chart(work, root, server):
    values = work / "values.yaml"
    values.write_text(f"""
general: 'admin_users = ["admin"]'
config: |
  [auth]
  type = "scram-sha-256"
  file = "/etc/weir/secrets/userlist.txt"

  [pools.app]
  host = "127.0.0.1"
  port = {PG_PORT}
  user = "app"
  password_file = "/etc/weir/secrets/app"
  size = 20
tls: {{secretName: weir-tls}}
shutdown: {{delaySeconds: 3, timeoutSeconds: 5, reserveSeconds: 1}}
""")
    text, args = rendered(values)
    settings = Volume(work / "config", {"weir.toml": text})
    secrets = Volume(work / "secrets", {"userlist.txt": '"app" "one"\n"admin" "admin"\n', "app": "app-secret\n"})
    tls = Volume(work / "tls", server | {"ca.crt": server["tls.crt"]})
    mounts = {"/etc/weir/config": settings.folder, "/etc/weir/secrets": secrets.folder, "/etc/weir/tls": tls.folder}
    # The mount points of a read-only root.
    for at in mounts:
        (root / at[1:]).mkdir(parents=True, exist_ok=True)
    weir = Container(root, ["/usr/bin/weir", *args], 65532, mounts, work / "chart.log")
    query = lambda password, sql="SELECT 6 * 7": psql("app", password, "app", sql, 6432, "require")
    size = lambda: re.search(r"^app\|.*", psql("admin", "admin", "weir", "SHOW DATABASES", 6432), re.M)
    try:
        check("chart: the pod is ready", until(10, lambda: health("/readyz") == 200) and health("/healthz") == 200)
        check("chart: a client is served over TLS", query("one") == "42")
        before = size().group(0)
        settings.change({"weir.toml": text.replace("size = 20", "size = 7")})
        check("chart: a changed ConfigMap is adopted", until(6, lambda: size() and size().group(0) != before))
        settings.change({"weir.toml": text.replace("size = 20", "size = many")})
        check("chart: an invalid one is reported", until(6, lambda: "RELOAD failed, the old configuration stays" in weir.said()))
        check("chart: and has no effect", query("one") == "42")
        settings.change({"weir.toml": text})
        secrets.change({"userlist.txt": '"app" "two"\n"admin" "admin"\n'})
        check("chart: a changed user list is adopted", until(6, lambda: query("two") == "42") and query("one") != "42")
        next_pair = certificate(work, "next")
        tls.change({"tls.crt": next_pair["tls.crt"]})
        check("chart: a certificate without its key is reported", until(6, lambda: weir.said().count("RELOAD failed") >= 2))
        check("chart: and the old one stays", ssl.get_server_certificate(("127.0.0.1", 8432)).strip() == server["tls.crt"].strip())
        tls.change(next_pair)
        served = lambda: ssl.get_server_certificate(("127.0.0.1", 8432)).strip()
        check("chart: a renewed certificate is served", until(6, lambda: served() == next_pair["tls.crt"].strip()))
        weir.signal(signal.SIGTERM)
        check("chart: TERM ends readiness at once", until(1, lambda: health("/readyz") == 503) and health("/healthz") == 200)
        check("chart: new clients are still served", query("two") == "42")
        check("chart: then the process ends by itself", weir.ends(8) and weir.process.returncode == 0)
    finally:
        weir.process.kill()


def cloudnativepg(work, root, server):
    """The files that CloudNativePG's pooler writes, in its order and with its names."""
    files = {
        "pgbouncer.ini": f"""
[databases]
* = host=127.0.0.1 port={PG_PORT}

[pgbouncer]
pool_mode = session
auth_user = asker
auth_query = SELECT usename, passwd FROM public.user_search($1)
auth_dbname = postgres

admin_users = pgbouncer
auth_file = /controller/configs/userlist.txt
auth_hba_file = /controller/configs/pg_hba.conf
auth_type = hba
client_tls_ca_file = /controller/configs/client-ca/ca.crt
client_tls_cert_file = /controller/configs/client-tls/tls.crt
client_tls_key_file = /controller/configs/client-tls/tls.key
client_tls_sslmode = prefer
ignore_startup_parameters = extra_float_digits,options
listen_addr = *
listen_port = 5432
log_stats = 0
server_tls_ca_file = /controller/configs/server-tls/ca.crt
server_tls_sslmode = verify-ca
unix_socket_dir = /controller/run
""",
        "pg_hba.conf": "\nlocal pgbouncer pgbouncer peer\n\n\n\nhost all all 0.0.0.0/0 md5\nhost all all ::/0 md5\n",
        "userlist.txt": '\n"asker" "asker-secret"\n',
    }
    # Its manager writes ordinary files, and sends HUP.
    folder = work / "controller"
    for name, text in (files | {"client-ca/ca.crt": server["tls.crt"], "server-tls/ca.crt": server["tls.crt"],
                                "client-tls/tls.crt": server["tls.crt"], "client-tls/tls.key": server["tls.key"]}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (root / "controller/configs").mkdir(parents=True)
    (root / "controller/run").mkdir(parents=True)
    sockets = work / "sockets"
    sockets.mkdir()
    weir = Container(root, ["/usr/bin/pgbouncer", "/controller/configs/pgbouncer.ini"], 998,
                     {"/controller/configs": folder}, work / "cnpg.log", sockets)
    try:
        query = lambda: psql("app", "app-secret", "app", "SELECT current_user", 5432)
        check("CloudNativePG: a client logs in by auth_query", until(10, lambda: query() == "app"))
        console = f"host={sockets} port=5432 user=pgbouncer dbname=pgbouncer"
        pools = run(*weir.become, "psql", "-XAt", console, "-c", "SHOW POOLS").stdout
        row = next((line.split("|") for line in pools.splitlines() if line.startswith("app|")), [])
        # Its exporter reads columns by their places: database, user, clients active, waiting.
        check("CloudNativePG: peer opens the console, SHOW POOLS has its columns", row[:2] == ["app", "app"] and row[2].isdigit())
        (folder / "pgbouncer.ini").write_text(files["pgbouncer.ini"].replace("pool_mode = session", "pool_mode = transaction"))
        weir.signal(signal.SIGHUP)
        check("CloudNativePG: HUP reads the files again", until(5, lambda: "re-reading config" in weir.said()) and query() == "app")
        weir.signal(signal.SIGINT)
        check("CloudNativePG: INT ends it", weir.ends(5) and weir.process.returncode == 0)
    finally:
        weir.process.kill()


def crunchy(work, root, server):
    """The projected volume of Crunchy's operator: an ini that includes an empty one, TLS required on both sides."""
    volume = work / "crunchy"
    ini = f"""# Generated by postgres-operator. DO NOT EDIT.

[pgbouncer]
%include /etc/pgbouncer/pgbouncer.ini

[pgbouncer]
auth_file = /etc/pgbouncer/~postgres-operator/users.txt
auth_query = SELECT usename, passwd FROM public.user_search($1)
auth_user = asker
client_tls_ca_file = /etc/pgbouncer/~postgres-operator/frontend-ca.crt
client_tls_cert_file = /etc/pgbouncer/~postgres-operator/frontend-tls.crt
client_tls_key_file = /etc/pgbouncer/~postgres-operator/frontend-tls.key
client_tls_sslmode = require
conffile = /etc/pgbouncer/~postgres-operator.ini
ignore_startup_parameters = extra_float_digits
listen_addr = *
listen_port = 5432
server_tls_ca_file = /etc/pgbouncer/~postgres-operator/backend-ca.crt
server_tls_sslmode = verify-full
unix_socket_dir =

[databases]
* = host=localhost port={PG_PORT}
"""
    own = volume / "~postgres-operator"
    own.mkdir(parents=True)
    (volume / "pgbouncer.ini").write_text("")
    (volume / "~postgres-operator.ini").write_text(ini)
    (own / "users.txt").write_text('"asker" "asker-secret"\n')
    for name in ["frontend-ca.crt", "frontend-tls.crt", "backend-ca.crt"]:
        (own / name).write_text(server["tls.crt"])
    (own / "frontend-tls.key").write_text(server["tls.key"])
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    weir = Container(root, ["pgbouncer", "/etc/pgbouncer/~postgres-operator.ini"], 65532,
                     {"/etc/pgbouncer": volume}, work / "crunchy.log")
    try:
        query = lambda mode="require": psql("app", "app-secret", "app", "SELECT current_user", 5432, mode)
        check("Crunchy: a client logs in over TLS", until(10, lambda: query() == "app"))
        check("Crunchy: and not without", query("disable") != "app")
        names = run("pgrep", "--exact", "pgbouncer").stdout.split()
        check("Crunchy: the process has PgBouncer's name", str(weir.pid()) in names)
        (volume / "~postgres-operator.ini").write_text(ini.replace("[databases]", "default_pool_size = 3\n\n[databases]"))
        weir.signal(signal.SIGHUP)
        check("Crunchy: HUP reads the files again", until(5, lambda: "re-reading config" in weir.said()) and query() == "app")
        weir.signal(signal.SIGINT)
        check("Crunchy: INT ends it", weir.ends(5))
    finally:
        weir.process.kill()


def main():
    images = sorted((ROOT / "target/packages").glob("*.oci.tar"))
    if not images:
        raise SystemExit("there is no image: make packages")
    work = pathlib.Path(tempfile.mkdtemp())
    work.chmod(0o755)
    stop = None
    try:
        root = work / "root"
        config = unpack(images[-1], root)
        check("the image names a user without privileges", config["User"].split(":")[0] not in ("", "0", "root"))
        check("it has no shell", not list(root.rglob("sh")) and not list(root.rglob("bash")))
        # A container's runtime makes these.
        for at in ["proc", "dev"]:
            (root / at).mkdir(exist_ok=True)
        server = certificate(work, "server")
        stop = start_postgres(work, server)
        for scenario in [chart, cloudnativepg, crunchy]:
            scenario(work, root, server)
        print(f"{passed} passed, 0 failed")
    except BaseException:
        for log in work.glob("*.log"):
            print(f"--- {log.name}", "\n".join(log.read_text().splitlines()[-15:]), sep="\n", file=sys.stderr)
        raise
    finally:
        if stop:
            stop()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
