{{- define "coversumm.knownNames" -}}
{{- $names := .Files.Get "files/names.yaml" | fromYaml -}}
{{- include "coversumm.refuseUnknown" (list .Values $names "" $names) -}}
{{- end -}}

{{- /*
Fails for a name that no value has, and names the nearest: [values, known names, their path, all known names]. Known names are
a tree; a leaf is true. "*" stands for any name.
*/ -}}
{{- define "coversumm.refuseUnknown" -}}
{{- $known := index . 1 -}}
{{- $path := index . 2 -}}
{{- $all := index . 3 -}}
{{- range $name, $value := index . 0 -}}
{{- $inner := get $known $name | default (get $known "*") -}}
{{- if not $inner -}}
{{- fail (printf "%s%s is not a value of this chart: did you mean %s?" $path $name (include "coversumm.nearest" (list $name $known $path $all))) -}}
{{- else if and (kindIs "map" $inner) (kindIs "map" $value) -}}
{{- include "coversumm.refuseUnknown" (list $value $inner (printf "%s%s." $path $name) $all) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The same name in another place, else the most similar one of this place, by the letters and pairs that both have. */ -}}
{{- define "coversumm.nearest" -}}
{{- $wanted := include "coversumm.plainName" (index . 0) -}}
{{- $known := index . 1 -}}
{{- $path := index . 2 -}}
{{- $found := dict "score" -1 -}}
{{- range $name, $_ := $known -}}
{{- $score := include "coversumm.similarity" (list $wanted (include "coversumm.plainName" $name)) | int -}}
{{- if gt $score (int $found.score) }}{{ $_ := set $found "score" $score }}{{ $_ := set $found "name" (printf "%s%s" $path $name) }}{{ end -}}
{{- end -}}
{{- if lt (int $found.score) 1000 -}}
{{- range $group, $names := merge (dict "" (index . 3)) (index . 3) -}}
{{- if kindIs "map" $names -}}
{{- range $name, $_ := $names -}}
{{- if and (lt (int $found.score) 1000) (eq $wanted (include "coversumm.plainName" $name)) -}}
{{- $_ := set $found "score" 1000 }}{{ $_ := set $found "name" (printf "%s.%s" $group $name | trimPrefix ".") -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $found.name -}}
{{- end -}}

{{- /* Without what typing errors differ in. */ -}}
{{- define "coversumm.plainName" -}}
{{- regexReplaceAll "[^A-Z0-9]" (upper . | trimPrefix "COVERSUMM_") "" | lower -}}
{{- end -}}

{{- /* Of two names, 0 to 1000: letters and pairs of neighbours in both, of those in either. */ -}}
{{- define "coversumm.similarity" -}}
{{- $one := index . 0 -}}
{{- $other := index . 1 -}}
{{- if eq $one $other }}1000{{ else -}}
{{- $parts := dict -}}
{{- range $size := list 1 2 }}{{ range $at := until (len $one) }}{{ $_ := set $parts (substr $at (int (min (len $one) (add $at $size))) $one) true }}{{ end }}{{ end -}}
{{- $shared := dict "count" 0 -}}
{{- range $size := list 1 2 }}{{ range $at := until (len $other) }}{{ if hasKey $parts (substr $at (int (min (len $other) (add $at $size))) $other) }}{{ $_ := set $shared "count" (add1 $shared.count) }}{{ end }}{{ end }}{{ end -}}
{{- min 999 (div (mul 1000 $shared.count) (add1 (add (len $one) (len $other)))) -}}
{{- end -}}
{{- end -}}
