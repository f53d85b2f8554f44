/** What the objects of the Helm chart say. Kubernetes takes them, and wrong values are refused: `values.long.test.ts`. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { SHUTDOWN_TIMEOUT_MS } from '../../../src/cli/serve.ts'
import { loadSettings } from '../../../src/config/load.ts'
import { features } from '../../../src/features/index.ts'
import { chart, type KubernetesObject, needsHelm, objectsOf } from '../../support/kubernetes-tools.ts'

const releases = ['gateway', 'single', 'sidecar'] as const

/** How long servers that were started by a command have after the calls, in seconds: two signals. */
const SERVER_EXIT_SECONDS = 4

type Objects = readonly KubernetesObject[]

const ofKind = (objects: Objects, kind: string) => objects.filter((each) => each.kind === kind)

/** The only object of a kind. */
function the(objects: Objects, kind: string): KubernetesObject {
  const [found, ...others] = ofKind(objects, kind)
  if (found === undefined || others.length > 0) throw new Error(`${1 + others.length} of ${kind}`)
  return found
}

/** Each template of a pod, with its containers of all kinds. */
function podsOf(objects: Objects) {
  return [
    ...ofKind(objects, 'Deployment').map(({ spec }) => spec.template.spec),
    ...ofKind(objects, 'Pod').map(({ spec }) => spec),
  ].map((spec) => ({ spec, containers: [...(spec.initContainers ?? []), ...spec.containers] }))
}

const gatehouseIn = (objects: Objects) =>
  podsOf(objects)
    .flatMap(({ containers }) => containers)
    .find(({ name }) => name === 'gatehouse')

const configOf = (objects: Objects): string =>
  ofKind(objects, 'ConfigMap').flatMap(({ data }) => data['gateway.config.yaml'] ?? [])[0]

describe('the Helm chart', needsHelm, () => {
  const all = new Map(needsHelm.skip ? [] : releases.map((values) => [values, objectsOf({ values })]))
  const objects = (values: (typeof releases)[number]): Objects => all.get(values) ?? []

  test('leaves the number of replicas to the autoscaler where there is one', () => {
    expect(the(objects('gateway'), 'Deployment').spec).not.toHaveProperty('replicas')
    expect(the(objects('single'), 'Deployment').spec.replicas).toBe(1)
    const { spec, metadata } = the(objects('gateway'), 'HorizontalPodAutoscaler')
    expect(spec.scaleTargetRef).toEqual({ apiVersion: 'apps/v1', kind: 'Deployment', name: metadata.name })
  })

  test.each(releases)(
    'has no secret in an object of %s: variables and files are those of Secrets',
    (values) => {
      expect(ofKind(objects(values), 'Secret')).toEqual([])
      const names = new Set(
        (gatehouseIn(objects(values)).env ?? []).map(({ name }: { name: string }) => name),
      )
      const used = [...configOf(objects(values)).matchAll(/\$\{(\w+)\}/g)].map(([, name]) => name)
      expect(used.filter((name) => !names.has(name))).toEqual([])
    },
  )

  test('passes the URL of Redis from its Secret', () => {
    expect(gatehouseIn(objects('gateway')).env).toContainEqual({
      name: 'GATEHOUSE_STORE_URL',
      valueFrom: { secretKeyRef: { name: 'gatehouse-redis', key: 'url' } },
    })
    expect(parse(configOf(objects('gateway'))).store).toBe('${GATEHOUSE_STORE_URL}')
  })

  test.each(releases)('writes a configuration of %s that the gateway loads without a warning', (values) => {
    const env = {
      PROMETHEUS_TOKEN_HASH: `sha256:0a0b0c0d0e:${'a'.repeat(64)}`,
      AGENTS_TOKEN_HASH: `sha256:0a0b0c0d0e:${'b'.repeat(64)}`,
      ANNA_PASSWORD_HASH: `scrypt:0a0b0c0d0e:${'c'.repeat(64)}`,
      GATEHOUSE_STORE_URL: 'rediss://redis:6379',
    }
    const secret = join(mkdtempSync(join(tmpdir(), 'gatehouse-test-')), 'token')
    writeFileSync(secret, 'a-token')
    const text = configOf(objects(values)).replace('/etc/gatehouse-secrets/files/token', secret)
    const { settings, warnings } = loadSettings(text, {
      file: '/etc/gatehouse/gateway.config.yaml',
      features,
      env,
    })
    rmSync(dirname(secret), { recursive: true })
    expect(warnings).toEqual([])
    expect(settings.listen.host).toBe(values === 'sidecar' ? '127.0.0.1' : '0.0.0.0')
  })

  test('lets only the ports through that the container listens on, and tests it as the Service does', () => {
    const { ports, readinessProbe } = gatehouseIn(objects('gateway'))
    const policy = the(objects('gateway'), 'NetworkPolicy').spec
    const [clients, fleet] = ports.map(({ containerPort }: { containerPort: number }) => containerPort)
    expect(policy.ingress.map(({ ports: allowed }: { ports: unknown }) => allowed)).toEqual([
      [{ port: clients, protocol: 'TCP' }],
      [{ port: fleet, endPort: fleet + 63, protocol: 'TCP' }],
    ])
    // Replicas alone reach each other.
    const { matchLabels } = the(objects('gateway'), 'Deployment').spec.selector
    expect(policy.ingress[1].from).toEqual([{ podSelector: { matchLabels } }])
    expect(parse(configOf(objects('gateway'))).fleet.listen).toBe(`0.0.0.0:${ports[1].containerPort}`)
    expect(the(objects('gateway'), 'Service').spec.ports[0].targetPort).toBe(ports[0].name)
    expect(readinessProbe.httpGet).toEqual({ path: '/ready', port: ports[0].name })
    expect(parse(configOf(objects('gateway'))).listen.port).toBe(ports[0].containerPort)
    // A rule for egress is one for names too.
    expect(policy.policyTypes).toEqual(['Ingress', 'Egress'])
    expect(policy.egress[0]).toEqual({
      ports: [
        { port: 53, protocol: 'UDP' },
        { port: 53, protocol: 'TCP' },
      ],
    })
  })

  test('refuses connections to an application without ports, and allows its ports alone', () => {
    expect(the(objects('sidecar'), 'NetworkPolicy').spec).toMatchObject({
      policyTypes: ['Ingress'],
      ingress: [],
    })
    const set = { 'sidecar.application.ports': [{ containerPort: 8080 }] }
    const [rule] = the(objectsOf({ values: 'sidecar', set }), 'NetworkPolicy').spec.ingress
    expect(rule.ports).toEqual([{ port: 8080, protocol: 'TCP' }])
  })

  test('has the gateway and its servers as native sidecars of the application, servers first', () => {
    const { initContainers, containers } = the(objects('sidecar'), 'Deployment').spec.template.spec
    expect(initContainers.map(({ name }: { name: string }) => name)).toEqual(['everything', 'gatehouse'])
    for (const each of initContainers)
      expect(each).toMatchObject({ restartPolicy: 'Always', startupProbe: {} })
    expect(containers).toHaveLength(1)
    expect(containers[0]).toMatchObject({ name: 'agent' })
    const { host, port } = parse(configOf(objects('sidecar'))).listen
    expect(containers[0].env).toContainEqual({ name: 'MCP_URL', value: `http://${host}:${port}/mcp` })
    expect(gatehouseIn(objects('sidecar')).readinessProbe.exec.command).toEqual([
      'gatehouse',
      'health',
      `http://${host}:${port}`,
      '--ready',
    ])
    for (const kind of ['Service', 'Pod', 'HorizontalPodAutoscaler', 'ServiceMonitor'])
      expect(ofKind(objects('sidecar'), kind)).toEqual([])
  })

  test.each(releases)('gives no container of %s more than it needs', (values) => {
    for (const { spec, containers } of podsOf(objects(values))) {
      expect(spec).toMatchObject({
        automountServiceAccountToken: false,
        securityContext: { runAsNonRoot: true },
      })
      for (const { securityContext, resources } of containers) {
        expect(securityContext).toMatchObject({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
        expect(resources).toMatchObject({ requests: { memory: {} }, limits: { memory: {} } })
      }
    }
    expect(the(objects(values), 'ServiceAccount')).not.toHaveProperty('secrets')
  })

  test.each(releases)('has volumes in %s where the gateway and its servers write', (values) => {
    for (const { spec, containers } of podsOf(objects(values))) {
      const isWritable = ({ emptyDir, persistentVolumeClaim }: KubernetesObject['spec']) =>
        emptyDir !== undefined || persistentVolumeClaim !== undefined
      const writable = new Set(spec.volumes.filter(isWritable).map(({ name }: { name: string }) => name))
      for (const { name, volumeMounts } of containers) {
        const at = (path: string) =>
          volumeMounts?.find(({ mountPath }: { mountPath: string }) => mountPath === path)?.name
        if (name === 'gatehouse') expect(writable).toContain(at('/var/lib/gatehouse'))
        if (name === 'gatehouse' || name === 'everything') expect(writable).toContain(at('/tmp'))
      }
    }
  })

  test.each(releases)('gives pods of %s the time that a gateway needs to stop', (values) => {
    const { terminationGracePeriodSeconds } = the(objects(values), 'Deployment').spec.template.spec
    const before = gatehouseIn(objects(values)).lifecycle?.preStop.exec.command[1] ?? 0
    expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(
      Number(before) + SHUTDOWN_TIMEOUT_MS / 1000 + SERVER_EXIT_SECONDS,
    )
  })

  test('replaces the pod before it starts another where the volume is that of one pod', () => {
    expect(the(objects('single'), 'Deployment').spec.strategy).toEqual({ type: 'Recreate' })
    const [state] = the(objects('single'), 'Deployment').spec.template.spec.volumes.filter(
      ({ name }: { name: string }) => name === 'state',
    )
    const claim = the(objects('single'), 'PersistentVolumeClaim')
    expect(state.persistentVolumeClaim.claimName).toBe(claim.metadata.name)
    expect(claim.metadata.annotations).toEqual({ 'helm.sh/resource-policy': 'keep' })
    expect(the(objects('gateway'), 'Deployment').spec.strategy.rollingUpdate).toEqual({
      maxUnavailable: 0,
      maxSurge: 1,
    })
  })

  test('finds the pods of the gateway, and not that of helm test, by the same labels everywhere', () => {
    const found = objects('gateway')
    const { spec } = the(found, 'Deployment')
    const labels = spec.selector.matchLabels
    expect(spec.template.metadata.labels).toMatchObject(labels)
    expect(the(found, 'Service').spec.selector).toEqual(labels)
    expect(the(found, 'PodDisruptionBudget').spec.selector.matchLabels).toEqual(labels)
    expect(the(found, 'NetworkPolicy').spec.podSelector.matchLabels).toEqual(labels)
    expect(the(found, 'ServiceMonitor').spec.selector.matchLabels).toEqual(labels)
    expect(the(found, 'Service').metadata.labels).toMatchObject(labels)
    expect(the(found, 'Pod').metadata.labels).not.toMatchObject(labels)
    for (const constraint of spec.template.spec.topologySpreadConstraints)
      expect(constraint.labelSelector.matchLabels).toEqual(labels)
  })

  test('alerts about its own job and namespace alone', () => {
    const [group] = the(objects('gateway'), 'PrometheusRule').spec.groups
    const own = 'job="rel-gatehouse",namespace="agents"'
    for (const { expr } of group.rules) {
      expect(expr).toContain(own)
      expect(expr).not.toContain('job="gatehouse"')
    }
    expect(group.rules[0]).toMatchObject({ alert: 'GatehouseAbsent', expr: `absent(up{${own}} == 1)` })
  })

  test('installs the dashboard as it is in the chart', () => {
    const [map] = ofKind(objects('gateway'), 'ConfigMap').filter(
      ({ data }) => data['gatehouse.json'] !== undefined,
    )
    expect(map?.metadata.labels).toMatchObject({ grafana_dashboard: '1' })
    const file = readFileSync(join(chart, 'files/dashboard.json'), 'utf8')
    expect(JSON.parse(map?.data['gatehouse.json'])).toEqual(JSON.parse(file))
  })
})
