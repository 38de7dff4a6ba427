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

{{- /* [root, MiB that volumes on the node's disk will take beside /tmp, and may take]: pods over the limit are evicted. */ -}}
{{- define "coversumm.resources" -}}
{{- $values := (index . 0).Values -}}
{{- $processors := include "coversumm.processors" (index . 0) | int64 -}}
{{- $requested := include "coversumm.requestedMemory" (index . 0) | int64 -}}
{{- $most := add $requested (include "coversumm.largestEntity" (index . 0) | int64) -}}
{{- $disk := add 256 (include "coversumm.mib" $values.tmpSize | int64) -}}
{{- $derived := dict
  "requests" (dict "cpu" (toString $processors) "memory" (printf "%dMi" $requested) "ephemeral-storage" (printf "%dMi" (add $disk (index . 1))))
  "limits" (dict "cpu" (toString (add 1 $processors)) "memory" (printf "%dMi" $most) "ephemeral-storage" (printf "%dMi" (add $disk (index . 2)))) -}}
{{- include "coversumm.overridden" (list $derived $values.resources "resources") -}}
{{- end -}}

{{- /* [derived resources, those of the values, their path]: null is none. */ -}}
{{- define "coversumm.overridden" -}}
{{- $path := index . 2 -}}
{{- $made := dict -}}
{{- range $kind, $amounts := mustMergeOverwrite (index . 0) (deepCopy (index . 1)) -}}
{{- $_ := set $made $kind dict -}}
{{- range $name, $amount := $amounts }}{{ if not (kindIs "invalid" $amount) }}{{ $_ := set (get $made $kind) $name $amount }}{{ end }}{{ end -}}
{{- end -}}
{{- range $name, $limit := $made.limits -}}
{{- $request := get $made.requests $name -}}
{{- $most := include "coversumm.amount" $limit | float64 -}}
{{- if and $most (lt $most (include "coversumm.amount" $request | float64)) -}}
{{- fail (printf "%s.limits.%s: %v is less than the %v of %s.requests.%s: raise it, or lower the other" $path $name $limit $request $path $name) -}}
{{- end -}}
{{- end -}}
{{- toYaml $made -}}
{{- end -}}

{{- /* A quantity of Kubernetes as a number; 0 where it has an exponent. */ -}}
{{- define "coversumm.amount" -}}
{{- $units := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 -}}
{{- if kindIs "string" . | not }}{{ . }}{{ else -}}
{{- mulf (regexFind "^[0-9.]+" (toString .) | float64) (get $units (regexReplaceAll "^[0-9.]+" (toString .) "") | default 0.0) -}}
{{- end -}}
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
