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
    ({"workload": "DaemonSet"}, "workload"),
    ({"cluster": {"etcd": ["etcd:2379"]}}, "cluster/etcd"),
    ({"config": "[cluster]\n"}, "the value cluster"),
    ({"pools": {"app": {"host": {"a": 1}}}}, "pools/app/host"),
    ({"pools": {"app": {"host": "h"}}, "config": "[pools.app]\n"}, "pools.app: config has [pools.app], too"),
    ({"autoscaling": {"enabled": True, "minReplicas": 3, "maxReplicas": 2}}, "autoscaling.maxReplicas"),
    ({"podDisruptionBudget": {"minAvailable": "all"}}, "podDisruptionBudget/minAvailable"),
    ({"service": {"loadBalancerSourceRanges": ["10.0.0.1"]}}, "service/loadBalancerSourceRanges"),
    ({"probes": {"readiness": {"period": 1}}}, "period"),
    ({"commonLabels": {"app.kubernetes.io/name": "mine"}}, "commonLabels: app.kubernetes.io/name is the chart's own label"),
    ({"podLabels": {"app.kubernetes.io/name": "mine"}}, "podLabels: app.kubernetes.io/name is the chart's own label"),
    ({"nameOverride": "9lives"}, "set nameOverride"),
    ({"nameOverride": "Upper"}, "set nameOverride"),
]
# Names of releases, and the names that the objects get.
RELEASES = {"my.release-1": "my-release-1", "on": "on", "null": "null", "y": "y", "a" * 53: "a" * 50, "b" * 49 + ".cd": "b" * 49}


def main():
    helm, chart, out = sys.argv[1:]

    def render(name, values):
        command = [helm, "template", name, chart, "--kube-version", "v1.33.0", "--values", "-"]
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
    restarts(render)
    for release, name in RELEASES.items():
        done = render(release, {})
        objects = [document for document in yaml.safe_load_all(done.stdout) if document]
        if not objects or {document["metadata"]["name"] for document in objects} != {name, f"{name}-peers"}:
            raise SystemExit(f"{release}: {done.stderr}")
        pathlib.Path(out, f"release-{name}.yaml").write_text(done.stdout)
    print(f"{len(tried) + len(WRONG)} wrong values are refused, {len(RELEASES)} unusual names are accepted")


def restarts(render):
    """Pods are replaced for a changed setting if, and only if, it needs a restart, by the table of settings."""

    def checksum(values):
        done = render("weir", values)
        pods = [document for document in yaml.safe_load_all(done.stdout) if document and document["kind"] == "StatefulSet"]
        return pods[0]["spec"]["template"]["metadata"]["annotations"]["checksum/restart"]

    # The chart's value for lines of a section.
    values = {
        "general": lambda line: {"general": line},
        "web": lambda line: {"web": {"settings": line}},
        "dns": lambda line: {"config": f"[dns]\n{line}"},
        "limits": lambda line: {"config": f"[limits]\n{line}"},
    }
    without, section, tried = checksum({}), None, 0
    for line in pathlib.Path("docs/settings.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.strip("# []")
        if section in values and line.startswith("| `"):
            name, needs = line.split("`")[1], "| restart |" in line
            tried += 1
            if (checksum(values[section](f"{name} = 1")) != without) != needs:
                raise SystemExit(f"{section}.{name}: a change must {'' if needs else 'not '}replace the pods")
    if tried < 50:
        raise SystemExit(f"docs/settings.md has only {tried} settings")


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
    wrong = "text" if isinstance(value, (dict, list, int)) or value is None else {"a": "map"}
    for key in reversed(path):
        wrong = {key: wrong}
    return wrong


if __name__ == "__main__":
    main()
