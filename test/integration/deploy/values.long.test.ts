/** Which values the Helm chart takes, and that Kubernetes and the Prometheus operator know the objects that it makes of them. */
import { describe, expect, test } from 'vitest'
import { SHUTDOWN_TIMEOUT_MS } from '../../../src/cli/serve.ts'
import {
  conforms,
  decodes,
  kubernetesVersions,
  needsHelm,
  needsMonitoring,
  needsSchemas,
  objectsOf,
  type Release,
  rendered,
  runHelm,
} from '../../support/kubernetes-tools.ts'

const releases = ['gateway', 'single', 'sidecar'] as const

/** A second less than the calls in flight, servers that were started by a command, and `preStopSeconds` take. */
const tooShort = SHUTDOWN_TIMEOUT_MS / 1000 + 4 + 5 - 1

describe('the values of the Helm chart', needsHelm, () => {
  test.each(releases)('of %s pass helm lint', (values) => {
    expect(runHelm('lint', { values })).toMatchObject({ isOk: true })
  })

  test('of the chart itself pass helm lint, and the chart says what to set before it installs', () => {
    expect(runHelm('lint', {})).toMatchObject({ isOk: true })
    expect(runHelm('template', {}).text).toContain('config.upstreams is empty')
  })

  test.each(releases.flatMap((values) => kubernetesVersions.map((version) => [values, version] as const)))(
    'of %s become objects that Kubernetes %s knows',
    needsSchemas,
    (values, version) => {
      const checked = conforms(rendered({ values }), version)
      expect(checked).toEqual({ isOk: true, text: '' })
      const unknown = conforms('{ apiVersion: v1, kind: Service, metadata: { name: a }, spek: {} }', version)
      expect(unknown.text).toContain('spek')
    },
  )

  test('become objects that the Prometheus operator decodes', needsMonitoring, () => {
    const monitored = objectsOf({ values: 'gateway' }).filter(({ kind }) =>
      /^(ServiceMonitor|PrometheusRule)$/.test(kind),
    )
    expect(monitored).toHaveLength(2)
    expect(decodes(monitored)).toEqual({ isOk: true, text: '' })
    const wrong = { kind: 'ServiceMonitor', metadata: {}, spec: { endpoint: [] } }
    expect(decodes([wrong])).toMatchObject({ isOk: false, text: expect.stringContaining('endpoint') })
  })

  test('roll the pods when the configuration changes, and only then', () => {
    const checksum = (set?: Release['set']): string => {
      const found = objectsOf({ values: 'gateway', ...(set && { set }) })
      const deployment = found.find(({ kind }) => kind === 'Deployment')
      return deployment?.spec.template.metadata.annotations['checksum/config']
    }
    const before = checksum()
    expect(before).toMatch(/^[0-9a-f]{64}$/)
    expect(checksum({ 'config.limits.timeout': '1m' })).not.toBe(before)
    expect(checksum({ 'service.port': 80 })).toBe(before)
  })

  test.each<readonly [Required<Release>['values'], Required<Release>['set'], string]>([
    ['gateway', { replicas: 3 }, 'replicas'],
    ['gateway', { 'service.sessionAffinity': 'Sticky' }, 'sessionAffinity'],
    ['gateway', { 'config.listen.port': 80 }, 'port'],
    ['gateway', { 'config.upstreams.everything': { url: 'http://a/mcp', tokn: 'a' } }, 'tokn'],
    ['gateway', { 'config.limits.timeout': 60 }, 'timeout'],
    ['gateway', { 'secretEnv.TOKEN': { secretName: 'a' } }, 'key'],
    ['gateway', { 'podDisruptionBudget.maxUnavailable': 'some' }, 'maxUnavailable'],
    ['gateway', { 'state.persistent': true }, 'volumes for one replica'],
    ['sidecar', { mode: 'gateway' }, 'config.auth is missing'],
    ['gateway', { 'config.store': 'redis://me:hunter2@redis', 'store.url.secretName': '' }, 'has a password'],
    ['gateway', { terminationGracePeriodSeconds: tooShort }, 'terminationGracePeriodSeconds is too short'],
    ['gateway', { 'store.url.secretName': '' }, 'autoscaling needs a store that replicas share'],
    ['gateway', { 'config.store': '${REDIS_URL}' }, 'both name a store'],
    ['gateway', { 'autoscaling.maxReplicas': 1 }, 'less than autoscaling.minReplicas'],
    ['single', { replicaCount: 2, 'state.persistent': false }, 'more than one replica needs a store'],
    ['single', { 'ingress.enabled': true }, 'ingress needs a host'],
    ['single', { 'sidecar.servers': [{ name: 'a' }] }, 'has no effect with mode: gateway'],
    ['sidecar', { 'sidecar.application.imge': 'a' }, 'imge'],
    ['sidecar', { 'sidecar.application': null }, 'sidecar.application is empty'],
    ['sidecar', { 'monitoring.serviceMonitor.enabled': true }, 'has no effect with mode: sidecar'],
  ])('of %s are refused with %j', (values, set, reason) => {
    const { isOk, text } = runHelm('template', { values, set })
    expect(isOk).toBe(false)
    expect(text).toContain(reason)
  })
})
