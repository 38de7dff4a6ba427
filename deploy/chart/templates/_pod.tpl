{{- /*
The template of a pod: [root, own]. Of the own keys: `component`, `container`, `args`, `settings`, `resources`; optional
`probes`, `data` (a volume; else a claim of the pod's own is named so), `dataMount`, `variables`, `restartPolicy`, `grace`,
`mapping` (the name of a ConfigMap), `containers` (more of them), `name` (in the selector's place of the chart's).
*/ -}}
{{- define "coversumm.podTemplate" -}}
{{- $root := index . 0 -}}
{{- $own := index . 1 -}}
{{- $values := $root.Values -}}
metadata:
  # Without the chart's version: a new chart restarts pods only if it changes them.
  {{- $labels := include "coversumm.selectorOf" (list $root $own.component) | fromYaml }}
  {{- with $own.name }}{{ $_ := set $labels "app.kubernetes.io/name" . }}{{ end }}
  labels: {{ merge dict $labels ($values.podLabels | default dict) ($values.labels | default dict) | toYaml | nindent 4 }}
  {{- with $values.podAnnotations }}
  annotations: {{ toYaml . | nindent 4 }}
  {{- end }}
spec:
  {{- with $own.restartPolicy }}
  restartPolicy: {{ . }}
  {{- end }}
  {{- include "coversumm.podHead" (list $root $own.serviceAccount) | nindent 2 }}
  {{- if $own.grace }}
  terminationGracePeriodSeconds: {{ include "coversumm.gracePeriodSeconds" $root }}
  {{- end }}
  {{- include "coversumm.placement" (list $root $own.component) | nindent 2 }}
  {{- with $values.initContainers }}
  initContainers: {{ toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ $own.container }}
      {{- include "coversumm.container" $root | nindent 6 }}
      args: {{ toYaml $own.args | nindent 8 }}
      env:
        {{- with $own.variables }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        {{- include "coversumm.environment" (list $own.settings $root) | nindent 8 }}
      {{- with $values.envFrom }}
      envFrom: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- if $own.probes }}
      ports:
        - {name: http, containerPort: {{ include "coversumm.webPort" $root }}}
      {{- range $probe := $own.probes }}
      {{ $probe }}Probe:
        httpGet: {path: {{ ternary "/readyz" "/healthz" (eq $probe "readiness") }}, port: http{{ if eq (include "coversumm.webScheme" $root) "https" }}, scheme: HTTPS{{ end }}}
        {{- toYaml (get $values (printf "%sProbe" $probe)) | nindent 8 }}
      {{- end }}
      {{- with $values.lifecycle }}
      lifecycle: {{ toYaml . | nindent 8 }}
      {{- end }}
      {{- end }}
      resources: {{ $own.resources | nindent 8 }}
      volumeMounts:
        - {{ dict "name" "data" "mountPath" "/data" | merge ($own.dataMount | default dict) | toJson }}
        - {name: tmp, mountPath: /tmp}
        {{- if $values.web.tls.secretName }}
        - {name: web-tls, mountPath: /etc/coversumm-tls, readOnly: true}
        {{- end }}
        {{- range $values.secretFilesRefs }}
        - {{ dict "name" .volume "readOnly" true | merge (pick . "mountPath" "subPath") | toJson }}
        {{- end }}
        {{- if $own.mapping }}
        - {name: mapping, mountPath: /etc/coversumm, readOnly: true}
        {{- end }}
        {{- with $values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with $own.containers }}
    {{- . | nindent 4 }}
    {{- end }}
    {{- if $own.probes }}
    {{- with $values.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
    {{- end }}
  volumes: {{ include "coversumm.volumes" (list $values $own) | nindent 4 }}
{{- end -}}

{{- define "coversumm.container" -}}
image: {{ include "coversumm.image" . | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
{{- with .Values.securityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* [values, own]. A name stands for one volume: what has a name twice is refused. */ -}}
{{- define "coversumm.volumes" -}}
{{- $values := index . 0 -}}
{{- $own := index . 1 -}}
{{- $taken := dict "data" "the chart" "tmp" "the chart" "mapping" "the chart" "web-tls" "the chart" -}}
{{- with $own.data -}}
- {{ . | nindent 2 | trim }}
{{ end -}}
- name: tmp
  emptyDir: {sizeLimit: {{ $values.tmpSize }}}
{{- with $values.web.tls.secretName }}
- name: web-tls
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- range $values.secretFilesRefs }}
{{- $secret := printf "the secret %s" .name }}
{{- $before := get $taken .volume }}
{{- if and $before (ne $before $secret) }}{{ fail (printf "secretFilesRefs: the volume %s of %s has the name of a volume of %s: choose another" .volume $secret $before) }}{{ end }}
{{- if not $before }}
- name: {{ .volume }}
  secret: {secretName: {{ .name | quote }}, defaultMode: 0440}
{{- end }}
{{- $_ := set $taken .volume $secret }}
{{- end }}
{{- with $own.mapping }}
- name: mapping
  configMap: {name: {{ . }}}
{{- end }}
{{- range $values.extraVolumes }}
{{- if hasKey $taken .name }}{{ fail (printf "extraVolumes: the volume %s has the name of a volume of %s: choose another" .name (get $taken .name)) }}{{ end }}
{{- $_ := set $taken .name "extraVolumes" }}
- {{ toYaml . | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- /* A volume of the pod's own, gone with it: [size, class]. */ -}}
{{- define "coversumm.ephemeralData" -}}
name: data
ephemeral:
  volumeClaimTemplate:
    spec:
      accessModes: [ReadWriteOnce]
      {{- include "coversumm.storageClass" (index . 1) | nindent 6 }}
      resources: {requests: {storage: {{ index . 0 }}}}
{{- end -}}

{{- /* Pods of a component apart from each other, as far as the cluster allows: [root, component]. */ -}}
{{- define "coversumm.placement" -}}
{{- $values := (index . 0).Values -}}
{{- $isService := not (has (index . 1) (list "replay" "upgrade-check")) -}}
{{- if $values.affinity }}
affinity: {{ toYaml $values.affinity | nindent 2 }}
{{- else if $isService }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "coversumm.selectorOf" . | nindent 14 }}
{{- end }}
{{- if $values.topologySpreadConstraints }}
topologySpreadConstraints: {{ toYaml $values.topologySpreadConstraints | nindent 2 }}
{{- else if $isService }}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "coversumm.selectorOf" . | nindent 8 }}
{{- end }}
{{- end -}}

{{- /* What every pod of the chart has: [root, a service account or ""]. */ -}}
{{- define "coversumm.podHead" -}}
{{- $values := (index . 0).Values -}}
automountServiceAccountToken: {{ $values.serviceAccount.automountToken }}
serviceAccountName: {{ index . 1 | default (include "coversumm.serviceAccount" (index . 0)) }}
# The variables of services look like settings of the worker.
enableServiceLinks: false
{{- with $values.podSecurityContext }}
securityContext: {{ toYaml . | nindent 2 }}
{{- end }}
{{- range $name := list "imagePullSecrets" "priorityClassName" "nodeSelector" "tolerations" "schedulerName" "runtimeClassName" "hostAliases" "dnsPolicy" "dnsConfig" }}
{{- with get $values $name }}
{{ dict $name . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{- /*
When a Job ends: [the containers whose exit code 2 ends it, since no restart helps]. Pods that a drained node takes away do not
count. Time enough to read its log, then it goes, with its pods and their volumes.
*/ -}}
{{- define "coversumm.jobEnd" -}}
ttlSecondsAfterFinished: 604800
podFailurePolicy:
  rules:
    {{- range . }}
    - action: FailJob
      onExitCodes: {containerName: {{ . }}, operator: In, values: [2]}
    {{- end }}
    - action: Ignore
      onPodConditions: [{type: DisruptionTarget, status: "True"}]
{{- end -}}
