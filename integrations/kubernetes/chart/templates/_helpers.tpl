{{- define "burstwatch.labels" -}}
app.kubernetes.io/name: burstwatch
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "burstwatch.image" -}}
{{- $repository := required "image.repository is empty: give the repository that you have pushed the image to" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}
