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

{{- define "coversumm.workerSelector" -}}
{{ include "coversumm.selector" . }}
app.kubernetes.io/component: worker
{{- end -}}

{{- define "coversumm.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "coversumm.selector" . }}
app.kubernetes.io/version: {{ .Values.imageTag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "coversumm.serviceAccount" -}}
{{- $default := ternary (include "coversumm.fullname" .) "default" .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default $default -}}
{{- end -}}

{{- define "coversumm.image" -}}
{{- if .Values.imageDigest -}}
{{ .Values.image }}@{{ .Values.imageDigest }}
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
