{{/* A Service's name has no dots, and begins with a letter. Quoted: "on" and "null" are names, too. */}}
{{- define "weir.name" -}}
{{- $name := default .Release.Name .Values.nameOverride | replace "." "-" | trunc 50 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" $name) -}}
{{- fail (printf "%q can't be the name of a Service, which has lower-case letters, digits and '-', and begins with a letter: set nameOverride" $name) -}}
{{- end -}}
{{- $name | quote -}}
{{- end -}}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "weir.labels" -}}
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

{{/* What the schema can't express. */}}
{{- define "weir.validate" -}}
{{- $instead := dict "general" "general" "process" "process" "listen" "listen" "web" "web.settings" "web.users" "web.users" "web.tokens" "web.tokens" -}}
{{- if .Values.tls.secretName -}}{{- $instead = set $instead "tls.client" "tls" -}}{{- end -}}
{{- range $section, $value := $instead -}}
{{- if regexMatch (printf "(?m)^[ \\t]*\\[[ \\t]*%s[ \\t]*\\]" (replace "." "\\." $section)) $.Values.config -}}
{{- fail (printf "config: the section [%s] is the chart's; its lines belong to the value %s" $section $value) -}}
{{- end -}}
{{- end -}}
{{- if and (not .Values.tls.secretName) (or .Values.web.users .Values.web.tokens) -}}
{{- fail "web.users and web.tokens need tls.secretName: without TLS the API answers inside of the pod only, without a login" -}}
{{- end -}}
{{- end -}}
