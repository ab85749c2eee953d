#!/usr/bin/env bash
# Checks the Helm chart and the plain manifests without a cluster: helm lint and template, kubeconform with the schemas of
# Kubernetes and of the Prometheus operator, and Weir on each weir.toml that they contain. `make charts`; --bless writes
# manifests/weir.yaml, --tools only installs the tools.
#
# Needs Go, Python 3 with venv, and a built weir (WEIR_BIN). Tools and schemas come from Go modules and PyPI, once, into
# target/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

tools=${TOOLS:-$PWD/target/tools} weir=${WEIR_BIN:-target/debug/weir} kubernetes=${KUBERNETES:-v1.33.0}
chart=packaging/helm/weir manifests=packaging/kubernetes/manifests
operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prepare() {
    mkdir -p "$tools/crd"
    export GOBIN=$tools PATH=$tools:$PATH
    [ -x "$tools/helm" ] || go install helm.sh/helm/v3/cmd/helm@v3.22.0
    [ -x "$tools/kubeconform" ] || go install github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
    if [ ! -d "$tools/python" ]; then
        python3 -m venv "$tools/python"
        "$tools/python/bin/pip" install --quiet kubernetes-validate PyYAML
    fi
    [ -f "$tools/crd/servicemonitor_v1.json" ] || operator_schemas
    [ -f "$tools/schemas/statefulset-apps-v1.json" ] || kubernetes_schemas
}

# The schemas of Kubernetes' kinds, each with its definitions in it.
kubernetes_schemas() {
    "$tools/python/bin/python" - "$kubernetes-local-strict" "$tools/schemas" <<'END'
import json, pathlib, sys, kubernetes_validate
source = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / sys.argv[1]
target = pathlib.Path(sys.argv[2])
target.mkdir(exist_ok=True)
local = lambda text: text.replace('"/api/_definitions.json#', '"#').replace('"_definitions.json#', '"#')
definitions = json.loads(local((source / "_definitions.json").read_text()))["$defs"]
for kind in ["configmap-v1", "deployment-apps-v1", "statefulset-apps-v1", "service-v1", "serviceaccount-v1",
             "horizontalpodautoscaler-autoscaling-v2", "poddisruptionbudget-policy-v1", "networkpolicy-networking-v1"]:
    schema = json.loads(local((source / f"{kind}.json").read_text()))
    (target / f"{kind}.json").write_text(json.dumps(schema | {"$defs": definitions}))
END
}

# The schemas of the Prometheus operator's kinds, out of its definitions.
operator_schemas() {
    local folder
    folder=$(cd "$work" && go mod download -json "$operator" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    "$tools/python/bin/python" - "$folder/example/prometheus-operator-crd" "$tools/crd" <<'END'
import json, pathlib, sys, yaml
for kind in ["servicemonitors", "prometheusrules"]:
    file = pathlib.Path(sys.argv[1], f"monitoring.coreos.com_{kind}.yaml")
    spec = yaml.safe_load(file.read_text())["spec"]
    for version in spec["versions"]:
        name = f"{spec['names']['kind'].lower()}_{version['name']}.json"
        pathlib.Path(sys.argv[2], name).write_text(json.dumps(version["schema"]["openAPIV3Schema"]))
END
}

validate() {
    kubeconform -strict -summary -schema-location "$tools/schemas/{{.ResourceKind}}{{.KindSuffix}}.json" \
        -schema-location "$tools/crd/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json" "$@"
}

# Has Weir read the weir.toml of a file, with other files in place of the mounted ones.
check_settings() {
    "$tools/python/bin/python" - "$1" "$work" <<'END'
import pathlib, re, sys, yaml
documents = [d for d in yaml.safe_load_all(open(sys.argv[1])) if d]
work = pathlib.Path(sys.argv[2])
text = next(d for d in documents if d["kind"] == "ConfigMap")["data"]["weir.toml"]
pod = next(d for d in documents if d["kind"] in ("Deployment", "StatefulSet"))["spec"]["template"]["spec"]
containers = {c["name"]: c for c in pod.get("initContainers", []) + pod["containers"]}
mounts = [mount["mountPath"] for mount in containers["weir"]["volumeMounts"]]
variables = {"POD_NAME": "weir-1", "POD_IP": "127.0.0.1", "POD_NUMBER": "1"}
for one in containers["weir"].get("env", []):
    assert one["name"] in variables or "value" in one or "valueFrom" in one, one
    variables[one["name"]] = one.get("value", variables.get(one["name"], ""))
(work / "env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
for path in re.findall(r'"(/[^"]+)"', text):
    assert any(path == at or path.startswith(at + "/") for at in mounts), f"{sys.argv[1]}: nothing is mounted at {path}"
(work / "userlist.txt").write_text('"app" "secret"\n')
(work / "app").write_text("secret\n")
for folder in ["/etc/weir/secrets", "/etc/weir/tls", "/var/lib/weir"]:
    text = text.replace(folder, str(work))
(work / "weir.toml").write_text(text)
END
    env $(cat "$work/env") "$weir" check "$work/weir.toml" >"$work/said" 2>&1 || { cat "$work/said" "$work/weir.toml"; return 1; }
}

# Runs helm, whose messages are only shown if it fails.
quiet_helm() {
    helm "$@" 2>"$work/said" || { cat "$work/said" >&2; return 1; }
}

prepare
[ "${1-}" != --tools ] || exit 0
openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=weir -keyout "$work/tls.key" -out "$work/tls.crt" -days 2 2>/dev/null
cp "$work/tls.crt" "$work/ca.crt"
quiet_helm lint --quiet --kube-version "$kubernetes" "$chart"
quiet_helm template weir --kube-version "$kubernetes" "$chart" >"$work/default.yaml"
if [ "${1-}" = --bless ]; then
    cp "$work/default.yaml" "$manifests/weir.yaml"
fi
diff "$manifests/weir.yaml" "$work/default.yaml"
files=("$work/default.yaml" "$manifests/sidecar.yaml")
for values in "$chart"/ci/*.yaml; do
    rendered=$work/$(basename "$values")
    quiet_helm lint --quiet --kube-version "$kubernetes" "$chart" -f "$values"
    quiet_helm template weir --kube-version "$kubernetes" "$chart" -f "$values" >"$rendered"
    files+=("$rendered")
done
"$tools/python/bin/python" packaging/kubernetes/values_test.py "$tools/helm" "$chart" "$work"
files+=("$work"/release-*.yaml)
validate "${files[@]}"
for file in "${files[@]}"; do
    check_settings "$file"
done
echo "${#files[@]} passed, 0 failed"
