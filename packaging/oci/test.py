#!/usr/bin/env python3
"""Runs the image of target/packages as Kubernetes does, and as operators of PgBouncer do: `make image-test`.

The image is unpacked and runs under bubblewrap with a read-only root, as a user without privileges. Its files are mounted as the
kubelet writes them: behind a link `..data`, which is switched to change them. The PostgreSQL of this machine, a temporary one, has
TLS. Needs root, bwrap, openssl, PostgreSQL's programs, helm in target/tools (`make charts`), and qemu-user-static if there is an
image for another architecture. The last line counts.
"""

import pathlib
import platform
import re
import shutil
import signal
import ssl
import sys
import tempfile

import foreign
import harness
from harness import PG_PORT, ROOT, Container, Volume, certificate, check, health, psql, run, start_postgres, until
from operators import airflow, bitnami, cloudnativepg, crunchy, zalando

# helm without a cluster believes in one that is too old for the chart.
KUBERNETES = "v1.33.0"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


# What Kubernetes says to the first pod of the chart (the downward API).
FIRST_POD = {"POD_NAME": "weir-1", "POD_NUMBER": "1", "POD_IP": "127.0.0.1"}


def rendered(values):
    """The weir.toml and the container of the chart."""
    text = run(str(ROOT / "target/tools/helm"), "template", "weir", "--kube-version", KUBERNETES, str(ROOT / "packaging/helm/weir"), "-f", str(values)).stdout
    block = text[text.index("  weir.toml: |\n") + len("  weir.toml: |\n"):]
    lines = block[:block.index("\n---")].splitlines()
    args = re.findall(r"args: \[(serve.*)\]", text)[-1].split(", ")
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
    weir = Container(root, ["/usr/bin/weir", *args], 65532, mounts, work / "chart.log", env=FIRST_POD)
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
        secrets.change({"userlist.txt": '"app" "three\n'})
        check("chart: a broken user list is reported", until(6, lambda: weir.said().count("RELOAD failed") >= 2))
        check("chart: and the old one stays", query("two") == "42")
        secrets.change({"userlist.txt": '"app" "two"\n"admin" "admin"\n'})
        psql("postgres", "root-secret", "postgres", "ALTER ROLE app PASSWORD 'next-secret'", PG_PORT)
        psql("admin", "admin", "weir", "RECONNECT", 6432)
        check("chart: with the pool's old password no new server is opened", "password" in query("two"))
        secrets.change({"app": "next-secret\n"})
        check("chart: the pool's changed secret is used", until(10, lambda: query("two") == "42"))
        psql("postgres", "root-secret", "postgres", "ALTER ROLE app PASSWORD 'app-secret'", PG_PORT)
        failed = weir.said().count("RELOAD failed")
        next_pair = certificate(work, "next")
        tls.change({"tls.crt": next_pair["tls.crt"]})
        check("chart: a certificate without its key is reported", until(6, lambda: weir.said().count("RELOAD failed") > failed))
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


def chart_without_tls(work, root, _):
    """The probes by command, which the kubelet runs in the container."""
    values = work / "plain-values.yaml"
    values.write_text(f"""
config: |
  [auth]
  type = "scram-sha-256"
  file = "/etc/weir/secrets/userlist.txt"

  [pools.app]
  host = "127.0.0.1"
  port = {PG_PORT}
  user = "app"
  password_file = "/etc/weir/secrets/app"
shutdown: {{delaySeconds: 3, timeoutSeconds: 5, reserveSeconds: 1}}
""")
    text, args = rendered(values)
    settings = Volume(work / "plain-config", {"weir.toml": text})
    secrets = Volume(work / "plain-secrets", {"userlist.txt": '"app" "one"\n', "app": "app-secret\n"})
    mounts = {"/etc/weir/config": settings.folder, "/etc/weir/secrets": secrets.folder}
    weir = Container(root, ["/usr/bin/weir", *args], 65532, mounts, work / "plain.log", env=FIRST_POD)
    probe = lambda *words: run(str(root / "usr/bin/weir"), "ready", *words).returncode
    query = lambda: psql("app", "one", "app", "SELECT 6 * 7", 6432)
    try:
        check("chart without TLS: the pod is ready", until(10, lambda: probe() == 0) and query() == "42")
        weir.signal(signal.SIGTERM)
        check("chart without TLS: TERM ends readiness", until(2, lambda: probe() == 1) and probe("--alive") == 0)
        check("chart without TLS: new clients are still served", query() == "42")
        check("chart without TLS: then the process ends by itself", weir.ends(10) and weir.process.returncode == 0)
    finally:
        weir.process.kill()


def contents(config, image, root):
    """What every image promises of itself."""
    check("the image names a user without privileges", config["User"].split(":")[0] not in ("", "0", "root"))
    check("it has no shell", not list(root.rglob("sh")) and not list(root.rglob("bash")))
    check(f"it has {image.stat().st_size >> 10} KiB, at most 20 MiB", image.stat().st_size <= 20 << 20)


def main():
    own = ARCHITECTURES[platform.machine()]
    images = {path.name.rsplit("-", 1)[1].split(".")[0]: path for path in (ROOT / "target/packages").glob("*-*-*.oci.tar")}
    if own not in images:
        raise SystemExit(f"there is no image for {own}: make packages")
    for program, package in {"bwrap": "bubblewrap", "openssl": "openssl", "setpriv": "util-linux"}.items():
        if not shutil.which(program):
            raise SystemExit(f"there is no {program}; on Debian: apt-get install {package}")
    work = pathlib.Path(tempfile.mkdtemp())
    work.chmod(0o755)
    stop = None
    try:
        root = work / "root"
        contents(harness.unpack(images[own], root), images[own], root)
        # A container's runtime makes these.
        for at in ["proc", "dev"]:
            (root / at).mkdir(exist_ok=True)
        server = certificate(work, "server")
        stop = start_postgres(work, server)
        for scenario in [chart, chart_without_tls, cloudnativepg, crunchy, zalando, bitnami, airflow]:
            scenario(work, root, server)
        foreign.index(images)
        for arch in sorted(set(images) - {own}):
            foreign.serve(work, arch, images[arch], server)
        print(f"{harness.passed} passed, 0 failed")
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
