{{- /* The mapping of the workers or a bridge, and its file's name: [root, values] */ -}}
{{- define "coversumm.mapping" -}}
{{- $values := (index . 0).Values -}}
{{- dict "text" ((index . 1).mapping | default $values.mapping) "file" ((index . 1).mappingFile | default $values.mappingFile) | toJson -}}
{{- end -}}

{{- /* Another text is another object: pods restart with it, and a rollback finds the old one. [root, values] */ -}}
{{- define "coversumm.mappingName" -}}
{{- with include "coversumm.mapping" . | fromJson -}}
{{- if .text -}}
{{- $file := ne .file "mapping.toml" | ternary .file "" -}}
{{ include "coversumm.fullname" (index $ 0) }}-mapping-{{ printf "%s%s" .text $file | sha256sum | trunc 8 }}
{{- end -}}
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
{{- if not (or .Values.bridge.enabled .Values.bridges) }}{{ include "coversumm.mappingName" (list . .Values) }}{{ end -}}
{{- end -}}
