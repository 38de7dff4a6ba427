{{- /*
Refuses settings that contradict each other, by the worker's own rules (files/rules.yaml) and in its words: [root, settings,
the part of the values that has them, or ""]. A value that only the cluster knows contradicts nothing.
*/ -}}
{{- define "coversumm.refuseContradictions" -}}
{{- $values := (index . 0).Values -}}
{{- $rules := (index . 0).Files.Get "files/rules.yaml" | fromYaml -}}
{{- $given := dict -}}
{{- if not $values.envFrom }}{{ $given = (index . 0).Files.Get "files/defaults.yaml" | fromYaml }}{{ end -}}
{{- range $name, $value := $given }}{{ $_ := set $given $name (include "coversumm.text" $value) }}{{ end -}}
{{- $set := dict -}}
{{- range $name, $value := index . 1 }}{{ $_ := set $set $name (include "coversumm.text" $value) }}{{ end -}}
{{- range $name, $_ := $values.secretRefs }}{{ $_ := set $set $name "" }}{{ end -}}
{{- range $values.extraEnv }}{{ if hasPrefix "COVERSUMM_" .name }}{{ $_ := set $set (trimPrefix "COVERSUMM_" .name) "" }}{{ end }}{{ end -}}
{{- range $name, $value := $set }}{{ $_ := set $given $name $value }}{{ end -}}
{{- $found := list -}}
{{- range $words, $rows := dict "at most" $rules.at_most "less than" $rules.less_than -}}
{{- range $rows -}}
{{- $one := get $given (index . 0) -}}
{{- $other := get $given (index . 1) -}}
{{- $difference := sub (include "coversumm.bytes" $other | int64) (include "coversumm.bytes" $one | int64) -}}
{{- if and $one $other (or (lt $difference 0) (and (eq $difference 0) (eq $words "less than"))) -}}
{{- $found = append $found (printf "COVERSUMM_%s: %s must be %s COVERSUMM_%s (%s): %s" (index . 0) $one $words (index . 1) $other (index . 2)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $lacks := dict -}}
{{- with $given.SECURITY_PROTOCOL -}}
{{- $mechanism := $set.SASL_MECHANISM -}}
{{- $needed := printf "with COVERSUMM_SECURITY_PROTOCOL=%s" . -}}
{{- $used := list -}}
{{- if not (hasPrefix "SASL_" .) }}{{ $mechanism = "" }}
{{- else if not (hasKey $set "SASL_MECHANISM") }}{{ $_ := set $lacks "SASL_MECHANISM" $needed }}
{{- else if $mechanism -}}
{{- $needed = printf "with COVERSUMM_SASL_MECHANISM=%s" $mechanism -}}
{{- $needs := (get $rules.sasl $mechanism).needs -}}
{{- if hasKey $set "SASL_PASSWORD_LOCATION" }}{{ $needs = without $needs "SASL_PASSWORD" }}{{ end -}}
{{- $used = append (concat $needs (get $rules.sasl $mechanism).takes) "SASL_MECHANISM" -}}
{{- range $needs }}{{ if not (hasKey $set .) }}{{ $_ := set $lacks . $needed }}{{ end }}{{ end -}}
{{- end -}}
{{- if or $mechanism (not (hasPrefix "SASL_" .)) -}}
{{- range $name := keys $set | sortAlpha -}}
{{- if and (hasPrefix "SASL_" $name) (not (has $name $used)) }}{{ $found = append $found (printf "COVERSUMM_%s: set, but not used %s" $name $needed) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $protocol := . -}}
{{- range $rules.tls -}}
{{- if and (hasKey $set .) (not (hasSuffix "SSL" $protocol)) }}{{ $found = append $found (printf "COVERSUMM_%s: set, but not used with COVERSUMM_SECURITY_PROTOCOL=%s" . $protocol) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $rules.needs -}}
{{- if and (hasKey $set (index . 0)) (not (hasKey $set (index . 1))) }}{{ $_ := set $lacks (index . 1) (printf "with COVERSUMM_%s" (index . 0)) }}{{ end -}}
{{- end -}}
{{- if not $values.envFrom -}}
{{- range $name, $why := $lacks }}{{ $found = append $found (printf "COVERSUMM_%s: not set, but needed %s" $name $why) }}{{ end -}}
{{- range $rules.together -}}
{{- if ne (hasKey $set (index . 0)) (hasKey $set (index . 1)) }}{{ $found = append $found (printf "COVERSUMM_%s, COVERSUMM_%s: set both or neither" (index . 0) (index . 1)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $ways := list -}}
{{- range $rules.one_of }}{{ if hasKey $set . }}{{ $ways = append $ways . }}{{ end }}{{ end -}}
{{- if gt (len $ways) 1 }}{{ $found = append $found (printf "COVERSUMM_%s: set, and so is COVERSUMM_%s: unset one of them" (index $ways 1) (index $ways 0)) }}{{ end -}}
{{- /* The last four are folders of an image. */ -}}
{{- $mounts := list "/data" "/tmp" "/etc/coversumm-tls" "/etc/ssl" "/etc/pki" "/usr" "/opt" -}}
{{- range concat ($values.secretFilesRefs | default list) ($values.extraVolumeMounts | default list) }}{{ $mounts = append $mounts (trimSuffix "/" .mountPath) }}{{ end -}}
{{- range $name, $file := $set -}}
{{- if and $file (hasSuffix "_LOCATION" $name) -}}
{{- $mounted := false -}}
{{- range $mounts }}{{ if or (eq . $file) (hasPrefix (printf "%s/" .) $file) }}{{ $mounted = true }}{{ end }}{{ end -}}
{{- if not $mounted }}{{ $found = append $found (printf "COVERSUMM_%s: nothing is mounted that has %s: mount it by secretFilesRefs or extraVolumeMounts" $name $file) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $found }}{{ fail (printf "%s%s" (index . 2 | empty | ternary "" (printf "%s: " (index . 2))) (join "; " $found)) }}{{ end -}}
{{- end -}}

{{- /* What the chart's own values contradict. */ -}}
{{- define "coversumm.refuseCounts" -}}
{{- $scaled := .Values.autoscaling -}}
{{- $most := ternary $scaled.maxReplicas .Values.replicaCount $scaled.enabled | int -}}
{{- if and $scaled.enabled (gt (int $scaled.minReplicas) $most) -}}
{{- fail (printf "autoscaling: minReplicas is %v, and maxReplicas %d: lower the one or raise the other" $scaled.minReplicas $most) -}}
{{- end -}}
{{- $standbys := include "coversumm.setting" (list "STANDBY_REPLICAS" .) | int -}}
{{- if and $standbys $most (ge $standbys $most) -}}
{{- fail (printf "commandLine.STANDBY_REPLICAS: %d other workers cannot have copies of each partition where there are at most %d: raise %s, or lower it" $standbys $most (ternary "autoscaling.maxReplicas" "replicaCount" $scaled.enabled)) -}}
{{- end -}}
{{- with .Values.persistence -}}
{{- if and .enabled .existingClaim (gt $most 1) (not (has "ReadWriteMany" .accessModes)) -}}
{{- fail (printf "persistence.existingClaim: %d workers would share the claim %s, and persistence.accessModes says that one node at a time may write to it: set it to [ReadWriteMany] if the claim has that, or use one worker, or leave out existingClaim" $most .existingClaim) -}}
{{- end -}}
{{- end -}}
{{- with .Values.replay -}}
{{- $live := include "coversumm.setting" (list "EPOCH" $) -}}
{{- if and .enabled $most (not .name) (eq $live (hasKey .commandLine "EPOCH" | ternary (include "coversumm.text" .commandLine.EPOCH) $live)) -}}
{{- fail (printf "replay: its epoch is %s, as that of the workers: set replay.commandLine.EPOCH to another, or give a replay of a past time or of a part its replay.name" $live) -}}
{{- end -}}
{{- end -}}
{{- end -}}
