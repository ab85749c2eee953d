#!/usr/bin/env python3
"""Renders the chart with values that are wrong, and with names that are unusual: a part of `make charts`.

Usage: values_test.py HELM CHART OUT (OUT: a folder for what unusual names give)

Each single value is tried with another type than it has, so a new value without a rule in values.schema.json is found. An error
must name its value.
"""

import json
import pathlib
import subprocess
import sys

import yaml

# What is wrong in a way that types do not show, and a part of the error.
WRONG = [
    ({"replicas": -1}, "replicas"),
    ({"image": {"tag": 1.0}}, "image/tag"),
    ({"image": {"digest": "sha256:12"}}, "image/digest"),
    ({"image": {"pullPolicy": "Often"}}, "image/pullPolicy"),
    ({"tls": {"mode": "on"}}, "tls/mode"),
    ({"tls": {"mode": True}}, "tls/mode"),
    ({"service": {"port": 65536}}, "service/port"),
    ({"service": {"type": "Cluster"}}, "service/type"),
    ({"shutdown": {"timeoutSeconds": 0}}, "shutdown/timeoutSeconds"),
    ({"podDisruptionBudget": {"maxUnavailable": "half"}}, "podDisruptionBudget/maxUnavailable"),
    ({"serviceMonitor": {"interval": "15"}}, "serviceMonitor/interval"),
    ({"podAnnotations": {"a": 1}}, "podAnnotations/a"),
    ({"nodeSelector": {"ssd": True}}, "nodeSelector/ssd"),
    ({"extraEnv": [{"name": "A", "value": 1}]}, "extraEnv/0/value"),
    ({"secrets": ["weir-users"]}, "secrets/0"),
    ({"secrets": [{}]}, "secrets/0"),
    ({"unknown": 1}, "unknown"),
    ({"tls": {"secret": "a"}}, "secret"),
    ({"config": "[listen]\nport = 1"}, "[listen] is the chart's; its lines belong to the value listen"),
    ({"config": "[auth]\n  [ general ]\n"}, "[general]"),
    ({"config": "[web]\n"}, "the value web.settings"),
    ({"config": "[tls.client]\n", "tls": {"secretName": "a"}}, "the value tls"),
    ({"web": {"users": 'a = "admin x"'}}, "web.users and web.tokens need tls.secretName"),
    ({"serviceMonitor": {"enabled": True}}, "serviceMonitor needs tls.secretName"),
    ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels: app.kubernetes.io/name is the chart's own label"),
    ({"nameOverride": "9lives"}, "set nameOverride"),
    ({"nameOverride": "Upper"}, "set nameOverride"),
]
# Names of releases, and the names that the objects get.
RELEASES = {"my.release-1": "my-release-1", "on": "on", "null": "null", "y": "y", "a" * 53: "a" * 50, "b" * 49 + ".cd": "b" * 49}


def main():
    helm, chart, out = sys.argv[1:]

    def render(name, values):
        command = [helm, "template", name, chart, "--values", "-"]
        return subprocess.run(command, input=json.dumps(values), capture_output=True, text=True)

    def refused(values, part):
        done = render("weir", values)
        # Helm's words for a place in the values are /a/b or a.b, by its version.
        said = done.stderr
        if done.returncode == 0 or part not in said and part.replace("/", ".") not in said:
            raise SystemExit(f"{values}: not refused with {part!r}: {said or 'accepted'}")

    tried = [(wrong_type(path, value), "/".join(path)) for path, value in leaves(yaml.safe_load(read(chart)))]
    for values, part in tried + WRONG:
        refused(values, part)
    for release, name in RELEASES.items():
        done = render(release, {})
        objects = [document for document in yaml.safe_load_all(done.stdout) if document]
        if not objects or {document["metadata"]["name"] for document in objects} != {name}:
            raise SystemExit(f"{release}: {done.stderr}")
        pathlib.Path(out, f"release-{name}.yaml").write_text(done.stdout)
    print(f"{len(tried) + len(WRONG)} wrong values are refused, {len(RELEASES)} unusual names are accepted")


def read(chart):
    return pathlib.Path(chart, "values.yaml").read_text()


def leaves(values, path=()):
    """The values that have no parts of their own by name, and the maps that a user fills."""
    for key, value in values.items():
        at = (*path, key)
        yield at, value
        if isinstance(value, dict):
            yield from leaves(value, at)


def wrong_type(path, value):
    wrong = "text" if isinstance(value, (dict, list, int)) else {"a": "map"}
    for key in reversed(path):
        wrong = {key: wrong}
    return wrong


if __name__ == "__main__":
    main()
