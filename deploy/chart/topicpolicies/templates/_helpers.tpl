{{/* What other charts may include: topicpolicies.container and topicpolicies.volumes, with .Subcharts.topicpolicies (docs/deploying.md). */}}

{{- define "topicpolicies.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "topicpolicies.fullname" -}}
{{- $name := include "topicpolicies.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "topicpolicies.selectorLabels" -}}
app.kubernetes.io/name: {{ include "topicpolicies.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "topicpolicies.labels" -}}
{{ include "topicpolicies.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "topicpolicies.serviceAccountName" -}}
{{- default (ternary (include "topicpolicies.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "topicpolicies.claimName" -}}
{{- default (include "topicpolicies.fullname" .) .Values.persistence.existingClaim }}
{{- end }}

{{/* "true" if other machines may connect. */}}
{{- define "topicpolicies.reachable" -}}
{{- or (hasKey .Values.files "tls_certificate") (eq (get .Values.options "insecure_listen" | toString) "true") }}
{{- end }}

{{- define "topicpolicies.variable" -}}
- name: TOPICPOLICIES_{{ upper .name }}
  value: {{ .value | quote }}
{{- end }}

{{- define "topicpolicies.environment" -}}
{{- $listen := ternary "0.0.0.0:6680" "127.0.0.1:6680" (eq (include "topicpolicies.reachable" .) "true") }}
{{- include "topicpolicies.variable" (dict "name" "listen" "value" $listen) }}
{{ include "topicpolicies.variable" (dict "name" "metrics_listen" "value" "0.0.0.0:9464") }}
{{- if and (get .Values.options "pulsar") .Values.persistence.enabled }}
{{ include "topicpolicies.variable" (dict "name" "history" "value" "/var/lib/topicpolicies/history.db") }}
{{ include "topicpolicies.variable" (dict "name" "checkpoints" "value" "/var/lib/topicpolicies/checkpoints") }}
{{- end }}
{{- range $name, $value := .Values.options }}
{{- if kindIs "slice" $value }}
{{- $value = join "," $value }}
{{- else if kindIs "float64" $value }}
{{- $value = ternary (int64 $value) $value (eq (floor $value) $value) }}
{{- end }}
{{- if not (kindIs "invalid" $value) }}
{{ include "topicpolicies.variable" (dict "name" $name "value" $value) }}
{{- end }}
{{- end }}
{{- range $name := keys .Values.files | sortAlpha }}
{{ include "topicpolicies.variable" (dict "name" $name "value" (printf "/etc/topicpolicies/%s" $name)) }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* One container, as an element of a list. */}}
{{- define "topicpolicies.container" -}}
- name: topicpolicies
  image: {{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  env:
    {{- include "topicpolicies.environment" . | nindent 4 }}
  ports:
    - {name: grpc, containerPort: 6680}
    - {name: metrics, containerPort: 9464}
  startupProbe:
    httpGet: {path: /livez, port: metrics}
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet: {path: /livez, port: metrics}
    periodSeconds: 10
    failureThreshold: 3
  readinessProbe:
    httpGet: {path: /readyz, port: metrics}
    periodSeconds: 2
    failureThreshold: 1
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  {{- with .Values.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
    - {name: topicpolicies-data, mountPath: /var/lib/topicpolicies}
    - {name: topicpolicies-tmp, mountPath: /tmp}
    {{- if .Values.files }}
    - {name: topicpolicies-files, mountPath: /etc/topicpolicies, readOnly: true}
    {{- end }}
{{- end }}

{{/* The volumes of that container, as elements of a list. The pod needs fsGroup 10001 to read the files and to write a claim. */}}
{{- define "topicpolicies.volumes" -}}
- name: topicpolicies-data
  {{- if .Values.persistence.enabled }}
  persistentVolumeClaim: {claimName: {{ include "topicpolicies.claimName" . }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
- name: topicpolicies-tmp
  emptyDir: {}
{{- if .Values.files }}
- name: topicpolicies-files
  projected:
    defaultMode: 288 # 0440: for the pod's fsGroup
    sources:
      {{- range $option, $from := .Values.files }}
      {{- if hasKey $from "secret" }}
      - secret: {name: {{ $from.secret }}, items: [{key: {{ $from.key }}, path: {{ $option }}}]}
      {{- else }}
      - configMap: {name: {{ $from.configMap }}, items: [{key: {{ $from.key }}, path: {{ $option }}}]}
      {{- end }}
      {{- end }}
{{- end }}
{{- end }}
