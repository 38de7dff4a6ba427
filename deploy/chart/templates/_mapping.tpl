{{- define "coversumm.mappingFile" -}}
/etc/coversumm/mapping.toml
{{- end -}}

{{- /* Another text is another object: pods restart with it, and a rollback finds the old one. [root, text] */ -}}
{{- define "coversumm.mappingName" -}}
{{- with index . 1 -}}
{{ include "coversumm.fullname" (index $ 0) }}-mapping-{{ sha256sum . | trunc 8 }}
{{- end -}}
{{- end -}}

{{- /* The bridges by the ends of their names, each with the values that `bridges` does not give from `bridge`. */ -}}
{{- define "coversumm.bridges" -}}
{{- include "coversumm.knownNames" . -}}
{{- $found := dict -}}
{{- if .Values.bridge.enabled }}{{ $_ := set $found "bridge" .Values.bridge }}{{ end -}}
{{- range $name, $given := .Values.bridges -}}
{{- $own := omit $.Values.bridge "enabled" "from" -}}
{{- range $key, $value := $given }}{{ $_ := set $own $key $value }}{{ end -}}
{{- $_ := set $found (printf "bridge-%s" $name) $own -}}
{{- end -}}
{{- range $name, $own := $found -}}
{{- if not (and ($own.mapping | default $.Values.mapping) $own.from) -}}
{{- fail (printf "%s: set %s.from to a topic, and mapping to its rules" $name (eq $name "bridge" | ternary "bridge" (printf "bridges.%s" (trimPrefix "bridge-" $name)))) -}}
{{- end -}}
{{- end -}}
{{- toYaml $found -}}
{{- end -}}

{{- /* The ConfigMap of the workers' mapping; empty without one, and if bridges have it. */ -}}
{{- define "coversumm.workersMapping" -}}
{{- if not (or .Values.bridge.enabled .Values.bridges) }}{{ include "coversumm.mappingName" (list . .Values.mapping) }}{{ end -}}
{{- end -}}
