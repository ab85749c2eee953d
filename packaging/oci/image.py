#!/usr/bin/env python3
"""Writes an OCI image of a static weir, as a tar archive in the OCI layout.

Usage: image.py OUT.tar amd64=WEIR [arm64=WEIR] --version VERSION --created EPOCH [--commit COMMIT]

With several programs the image is an index, from which a container's runtime takes the image of its architecture.

The image has no shell and no libraries: the program, certificate authorities, the zone "UTC", and the folders that Weir
writes to, in three layers. The same input gives the same digests: names are sorted, times are CREATED, owners are fixed.
"""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import pathlib
import tarfile

UID = 65532
OCI = "application/vnd.oci.image"
# CloudNativePG runs its pooler as this user, whose name the console's peer authentication compares.
OPERATOR_UID = 998
# Airflow's chart starts it with -u nobody, as this user.
NOBODY_UID = 65534
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
PASSWD = "".join(
    f"{name}:x:{uid}:{uid}::/:/sbin/nologin\n"
    for name, uid in [("root", 0), ("weir", UID), ("pgbouncer", OPERATOR_UID), ("nobody", NOBODY_UID)]
)
GROUP = f"root:x:0:\nweir:x:{UID}:\npgbouncer:x:{OPERATOR_UID}:\nnogroup:x:{NOBODY_UID}:\n"
# What a first `docker run` serves: PgBouncer's and Weir's usual port, no pool.
DEFAULT = b"""[listen]
address = "*"
port = 6432

[auth]
type = "scram-sha-256"

[web]
address = "127.0.0.1"
port = 8432
"""


def layer(entries, created):
    """A gzipped tar of (path, kind, content, mode, uid); returns it with the digest of the tar."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, kind, content, mode, uid in sorted(entries, key=lambda entry: entry[0]):
            info = tarfile.TarInfo(path)
            info.mode, info.uid, info.gid, info.mtime, info.type = mode, uid, uid, created, kind
            if kind == tarfile.SYMTYPE:
                info.linkname = content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    packed = gzip.compress(plain.getvalue(), compresslevel=9, mtime=0)
    return packed, hashlib.sha256(plain.getvalue()).hexdigest()


def file(path, content, mode=0o644, uid=0):
    return (path, tarfile.REGTYPE, content, mode, uid)


def folder(path, mode=0o755, uid=0):
    return (path, tarfile.DIRTYPE, b"", mode, uid)


def link(path, target):
    return (path, tarfile.SYMTYPE, target, 0o777, 0)


def base():
    """The folders, the users, and the certificate authorities of this machine."""
    folders = ["etc", "etc/ssl", "etc/ssl/certs", "usr", "usr/bin", "usr/sbin", "bin", "opt", "var", "var/lib", "run"]
    writable = ["etc/weir", "etc/pgbouncer", "var/lib/weir", "var/log", "var/log/pgbouncer", "run/weir", "run/pgbouncer",
                "var/run", "var/run/pgbouncer"]
    return [
        *(folder(path) for path in folders),
        *(folder(path, 0o775, UID) for path in writable),
        folder("tmp", 0o1777),
        file("etc/passwd", PASSWD.encode()),
        file("etc/group", GROUP.encode()),
        file("etc/nsswitch.conf", b"hosts: files dns\n"),
        file("etc/weir/weir.toml", DEFAULT, 0o644, UID),
        file("etc/ssl/certs/ca-certificates.crt", AUTHORITIES.read_bytes()),
    ]


def names():
    """Under PgBouncer's names, where images of PgBouncer have the program."""
    return [link("usr/bin/pgbouncer", "weir"), link("usr/sbin/pgbouncer", "../bin/weir"),
            link("bin/pgbouncer", "../usr/bin/weir"), link("bin/weir", "../usr/bin/weir")]


class Layout:
    """The content of an OCI layout: blobs by their digests."""

    def __init__(self):
        self.blobs = {}

    def add(self, content, media_type):
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, value, media_type):
        return self.add(json.dumps(value, sort_keys=True, separators=(",", ":")).encode(), media_type)

    def write(self, out, index, created):
        files = [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}'), ("index.json", json.dumps(index, sort_keys=True).encode())]
        files += [(f"blobs/sha256/{digest}", content) for digest, content in self.blobs.items()]
        with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
            for path, content in sorted(files):
                info = tarfile.TarInfo(path)
                info.size, info.mode, info.mtime = len(content), 0o644, created
                tar.addfile(info, io.BytesIO(content))


def image(layout, arch, program, args):
    """Adds the image of one architecture to the layout; returns its descriptor."""
    time = datetime.datetime.fromtimestamp(args.created, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    layers, diff_ids = [], []
    for entries in [base(), names(), [file("usr/bin/weir", program.read_bytes(), 0o755)]]:
        packed, diff_id = layer(entries, args.created)
        layers.append(layout.add(packed, f"{OCI}.layer.v1.tar+gzip"))
        diff_ids.append(f"sha256:{diff_id}")
    labels = {
        "org.opencontainers.image.title": "weir",
        "org.opencontainers.image.description": "Connection pooler for PostgreSQL",
        "org.opencontainers.image.version": args.version,
        "org.opencontainers.image.revision": args.commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    config = layout.add_json({
        "architecture": arch,
        "os": "linux",
        "created": time,
        "config": {
            "User": f"{UID}:{UID}",
            "Env": ["PATH=/usr/bin:/usr/sbin:/bin", "RUNTIME_DIRECTORY=/run/weir"],
            "Entrypoint": ["/usr/bin/weir"],
            "Cmd": ["serve", "/etc/weir/weir.toml"],
            "ExposedPorts": {"6432/tcp": {}, "8432/tcp": {}},
            "WorkingDir": "/",
            "Labels": labels,
            "StopSignal": "SIGTERM",
        },
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created": time, "created_by": "weir packaging"}] * len(layers),
    }, f"{OCI}.config.v1+json")
    media_type = f"{OCI}.manifest.v1+json"
    manifest = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": layers, "annotations": labels}
    return layout.add_json(manifest, media_type) | {"platform": {"architecture": arch, "os": "linux"}}


def program(word):
    """The architecture and the file of an argument."""
    arch, _, path = word.partition("=")
    if arch not in ("amd64", "arm64") or not path:
        raise argparse.ArgumentTypeError(f"'{word}' is not amd64=FILE or arm64=FILE")
    return arch, pathlib.Path(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("programs", type=program, nargs="+")
    parser.add_argument("--version", required=True)
    parser.add_argument("--created", required=True, type=int)
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()

    layout = Layout()
    images = [image(layout, arch, path, args) for arch, path in args.programs]
    top = images[0]
    if len(images) > 1:
        media_type = f"{OCI}.index.v1+json"
        top = layout.add_json({"schemaVersion": 2, "mediaType": media_type, "manifests": images}, media_type)
    named = top | {"annotations": {"org.opencontainers.image.ref.name": args.version}}
    layout.write(args.out, {"schemaVersion": 2, "manifests": [named]}, args.created)
    print(f"image for {', '.join(arch for arch, _ in args.programs)}: {top['digest']}")


if __name__ == "__main__":
    main()
