{{- /*
Memory in MiB, by the settings; docs/reference/chart.md has the formula in words, and a test holds it against measured workers.
*/ -}}
{{- define "coversumm.memory" -}}
{{- $mib := dict -}}
{{- range $name := list "CACHE_BYTES" "ROCKSDB_BYTES" "IN_FLIGHT_BYTES" "TRANSACTION_BYTES" "BATCH_BYTES" -}}
{{- $_ := set $mib $name (include "coversumm.mib" (include "coversumm.setting" (list $name $)) | int64) -}}
{{- end -}}
{{- $model := ternary 0 400 (eq (include "coversumm.setting" (list "EMBEDDER" .)) "none") -}}
{{- $entities := div (mul 3 $mib.CACHE_BYTES) 2 -}}
{{- $databases := div (mul 5 $mib.ROCKSDB_BYTES) 4 -}}
{{- $messages := add $mib.IN_FLIGHT_BYTES $mib.TRANSACTION_BYTES (mul 4 $mib.BATCH_BYTES) -}}
{{- add 200 $model $entities $databases $messages -}}
{{- end -}}

{{- /* Whole processors: one for the stream, or as many as the embedder has threads. */ -}}
{{- define "coversumm.processors" -}}
{{- $threads := get .Values.commandLine "EMBEDDER_THREADS" | default 2 | int64 -}}
{{- ternary 1 $threads (eq (include "coversumm.setting" (list "EMBEDDER" .)) "none") -}}
{{- end -}}

{{- define "coversumm.resources" -}}
{{- $processors := include "coversumm.processors" . | int64 -}}
{{- $memory := printf "%sMi" (include "coversumm.memory" .) -}}
{{- $disk := printf "%dMi" (add 256 (include "coversumm.mib" (.Values.tmpSize | replace "Gi" "GiB" | replace "Mi" "MiB") | int64)) -}}
{{- $derived := dict
  "requests" (dict "cpu" (toString $processors) "memory" $memory "ephemeral-storage" $disk)
  "limits" (dict "cpu" (toString (add 1 $processors)) "memory" $memory "ephemeral-storage" $disk) -}}
{{- toYaml (mustMergeOverwrite $derived (deepCopy .Values.resources)) -}}
{{- end -}}

{{- /* An orderly stop, after a commit that may be on its way; then the container's own time. */ -}}
{{- define "coversumm.gracePeriodSeconds" -}}
{{- $milliseconds := add (include "coversumm.setting" (list "SHUTDOWN_TIMEOUT_MS" .)) (include "coversumm.setting" (list "COMMIT_TIMEOUT_MS" .)) -}}
{{- $least := max 60 (add 10 (div (add $milliseconds 999) 1000)) -}}
{{- $given := .Values.terminationGracePeriodSeconds | default $least | int64 -}}
{{- if lt $given $least -}}
{{- fail (printf "terminationGracePeriodSeconds: %d is less than the %d that COVERSUMM_SHUTDOWN_TIMEOUT_MS and COVERSUMM_COMMIT_TIMEOUT_MS need" $given $least) -}}
{{- end -}}
{{- $given -}}
{{- end -}}
