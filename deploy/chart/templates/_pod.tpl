{{- /* What every pod of the chart has; the namespace may enforce the `restricted` level of pod security. */ -}}
{{- define "coversumm.podSecurity" -}}
automountServiceAccountToken: false
serviceAccountName: {{ include "coversumm.serviceAccount" . }}
# The variables of services look like settings of the worker.
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "coversumm.containerSecurity" -}}
image: {{ include "coversumm.image" . | quote }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "coversumm.mounts" -}}
- {name: data, mountPath: /data}
- {name: tmp, mountPath: /tmp}
{{- range .Values.secretFilesRefs }}
- name: {{ .volume }}
  mountPath: {{ .mountPath }}
  readOnly: true
  {{- with .subPath }}
  subPath: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "coversumm.volumes" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSize }}}
{{- range .Values.secretFilesRefs }}
- name: {{ .volume }}
  secret: {secretName: {{ .name | quote }}, defaultMode: 0440}
{{- end }}
{{- end -}}

{{- /* A volume of the pod's own, gone with it: [size, class]. */ -}}
{{- define "coversumm.ephemeralData" -}}
- name: data
  ephemeral:
    volumeClaimTemplate:
      spec:
        accessModes: [ReadWriteOnce]
        {{- include "coversumm.storageClass" (index . 1) | nindent 8 }}
        resources: {requests: {storage: {{ index . 0 }}}}
{{- end -}}

{{- /* Workers apart from each other, as far as the cluster allows. */ -}}
{{- define "coversumm.placement" -}}
affinity:
  {{- if .Values.affinity }}
  {{- toYaml .Values.affinity | nindent 2 }}
  {{- else }}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{ include "coversumm.workerSelector" . | nindent 14 }}
  {{- end }}
topologySpreadConstraints:
  {{- if .Values.topologySpreadConstraints }}
  {{- toYaml .Values.topologySpreadConstraints | nindent 2 }}
  {{- else }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "coversumm.workerSelector" . | nindent 8 }}
  {{- end }}
{{- end -}}
