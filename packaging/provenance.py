#!/usr/bin/env python3
"""Prints what a folder of packages, with their SHA256SUMS, was made from: an in-toto statement (v1) with SLSA's provenance (v1) as
its predicate.

Usage: provenance.py FOLDER
"""

import datetime
import hashlib
import json
import pathlib
import subprocess
import sys


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main():
    sums = pathlib.Path(sys.argv[1], "SHA256SUMS").read_text()
    digests = {name: digest for digest, name in (line.split("  ", 1) for line in sums.splitlines())}
    subject = [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(digests.items())]
    manifest = json.loads(said("cargo", "metadata", "--format-version", "1", "--no-deps"))
    source = next(package for package in manifest["packages"] if package["name"] == "weir")["repository"]
    lock = hashlib.sha256(pathlib.Path("Cargo.lock").read_bytes()).hexdigest()
    commit = said("git", "rev-parse", "HEAD")
    compiler = dict(line.split(": ", 1) for line in said("rustc", "-vV").splitlines() if ": " in line)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subject,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{source}/blob/{commit}/packaging/build.sh",
                "externalParameters": {"source": f"git+{source}@{commit}", "architectures": architectures(digests)},
                "internalParameters": {
                    "SOURCE_DATE_EPOCH": int(said("git", "log", "-1", "--format=%ct")),
                    "changed": bool(said("git", "status", "--porcelain")),
                },
                "resolvedDependencies": [
                    {"uri": f"git+{source}", "digest": {"gitCommit": commit}},
                    {"uri": "Cargo.lock", "digest": {"sha256": lock}},
                    {"uri": f"rustc {compiler['release']}", "digest": {"gitCommit": compiler["commit-hash"]}},
                ],
            },
            "runDetails": {
                "builder": {"id": f"{source}/blob/{commit}/RELEASING.md", "version": {"rustc": compiler["release"]}},
                "metadata": {"finishedOn": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")},
            },
        },
    }
    print(json.dumps(statement, indent=2))


def architectures(names):
    return [arch for arch in ("amd64", "arm64") if any(f"-{arch}." in name or f"_{arch}." in name for name in names)]


if __name__ == "__main__":
    main()
