{{- /* YAML's numbers are floats in here, and large ones would be written as 1e+06. */ -}}
{{- define "coversumm.text" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{- /* The settings of the workers by variable without prefix, those of the chart itself among them; without what has its default. */ -}}
{{- define "coversumm.settings" -}}
{{- $url := printf "%s://$(POD_NAME).%s-headless.$(POD_NAMESPACE).svc:%s" (include "coversumm.webScheme" .) (include "coversumm.fullname" .) (include "coversumm.webPort" .) -}}
{{- $settings := dict
  "DATA_DIR" "/data/state"
  "MODEL_CACHE_DIR" "/data/models"
  "INSTANCE_ID" "$(POD_NAME)"
  "WEB_BIND" "::"
  "WEB_ADVERTISED_URL" $url
  "EMBEDDER_THREADS" 2
  "INPUT_TOPIC" (first .Values.kafka.inputTopics)
  "OUTPUT_TOPIC" .Values.kafka.outputTopic
  "APP_ID" .Values.kafka.applicationId -}}
{{- if include "coversumm.workersMapping" . }}{{ $_ := set $settings "MAPPING" (printf "/etc/coversumm/%s" .Values.mappingFile) }}{{ end -}}
{{- with .Values.kafka.errorTopic }}{{ $_ := set $settings "DLQ_TOPIC" . }}{{ end -}}
{{- with .Values.web }}
{{- with .path }}{{ $_ := set $settings "WEB_PATH" . }}{{ end -}}
{{- if .tls.secretName }}
{{- $_ := set $settings "WEB_TLS_CERTIFICATE_LOCATION" "/etc/coversumm-tls/tls.crt" }}
{{- $_ := set $settings "WEB_TLS_KEY_LOCATION" "/etc/coversumm-tls/tls.key" }}
{{- with .tls.ca }}{{ $_ := set $settings "WEB_TLS_CA_LOCATION" (printf "/etc/coversumm-tls/%s" .) }}{{ end -}}
{{- end -}}
{{- if .rateLimit.requestsPerSecond }}
{{- $_ := set $settings "WEB_RATE" .rateLimit.requestsPerSecond }}
{{- $_ := set $settings "WEB_BURST" .rateLimit.burst }}
{{- $_ := set $settings "WEB_PROXIES" (join "," .rateLimit.proxies) }}
{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.commandLine }}{{ $_ := set $settings $name $value }}{{ end -}}
{{- $name := include "coversumm.fullname" . -}}
{{- $hosts := ternary (list $name (printf "%s.$(POD_NAMESPACE)" $name) (printf "%s.$(POD_NAMESPACE).svc" $name)) list .Values.service.enabled -}}
{{- range $way := list .Values.ingress .Values.gateway }}{{ if $way.enabled }}{{ $hosts = append $hosts $way.host }}{{ end }}{{ end -}}
{{- with .Values.commandLine.WEB_ALLOWED_HOSTS }}{{ $hosts = append $hosts . }}{{ end -}}
{{- with $hosts }}{{ $_ := set $settings "WEB_ALLOWED_HOSTS" (uniq . | join ",") }}{{ end -}}
{{- toYaml $settings -}}
{{- end -}}

{{- /* A setting's value as the workers have it: ["NAME", root]. What nobody set has the worker's default. */ -}}
{{- define "coversumm.setting" -}}
{{- $root := index . 1 -}}
{{- $defaults := $root.Files.Get "files/defaults.yaml" | fromYaml -}}
{{- include "coversumm.text" (get (ternary $root.Values.commandLine $defaults (hasKey $root.Values.commandLine (index . 0))) (index . 0)) -}}
{{- end -}}

{{- define "coversumm.webPort" -}}
{{- include "coversumm.setting" (list "WEB_PORT" .) -}}
{{- end -}}

{{- define "coversumm.webScheme" -}}
{{- or .Values.web.tls.secretName .Values.commandLine.WEB_TLS_CERTIFICATE_LOCATION | empty | ternary "http" "https" -}}
{{- end -}}

{{- define "coversumm.webPath" -}}
{{- .Values.web.path | default .Values.commandLine.WEB_PATH | default "/" -}}
{{- end -}}

{{- /* Of a size like 1048576 or 1MiB; any other number is itself. */ -}}
{{- define "coversumm.bytes" -}}
{{- $unit := dict "K" 1024 "M" 1048576 "G" 1073741824 "T" 1099511627776 -}}
{{- mul (regexFind "^[0-9]+" . | int64) (get $unit (regexFind "[KMGT]" .) | default 1) -}}
{{- end -}}

{{- /* MiB, rounded up. */ -}}
{{- define "coversumm.mib" -}}
{{- div (add (include "coversumm.bytes" . | int64) 1048575) 1048576 -}}
{{- end -}}

{{- /* The environment of a container: [settings, root]. */ -}}
{{- define "coversumm.environment" -}}
{{- $root := index . 1 -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: KAFKA_BOOTSTRAP_SERVERS
  value: {{ $root.Values.kafka.bootstrapServers | quote }}
{{- range $name, $value := index . 0 }}
{{- if hasKey $root.Values.secretRefs $name }}
{{- if hasKey $root.Values.commandLine $name }}{{ fail (printf "%s stands in both commandLine and secretRefs" $name) }}{{ end }}
{{- else }}
- name: COVERSUMM_{{ $name }}
  value: {{ include "coversumm.text" $value | quote }}
{{- end }}
{{- end }}
{{- range $name, $reference := $root.Values.secretRefs }}
- name: COVERSUMM_{{ $name }}
  valueFrom: {secretKeyRef: {name: {{ $reference.name | quote }}, key: {{ $reference.key | quote }}}}
{{- end }}
{{- if $root.Values.web.token.name }}
- name: COVERSUMM_WEB_TOKEN
  valueFrom: {secretKeyRef: {name: {{ $root.Values.web.token.name | quote }}, key: {{ $root.Values.web.token.key | quote }}}}
{{- end }}
{{- range $name, $value := $root.Values.env }}
- name: {{ $name }}
  value: {{ include "coversumm.text" $value | quote }}
{{- end }}
{{- range $root.Values.extraEnv }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- /* What the schema cannot say: names that nothing has, and combinations. */ -}}
{{- define "coversumm.validate" -}}
{{- include "coversumm.knownNames" . -}}
{{- $_ := include "coversumm.brokerPorts" . -}}
{{- include "coversumm.refuseContradictions" (list . (include "coversumm.settings" . | fromYaml) "") -}}
{{- include "coversumm.refuseCounts" . -}}
{{- range .Values.extraEnv -}}
{{- $name := trimPrefix "COVERSUMM_" .name -}}
{{- if and (ne $name .name) (or (hasKey . "value") (hasKey $.Values.commandLine $name) (hasKey $.Values.secretRefs $name)) -}}
{{- fail (printf "extraEnv: %s is a setting of the worker: its place is commandLine.%s, or secretRefs.%s" .name $name $name) -}}
{{- end -}}
{{- if has .name (list "KAFKA_BOOTSTRAP_SERVERS" "POD_NAME" "POD_NAMESPACE") }}{{ fail (printf "extraEnv: the chart sets %s" .name) }}{{ end -}}
{{- end -}}
{{- if and .Values.web.token.name .Values.secretRefs.WEB_TOKEN }}{{ fail "web.token and secretRefs.WEB_TOKEN are the same: set one of them" }}{{ end -}}
{{- if and .Values.web.rateLimit.requestsPerSecond (not .Values.web.rateLimit.proxies) -}}
{{- fail "web.rateLimit: set web.rateLimit.proxies to the networks of the pods and of proxies, whose X-Forwarded-For names the client" -}}
{{- end -}}
{{- range $name, $way := dict "ingress" .Values.ingress "gateway" .Values.gateway -}}
{{- if and $way.enabled (not $way.host) }}{{ fail (printf "%s: set %s.host to the name under which clients ask" $name $name) }}{{ end -}}
{{- if and $way.enabled (not $.Values.service.enabled) }}{{ fail (printf "%s: it leads to the Service: set service.enabled" $name) }}{{ end -}}
{{- end -}}
{{- if and .Values.gateway.enabled (not (or .Values.gateway.className .Values.gateway.parentRefs)) -}}
{{- fail "gateway: name an existing Gateway in gateway.parentRefs, or the class of a new one in gateway.className" -}}
{{- end -}}
{{- end -}}
