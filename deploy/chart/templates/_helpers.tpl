{{- define "coversumm.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- /* At most 40 characters: pods, volumes and jobs append to it, and a label holds 63. */ -}}
{{- define "coversumm.fullname" -}}
{{- $name := include "coversumm.name" . -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $both | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "coversumm.selector" -}}
app.kubernetes.io/name: {{ include "coversumm.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Of the pods of a component: [root, component]. */ -}}
{{- define "coversumm.selectorOf" -}}
{{ include "coversumm.selector" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "coversumm.workerSelector" -}}
{{ include "coversumm.selectorOf" (list . "worker") }}
{{- end -}}

{{- /* Name, labels and annotations of an object: [root, the name's end, labels of its own, annotations of its own]. */ -}}
{{- define "coversumm.metadata" -}}
{{- $root := index . 0 -}}
{{- $selector := include "coversumm.selector" $root | fromYaml -}}
{{- $labels := dict -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_") -}}
{{- $_ := set $labels "app.kubernetes.io/version" ($root.Values.imageTag | default $root.Chart.AppVersion) -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
name: {{ include "coversumm.fullname" $root }}{{ index . 1 }}
labels: {{ merge dict (index . 2) $selector ($root.Values.labels | default dict) $labels | toYaml | nindent 2 }}
{{- with merge dict (index . 3) ($root.Values.annotations | default dict) }}
annotations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "coversumm.serviceAccount" -}}
{{- $default := ternary (include "coversumm.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{- /* `make release` gives the chart an annotation with its image's digest. As a default value it would outlast an upgrade with --reuse-values. */ -}}
{{- define "coversumm.image" -}}
{{- $released := ternary "" (index .Chart.Annotations "coversumm-worker/image-digest") (not (empty .Values.imageTag)) -}}
{{- with .Values.imageDigest | default $released -}}
{{ $.Values.image }}@{{ . }}
{{- else -}}
{{ .Values.image }}:{{ .Values.imageTag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "coversumm.storageClass" -}}
{{- if eq . "-" }}
storageClassName: ""
{{- else if . }}
storageClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- /*
The root with the values of a part, like `bridge`, into the dict: [dict, root, part, names that the part does not take over].
Settings and secrets of the part go before those of the workers one by one. `merge` would take false and 0 for missing.
*/ -}}
{{- define "coversumm.overlay" -}}
{{- $made := index . 0 -}}
{{- $root := index . 1 -}}
{{- $part := index . 2 -}}
{{- $values := omit $root.Values "commandLine" "secretRefs" -}}
{{- range index . 3 }}{{ $_ := set $values . (kindIs "slice" (get $values .) | ternary list dict) }}{{ end -}}
{{- range $name, $value := $part }}{{ if or $value (not (hasPrefix "image" $name)) }}{{ $_ := set $values $name $value }}{{ end }}{{ end -}}
{{- if and $part.imageTag (not $part.imageDigest) }}{{ $_ := set $values "imageDigest" "" }}{{ end -}}
{{- $commandLine := dict -}}
{{- $secretRefs := dict -}}
{{- range $name, $value := $root.Values.commandLine }}{{ if not (hasKey $part.secretRefs $name) }}{{ $_ := set $commandLine $name $value }}{{ end }}{{ end -}}
{{- range $name, $value := $root.Values.secretRefs }}{{ if not (hasKey $part.commandLine $name) }}{{ $_ := set $secretRefs $name $value }}{{ end }}{{ end -}}
{{- range $name, $value := $part.commandLine }}{{ $_ := set $commandLine $name $value }}{{ end -}}
{{- range $name, $value := $part.secretRefs }}{{ $_ := set $secretRefs $name $value }}{{ end -}}
{{- $_ := set $values "commandLine" $commandLine -}}
{{- $_ := set $values "secretRefs" $secretRefs -}}
{{- $_ := set $made "Values" $values -}}
{{- range $name := list "Chart" "Release" "Files" "Template" "Capabilities" }}{{ $_ := set $made $name (get $root $name) }}{{ end -}}
{{- end -}}
