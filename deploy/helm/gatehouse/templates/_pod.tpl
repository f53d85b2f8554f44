{{/* What every container may do: nothing but run its program as it is. */}}
{{- define "gatehouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The container of Gatehouse. Its command is the entry point of the image. */}}
{{- define "gatehouse.container" -}}
{{- $isSidecar := eq .Values.mode "sidecar" -}}
{{- $url := printf "http://127.0.0.1:%d" (int .Values.port) -}}
name: gatehouse
image: {{ include "gatehouse.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/gatehouse/gateway.config.yaml]
{{- with include "gatehouse.env" . }}
env:
  {{- . | nindent 2 }}
{{- end }}
{{- if $isSidecar }}
restartPolicy: Always
# Probes run in the container: those of the kubelet go to the address of the pod, where nothing listens.
startupProbe:
  exec:
    command: [gatehouse, health, {{ $url | quote }}]
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 30
livenessProbe:
  exec:
    command: [gatehouse, health, {{ $url | quote }}]
  periodSeconds: 30
  timeoutSeconds: 5
readinessProbe:
  exec:
    command: [gatehouse, health, {{ $url | quote }}, --ready]
  periodSeconds: 15
  timeoutSeconds: 5
{{- else }}
ports:
  - name: http
    containerPort: {{ int .Values.port }}
    protocol: TCP
  {{- if include "gatehouse.isStoreShared" . }}
  - name: fleet
    containerPort: {{ int .Values.fleetPort }}
    protocol: TCP
  {{- end }}
startupProbe:
  httpGet: { path: /health, port: http }
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 30
livenessProbe:
  httpGet: { path: /health, port: http }
  periodSeconds: 15
  timeoutSeconds: 5
  failureThreshold: 4
readinessProbe:
  httpGet: { path: /ready, port: http }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- if .Values.preStopSeconds }}
# Stopped, it accepts nothing more. Until every node knows that, it keeps running.
lifecycle:
  preStop:
    exec:
      command: [sleep, {{ .Values.preStopSeconds | quote }}]
{{- end }}
{{- end }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- include "gatehouse.containerSecurity" . | nindent 2 }}
volumeMounts:
  # The folder, not the file: a mounted file would not change with the ConfigMap.
  - { name: config, mountPath: /etc/gatehouse, readOnly: true }
  - { name: state, mountPath: /var/lib/gatehouse }
  - { name: tmp, mountPath: /tmp }
  {{- range .Values.secretFiles }}
  - { name: {{ printf "secret-%s" . | trunc 63 | trimSuffix "-" | quote }}, mountPath: {{ printf "/etc/gatehouse-secrets/%s" . | quote }}, readOnly: true }
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Variables: plain ones, and those of Secrets. */}}
{{- define "gatehouse.env" -}}
{{- if and (eq .Values.mode "gateway") (include "gatehouse.isStoreShared" .) }}
# Where the other replicas reach this one.
- name: POD_IP
  valueFrom:
    fieldRef: { fieldPath: status.podIP }
{{- end }}
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- $ofSecrets := deepCopy .Values.secretEnv -}}
{{- with .Values.store.url }}
{{- if .secretName }}
{{- $_ := set $ofSecrets "GATEHOUSE_STORE_URL" . -}}
{{- end }}
{{- end }}
{{- range $name, $from := $ofSecrets }}
- name: {{ $name }}
  valueFrom:
    secretKeyRef: { name: {{ $from.secretName | quote }}, key: {{ $from.key | quote }} }
{{- end }}
{{- end -}}

{{/* A container of the user beside Gatehouse: with the restrictions of the chart where it does not say others. */}}
{{- define "gatehouse.neighbour" -}}
{{- $container := deepCopy .container -}}
{{- if not (hasKey $container "securityContext") -}}
{{- $_ := set $container "securityContext" (include "gatehouse.containerSecurity" . | fromYaml) -}}
{{- end -}}
{{- toYaml $container -}}
{{- end -}}

{{- define "gatehouse.volumes" -}}
- name: config
  configMap: { name: {{ include "gatehouse.fullname" . }} }
- name: state
  {{- if .Values.state.existingClaim }}
  persistentVolumeClaim: { claimName: {{ .Values.state.existingClaim | quote }} }
  {{- else if .Values.state.persistent }}
  persistentVolumeClaim: { claimName: {{ include "gatehouse.fullname" . }} }
  {{- else }}
  emptyDir: { sizeLimit: {{ .Values.state.size | quote }} }
  {{- end }}
- name: tmp
  emptyDir: { sizeLimit: {{ .Values.tmp.size | quote }} }
{{- range .Values.secretFiles }}
- name: {{ printf "secret-%s" . | trunc 63 | trimSuffix "-" | quote }}
  secret: { secretName: {{ . | quote }}, defaultMode: 0440 }
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}
