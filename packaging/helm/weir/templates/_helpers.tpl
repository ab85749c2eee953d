{{/* A Service's name has no dots, and begins with a letter. Quoted: "on" and "null" are names, too. */}}
{{- define "weir.name" -}}
{{- $name := coalesce .Values.fullnameOverride .Values.nameOverride .Release.Name | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%q can't be the name of a Service, which has lower-case letters, digits and '-', and begins with a letter: set nameOverride" $name) -}}
{{- end -}}
{{- $name | quote -}}
{{- end -}}

{{/* The Service that names each pod of a StatefulSet. */}}
{{- define "weir.peers" -}}
{{- printf "%s-peers" (include "weir.name" . | trimAll "\"") | quote -}}
{{- end -}}

{{- define "weir.serviceAccount" -}}
{{- with coalesce .Values.serviceAccount.name (ternary (include "weir.name" . | trimAll "\"") "" .Values.serviceAccount.create) }}{{ . | quote }}{{ end -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Labels of pods: those of the selector, and of all objects. */}}
{{- define "weir.podLabels" -}}
{{ include "weir.labelsWith" (list . .Values.commonLabels "commonLabels" "weir.selector") }}
{{- end -}}

{{- define "weir.labels" -}}
{{ include "weir.labelsWith" (list . .Values.commonLabels "commonLabels" "weir.ownLabels") }}
{{- end -}}

{{- define "weir.ownLabels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* Labels with those of a value, which may not replace the chart's: list ROOT LABELS NAME-OF-THE-VALUE TEMPLATE */}}
{{- define "weir.labelsWith" -}}
{{- $own := include (index . 3) (index . 0) | fromYaml -}}
{{- range $key, $_ := index . 1 -}}
{{- if hasKey $own $key -}}{{- fail (printf "%s: %s is the chart's own label" (index $ 2) $key) -}}{{- end -}}
{{- end -}}
{{- merge $own (default dict (index . 1)) | toYaml -}}
{{- end -}}

{{- define "weir.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "weir.gracePeriod" -}}
{{- with .Values.shutdown }}{{ add .delaySeconds .drainSeconds .timeoutSeconds .reserveSeconds }}{{ end -}}
{{- end -}}

{{- define "weir.spread" -}}
{{- $apart := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" (include "weir.selector" . | fromYaml)) -}}
podAntiAffinity:
  {{- if eq .Values.spread "required" }}
  requiredDuringSchedulingIgnoredDuringExecution: [{{ toJson $apart }}]
  {{- else }}
  preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {{ toJson $apart }}}]
  {{- end }}
{{- end -}}

{{/* What both containers have: the environment, the files, the rights. */}}
{{- define "weir.container" -}}
env:
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  {{- if include "weir.hasPeers" . }}
  - {name: POD_NUMBER, valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}}
  {{- end }}
  {{- with .Values.extraEnv }}{{ toYaml . | nindent 2 }}{{ end }}
{{- with .Values.extraEnvFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: config, mountPath: /etc/weir/config, readOnly: true}
  - {name: run, mountPath: /run/weir}
  {{- if .Values.cluster.etcd }}
  - {name: state, mountPath: /var/lib/weir}
  {{- end }}
  {{- if .Values.secrets }}
  - {name: secrets, mountPath: /etc/weir/secrets, readOnly: true}
  {{- end }}
  {{- if .Values.tls.secretName }}
  - {name: tls, mountPath: /etc/weir/tls, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{/* Whether pods pass requests to cancel on by their numbers; the nodes of a cluster do by themselves. */}}
{{- define "weir.hasPeers" -}}
{{- if and (eq .Values.workload "StatefulSet") (not .Values.cluster.etcd) (not (regexMatch "(?m)^[ \\t]*peer_id[ \\t]*=" .Values.process)) (not (regexMatch "(?m)^[ \\t]*\\[[ \\t]*peers\\." .Values.config)) }}yes{{ end -}}
{{- end -}}

{{- define "weir.mostPods" -}}
{{- if .Values.autoscaling.enabled }}{{ .Values.autoscaling.maxReplicas }}{{ else }}{{ .Values.replicas }}{{ end -}}
{{- end -}}

{{- define "weir.process" -}}
watch_files = "all"
{{- if include "weir.hasPeers" . }}
peer_id = "env:POD_NUMBER"
{{- end }}
{{- with .Values.process }}{{ . | trimSuffix "\n" | nindent 0 }}{{ end }}
{{- end -}}

{{- define "weir.listen" -}}
address = "*"
port = 6432
unix_socket_dir = "/run/weir"
{{- with .Values.listen }}{{ . | trimSuffix "\n" | nindent 0 }}{{ end }}
{{- end -}}

{{- define "weir.cluster" -}}
etcd = {{ toJson .Values.cluster.etcd }}
name = {{ toJson .Values.cluster.name }}
node = "env:POD_NAME"
address = "env:POD_IP"
state = "/var/lib/weir/floors"
{{- with .Values.cluster.settings }}{{ . | trimSuffix "\n" | nindent 0 }}{{ end }}
{{- end -}}

{{- define "weir.web" -}}
{{- if .Values.tls.secretName -}}
address = "*"
port = 8432
tls_cert_file = "/etc/weir/tls/tls.crt"
tls_key_file = "/etc/weir/tls/tls.key"
{{- else -}}
address = "127.0.0.1"
port = 8432
{{- end }}
{{- with .Values.web.settings }}{{ . | trimSuffix "\n" | nindent 0 }}{{ end }}
{{- end -}}

{{/* The settings that need a restart: these sections, and these lines. values_test.py compares them with docs/settings.md. */}}
{{- define "weir.restart" -}}
{{- $lines := dict "workers|io|track_extra_parameters|disable_pqexec" .Values.general "address|port|tls_cert_file|tls_key_file|history|lab" (include "weir.web" .) "resolv_conf" .Values.config -}}
{{ include "weir.process" . }}
{{ include "weir.listen" . }}
{{ if .Values.cluster.etcd }}{{ include "weir.cluster" . }}{{ end }}
{{- range $keys, $text := $lines }}
{{ regexFindAll (printf "(?m)^[ \\t]*(%s)[ \\t]*=.*$" $keys) $text -1 | join "\n" }}
{{- end }}
{{- end -}}

{{/* A value as TOML: list VALUE NAME-OF-THE-VALUE */}}
{{- define "weir.toml" -}}
{{- $value := index . 0 -}}
{{- if kindIs "float64" $value -}}
{{- if eq $value (floor $value) }}{{ int64 $value }}{{ else }}{{ $value }}{{ end -}}
{{- else if or (kindIs "map" $value) (kindIs "invalid" $value) -}}
{{- fail (printf "%s must be text, a number, true, false or a list" (index . 1)) -}}
{{- else }}{{ toJson $value }}{{ end -}}
{{- end -}}

{{/* What the schema can't express. */}}
{{- define "weir.validate" -}}
{{- $instead := dict "general" "general" "process" "process" "listen" "listen" "web" "web.settings" "web.users" "web.users" "web.tokens" "web.tokens" "cluster" "cluster" -}}
{{- if .Values.tls.secretName -}}{{- $instead = set $instead "tls.client" "tls" -}}{{- end -}}
{{- range $section, $value := $instead -}}
{{- if regexMatch (printf "(?m)^[ \\t]*\\[[ \\t]*%s[ \\t]*\\]" (replace "." "\\." $section)) $.Values.config -}}
{{- fail (printf "config: the section [%s] is the chart's; its lines belong to the value %s" $section $value) -}}
{{- end -}}
{{- end -}}
{{- range $section := list "pools" "users" -}}
{{- range $name, $_ := get $.Values $section -}}
{{- if regexMatch (printf "(?m)^[ \\t]*\\[[ \\t]*%s[ \\t]*\\.[ \\t]*[\"']?%s[\"']?[ \\t]*\\]" $section (regexQuoteMeta $name)) $.Values.config -}}
{{- fail (printf "%s.%s: config has [%s.%s], too; keep one of them" $section $name $section $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- fail "autoscaling.maxReplicas is less than autoscaling.minReplicas" -}}
{{- end -}}
{{- if and (not .Values.tls.secretName) (or .Values.web.users .Values.web.tokens) -}}
{{- fail "web.users and web.tokens need tls.secretName: without TLS the API answers inside of the pod only, without a login" -}}
{{- end -}}
{{- end -}}
