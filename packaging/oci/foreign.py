"""Images and programs of another architecture than this machine's: what they are, and that they serve under qemu-user-static."""

import json
import shutil
import signal
import struct
import subprocess
import tarfile

from harness import PG_PORT, ROOT, check, psql, run, unpack, until

# The e_machine of an ELF file, and the kernel's name.
MACHINES = {"amd64": (62, "x86_64"), "arm64": (183, "aarch64")}
PORT = 6433


def machine(program):
    return struct.unpack("<H", program.read_bytes()[18:20])[0]


def index(images):
    """The image of all architectures lists the images of each."""
    together = [path for path in (ROOT / "target/packages").glob("*.oci.tar") if path not in images.values()]
    if len(images) == 1 and not together:
        return
    with tarfile.open(together[0]) as archive:
        read = lambda descriptor: json.load(archive.extractfile(f"blobs/{descriptor['digest'].replace(':', '/')}"))
        top = json.load(archive.extractfile("index.json"))["manifests"]
        manifests = read(top[0])["manifests"]
        configs = {read(read(manifest)["config"])["architecture"] for manifest in manifests}
    listed = {manifest["platform"]["architecture"]: manifest["digest"] for manifest in manifests}
    check("the image of all architectures is one index", len(top) == 1 and configs == set(listed) == set(images))
    check("it has the images of each", all(single(path) == listed[arch] for arch, path in images.items()))


def single(image):
    with tarfile.open(image) as archive:
        return json.load(archive.extractfile("index.json"))["manifests"][0]["digest"]


def programs(work, arch, image):
    """The static program of the image and the one of the deb, by what they are called here."""
    unpack(image, work / arch)
    deb = next((ROOT / "target/packages").glob(f"weir_*_{arch}.deb"))
    run("dpkg-deb", "-x", str(deb), str(work / f"{arch}-deb"), check=True)
    return {"static": work / arch / "usr/bin/weir", "deb's": work / f"{arch}-deb/usr/bin/weir"}


def serve(work, arch, image, server):
    number, kernel = MACHINES[arch]
    emulator = shutil.which(f"qemu-{kernel}-static")
    if not emulator:
        raise SystemExit(f"there is no qemu-{kernel}-static to run the programs for {arch}; on Debian: apt-get install qemu-user-static")
    folder = work / f"serve-{arch}"
    folder.mkdir()
    (folder / "ca.crt").write_text(server["tls.crt"])
    (folder / "weir.toml").write_text(f"""
[listen]
address = "127.0.0.1"
port = {PORT}
[auth]
type = "scram-sha-256"
users = {{app = "one"}}
[tls.server]
mode = "verify-full"
ca_file = "{folder}/ca.crt"
[pools.app]
host = "localhost"
port = {PG_PORT}
user = "app"
password = "app-secret"
[process]
user = "nobody"
""")
    for name, program in programs(work, arch, image).items():
        one(f"{arch}, the {name} program", [emulator, str(program)], program, number, folder)


def one(what, command, program, number, folder):
    check(f"{what} is for this architecture", machine(program) == number)
    check(f"{what} names it", f"linux {'aarch64' if number == 183 else 'x86_64'}," in run(*command, "--version").stdout)
    file = str(folder / "weir.toml")
    check(f"{what} checks a configuration and its server", run(*command, "check", "--connect", file).returncode == 0)
    log = folder.parent / f"foreign-{what.split()[-2]}.log"
    weir = subprocess.Popen([*command, "serve", file], stdout=open(log, "w"), stderr=subprocess.STDOUT)
    try:
        query = lambda: psql("app", "one", "app", "SELECT sum(n) FROM generate_series(1, 100000) n", PORT)
        check(f"{what} serves", until(30, lambda: query() == "5000050000"))
        weir.send_signal(signal.SIGTERM)
        check(f"{what} ends by TERM", until(10, lambda: weir.poll() is not None) and weir.returncode == 0)
    finally:
        weir.kill()
