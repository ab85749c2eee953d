#!/usr/bin/env python3
"""Writes the software bill of materials of weir in CycloneDX 1.5: of what `cargo metadata` resolves, of the panel's npm packages
(panel/package-lock.json), and of what the tarball and the image have from the distribution.

Usage: sbom.py TARGET EPOCH > weir.cdx.json
"""

import base64
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys
import tomllib
import uuid


def metadata(target):
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def compiled(nodes, root):
    """The packages that `root` is linked with or built by, without those of tests: ids, each with what it needs."""
    needs, open_ids = {}, [root]
    while open_ids:
        package = open_ids.pop()
        if package in needs:
            continue
        kinds = [(dep["pkg"], [kind["kind"] for kind in dep["dep_kinds"]]) for dep in nodes[package]["deps"]]
        needs[package] = sorted(dep for dep, kind in kinds if kind != ["dev"])
        open_ids += needs[package]
    return needs


def component(package, checksums):
    name, version = package["name"], package["version"]
    result = {"type": "library", "bom-ref": package["id"], "name": name, "version": version}
    if package["license"]:
        result["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((name, version))
    if checksum:
        result["purl"] = f"pkg:cargo/{name}@{version}"
        result["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    return result


# What the panel's pages contain or are compiled by; the other packages only check and bundle them.
PANEL = ("svelte", "uplot", "@fontsource-variable/inter")
# The bundle of authorities that the image has, as in packaging/oci/image.py.
AUTHORITIES = pathlib.Path("/etc/ssl/certs/ca-certificates.crt")


def panel_components():
    """The npm packages of the panel, with what they need."""
    locked = json.loads(pathlib.Path("panel/package-lock.json").read_text())["packages"]
    names, open_names = set(), list(PANEL)
    while open_names:
        name = open_names.pop()
        if name not in names:
            names.add(name)
            open_names += locked[f"node_modules/{name}"].get("dependencies", {})
    for name in sorted(names):
        package = locked[f"node_modules/{name}"]
        algorithm, digest = package["integrity"].split("-", 1)
        assert algorithm == "sha512", f"{name}: {algorithm}"
        purl = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
        yield {
            "type": "library",
            "bom-ref": purl,
            "name": name,
            "version": package["version"],
            "licenses": [{"expression": package["license"]}],
            "purl": purl,
            "hashes": [{"alg": "SHA-512", "content": base64.b64decode(digest).hex()}],
            "properties": [{"name": "part", "value": "panel"}],
        }


def distribution_component(package, licence, part, content=None):
    """A package of this distribution, which `part` contains; `content`: the file that it has from there."""
    query = ["dpkg-query", "--showformat=${Version}", "--show", package]
    version = subprocess.run(query, check=True, stdout=subprocess.PIPE, text=True).stdout
    purl = f"pkg:deb/debian/{package}@{version}"
    result = {"type": "library", "bom-ref": purl, "name": package, "version": version, "purl": purl}
    result["licenses"] = [{"expression": licence}]
    if content:
        result["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    return result | {"properties": [{"name": "part", "value": part}]}


def main():
    target, epoch = sys.argv[1], int(sys.argv[2])
    found = metadata(target)
    packages = {package["id"]: package for package in found["packages"]}
    root = next(id for id, package in packages.items() if package["name"] == "weir")
    needs = compiled({node["id"]: node for node in found["resolve"]["nodes"]}, root)
    with open("Cargo.lock", "rb") as file:
        locked = tomllib.load(file)["package"]
    checksums = {(entry["name"], entry["version"]): entry.get("checksum") for entry in locked}
    components = sorted((component(packages[id], checksums) for id in needs if id != root), key=lambda c: c["bom-ref"])
    components += panel_components()
    components.append(distribution_component("musl-dev", "MIT", "tarball and image"))
    components.append(distribution_component("ca-certificates", "MPL-2.0", "image", AUTHORITIES.read_bytes()))
    top = component(packages[root], checksums) | {"type": "application"}
    time = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    # Paths of this machine are in the ids of the workspace's own packages.
    here = found["workspace_root"]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([target, top, components], sort_keys=True).replace(here, "/weir"))
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": time, "component": top, "properties": [{"name": "target", "value": target}]},
        "components": components,
        "dependencies": [{"ref": id, "dependsOn": needs[id]} for id in sorted(needs)],
    }
    print(json.dumps(bom, indent=1).replace(here, "/weir"))


if __name__ == "__main__":
    main()
