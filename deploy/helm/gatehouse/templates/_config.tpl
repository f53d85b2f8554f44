{{/* The configuration file: that of the values, with what the chart knows better. */}}
{{- define "gatehouse.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $host := eq .Values.mode "sidecar" | ternary "127.0.0.1" "0.0.0.0" -}}
{{- $listen := merge (dict "host" $host "port" (int .Values.port)) (get $config "listen" | default dict) -}}
{{- $_ := set $config "version" 1 -}}
{{- $_ := set $config "listen" $listen -}}
{{- if .Values.store.url.secretName -}}
{{- $_ := set $config "store" "${GATEHOUSE_STORE_URL}" -}}
{{- else if not (hasKey $config "store") -}}
{{- $_ := set $config "store" "/var/lib/gatehouse/store" -}}
{{- end -}}
{{- if and (include "gatehouse.isStoreShared" .) (not (hasKey $config "fleet")) -}}
{{- $_ := set $config "fleet" (dict "listen" (printf "%s:%d" $host (int .Values.fleetPort))) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* Whether replicas share their store: Redis, or what a variable names, which the chart cannot see. */}}
{{- define "gatehouse.isStoreShared" -}}
{{- $store := get .Values.config "store" -}}
{{- if .Values.store.url.secretName -}}
yes
{{- else if $store -}}
{{- if not (kindIs "string" $store) -}}
yes
{{- else if regexMatch "^rediss?(\\+sentinel|\\+cluster)?://|^\\$\\{" $store -}}
yes
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the schema cannot say about values that depend on each other. */}}
{{- define "gatehouse.check" -}}
{{- $v := .Values -}}
{{- $isGateway := eq $v.mode "gateway" -}}
{{- $store := get $v.config "store" -}}
{{- if not $v.config.upstreams -}}
{{- fail "config.upstreams is empty: name the servers behind the gateway" -}}
{{- end -}}
{{- if and $isGateway (not (hasKey $v.config "auth")) -}}
{{- fail "config.auth is missing: other pods can connect, so say who may call; `auth: none` admits all" -}}
{{- end -}}
{{- if and $v.store.url.secretName (hasKey $v.config "store") -}}
{{- fail "store.url and config.store both name a store: remove one" -}}
{{- end -}}
{{- if and (kindIs "string" $store) (regexMatch "://[^/]*@" $store) (not (contains "${" $store)) -}}
{{- fail "config.store has a password, and would be in a ConfigMap: put the URL into a Secret, and name it in store.url" -}}
{{- end -}}
{{- $isShared := include "gatehouse.isStoreShared" . -}}
{{- if and $isGateway (not $isShared) -}}
{{- if $v.autoscaling.enabled -}}
{{- fail "autoscaling needs a store that replicas share: set store.url" -}}
{{- end -}}
{{- if gt (int $v.replicaCount) 1 -}}
{{- fail "more than one replica needs a store that replicas share: set store.url" -}}
{{- end -}}
{{- end -}}
{{- if and (or $v.state.persistent $v.state.existingClaim) (or $v.autoscaling.enabled (gt (int $v.replicaCount) 1)) -}}
{{- fail "state.persistent and state.existingClaim are volumes for one replica" -}}
{{- end -}}
{{- if and $v.autoscaling.enabled (lt (int $v.autoscaling.maxReplicas) (int $v.autoscaling.minReplicas)) -}}
{{- fail "autoscaling.maxReplicas is less than autoscaling.minReplicas" -}}
{{- end -}}
{{- if lt (int $v.terminationGracePeriodSeconds) (int (add $v.preStopSeconds 14)) -}}
{{- fail (printf "terminationGracePeriodSeconds is too short for the calls in flight: it has to be preStopSeconds + 14, which is %d, or more" (int (add $v.preStopSeconds 14))) -}}
{{- end -}}
{{- if $isGateway -}}
{{- if or $v.sidecar.application $v.sidecar.servers -}}
{{- fail "`sidecar` has no effect with mode: gateway" -}}
{{- end -}}
{{- if and $v.ingress.enabled (not (or $v.ingress.host (include "gatehouse.publicHost" .))) -}}
{{- fail "ingress needs a host: set config.listen.public_url or ingress.host" -}}
{{- end -}}
{{- else -}}
{{- if not $v.sidecar.application -}}
{{- fail "sidecar.application is empty: it is the container of your application" -}}
{{- end -}}
{{- range $part, $isOn := dict "ingress" $v.ingress.enabled "monitoring.serviceMonitor" $v.monitoring.serviceMonitor.enabled "monitoring.prometheusRule" $v.monitoring.prometheusRule.enabled -}}
{{- if $isOn -}}
{{- fail (printf "%s.enabled has no effect with mode: sidecar, where nothing outside of the pod reaches Gatehouse; for metrics, use config.observe.metrics_export" $part) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
