{{- define "burstwatch.labels" -}}
app.kubernetes.io/name: burstwatch
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
{{- define "burstwatch.image" -}}
{{- $repository := required "image.repository is empty: give the repository that you have pushed the image to" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ include "burstwatch.text" (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end }}
{{- define "burstwatch.text" -}}
{{- /* a whole number of a file of values is a float here, and would be written as 2.026112e+07 */ -}}
{{- if and (kindIs "float64" .) (eq (toString .) (floor . | toString)) }}{{ printf "%.0f" . }}{{ else }}{{ . }}{{ end -}}
{{- end }}
{{- define "burstwatch.act" -}}
{{- /* the schema of the values may be skipped, and the text "false" would count as true */ -}}
{{- if not (kindIs "bool" .Values.act) }}{{ fail "act is not a boolean: give --set act=true or --set act=false" }}{{ end -}}
{{- if has "--act" (.Values.extraArgs | default list) }}{{ fail "extraArgs has --act: give --set act=true" }}{{ end -}}
{{ .Values.act }}
{{- end }}
{{- define "burstwatch.ledger" -}}
{{- /* `burstctl hold --all` in the pod takes the variable, and a watch with another ledger would not be held */ -}}
{{- $ledger := .Values.ledger | default "sqlite:/state/ledger.sqlite" -}}
{{- $arguments := .Values.extraArgs | default list -}}
{{- range $index, $argument := $arguments -}}
{{- $named := trimPrefix "--ledger=" $argument -}}
{{- if eq $argument "--ledger" }}{{ $named = index (append $arguments "") (add1 $index) }}{{ end -}}
{{- if and (or (eq $argument "--ledger") (hasPrefix "--ledger=" $argument)) (ne $named $ledger) }}{{ fail (printf "extraArgs has the ledger %q, but the value ledger is %q" $named $ledger) }}{{ end -}}
{{- end -}}
{{ $ledger }}
{{- end }}
