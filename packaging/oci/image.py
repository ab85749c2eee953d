#!/usr/bin/env python3
"""Writes an OCI image of a static weir, as a tar archive in the OCI layout.

Usage: image.py WEIR OUT.tar --version VERSION --arch amd64 --created EPOCH [--commit COMMIT]

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
# CloudNativePG runs its pooler as this user, whose name the console's peer authentication compares.
OPERATOR_UID = 998
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")
PASSWD = "".join(
    f"{name}:x:{uid}:{uid}::/:/sbin/nologin\n" for name, uid in [("root", 0), ("weir", UID), ("pgbouncer", OPERATOR_UID)]
)
GROUP = f"root:x:0:\nweir:x:{UID}:\npgbouncer:x:{OPERATOR_UID}:\n"
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
                "var/run"]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weir", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--version", required=True)
    parser.add_argument("--arch", required=True, choices=["amd64", "arm64"])
    parser.add_argument("--created", required=True, type=int)
    parser.add_argument("--commit", default="unknown")
    args = parser.parse_args()

    program = [file("usr/bin/weir", args.weir.read_bytes(), 0o755)]
    time = datetime.datetime.fromtimestamp(args.created, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    layout, layers, diff_ids = Layout(), [], []
    for entries in [base(), names(), program]:
        packed, diff_id = layer(entries, args.created)
        layers.append(layout.add(packed, "application/vnd.oci.image.layer.v1.tar+gzip"))
        diff_ids.append(f"sha256:{diff_id}")
    labels = {
        "org.opencontainers.image.title": "weir",
        "org.opencontainers.image.description": "Connection pooler for PostgreSQL",
        "org.opencontainers.image.version": args.version,
        "org.opencontainers.image.revision": args.commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    config = layout.add_json({
        "architecture": args.arch,
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
    }, "application/vnd.oci.image.config.v1+json")
    manifest = layout.add_json({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": layers,
        "annotations": labels,
    }, "application/vnd.oci.image.manifest.v1+json")
    manifest["platform"] = {"architecture": args.arch, "os": "linux"}
    manifest["annotations"] = {"org.opencontainers.image.ref.name": args.version}
    layout.write(args.out, {"schemaVersion": 2, "manifests": [manifest]}, args.created)
    print(manifest["digest"])


if __name__ == "__main__":
    main()
