{{- define "burstwatch.labels" -}}
app.kubernetes.io/name: burstwatch
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}
{{- define "burstwatch.image" -}}
{{- $repository := required "image.repository is empty: give the repository that you have pushed the image to" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
{{- define "burstwatch.act" -}}
{{- /* the schema of the values may be skipped, and the text "false" would count as true */ -}}
{{- if not (kindIs "bool" .Values.act) }}{{ fail "act is not a boolean: give --set act=true or --set act=false" }}{{ end -}}
{{ .Values.act }}
{{- end }}
