{{- /*
Memory in MiB, by the settings; docs/reference/chart.md has the formula in words, and a test holds it against measured workers.
*/ -}}
{{- define "coversumm.requestedMemory" -}}
{{- $mib := dict -}}
{{- range $name := list "CACHE_BYTES" "ROCKSDB_BYTES" "TRANSACTION_BYTES" "BATCH_BYTES" -}}
{{- $_ := set $mib $name (include "coversumm.mib" (include "coversumm.setting" (list $name $)) | int64) -}}
{{- end -}}
{{- $model := ternary 0 250 (eq (include "coversumm.setting" (list "EMBEDDER" .)) "none") -}}
{{- $kept := div (mul 5 (add $mib.CACHE_BYTES $mib.ROCKSDB_BYTES)) 4 -}}
{{- $messages := add (mul 3 $mib.TRANSACTION_BYTES) (mul 4 $mib.BATCH_BYTES) -}}
{{- $threads := include "coversumm.processors" . | int64 -}}
{{- $bf16 := ternary 0 (mul 100 $threads) (eq (include "coversumm.setting" (list "EMBEDDER_PRECISION" .)) "fp32") -}}
{{- add 300 $model $bf16 $kept $messages -}}
{{- end -}}

{{- /* Besides, for a moment: the vectors of the largest entity, two bytes a number, when all of it has to be searched. */ -}}
{{- define "coversumm.largestEntity" -}}
{{- $sentences := include "coversumm.setting" (list "MAX_SENTENCES_PER_ENTITY" .) | int64 -}}
{{- $dimension := include "coversumm.setting" (list "DIMENSION" .) | int64 -}}
{{- div (mul 2 $sentences $dimension) 1048576 -}}
{{- end -}}

{{- /* Whole processors: one for the stream, or as many as the embedder has threads. */ -}}
{{- define "coversumm.processors" -}}
{{- $threads := get .Values.commandLine "EMBEDDER_THREADS" | default 2 | int64 -}}
{{- ternary 1 $threads (eq (include "coversumm.setting" (list "EMBEDDER" .)) "none") -}}
{{- end -}}

{{- define "coversumm.resources" -}}
{{- $processors := include "coversumm.processors" . | int64 -}}
{{- $requested := include "coversumm.requestedMemory" . | int64 -}}
{{- $most := add $requested (include "coversumm.largestEntity" . | int64) -}}
{{- $disk := printf "%dMi" (add 256 (include "coversumm.mib" (.Values.tmpSize | replace "Gi" "GiB" | replace "Mi" "MiB") | int64)) -}}
{{- $derived := dict
  "requests" (dict "cpu" (toString $processors) "memory" (printf "%dMi" $requested) "ephemeral-storage" $disk)
  "limits" (dict "cpu" (toString (add 1 $processors)) "memory" (printf "%dMi" $most) "ephemeral-storage" $disk) -}}
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
