import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { withConfiguration } from '../../scripts/chart-schema.ts'
import { schemaText } from '../../src/config/schema.ts'
import { isErrorCode } from '../../src/core/error.ts'
import { self } from '../../src/core/identity.ts'
import { asObject, readJson } from '../../src/core/json/json.ts'
import { featureSchemas } from '../../src/features/settings.ts'
import { Metrics } from '../../src/observability/metrics.ts'
import { inRepository } from '../support/document.ts'
import { needs } from '../support/needs.ts'

const text = (path: string) => readFileSync(inRepository(path), 'utf8')

test('the home of the systemd service, its state and its cache are folders that systemd makes for it', () => {
  const unit = text('deploy/systemd/gatehouse.service')
  const setting = (name: string) =>
    [...unit.matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value)
  const made = [
    ...setting('StateDirectory').map((name) => `/var/lib/${name}`),
    ...setting('CacheDirectory').map((name) => `/var/cache/${name}`),
  ]
  const environment = new Map(
    setting('Environment').map((each = '') => each.split('=', 2) as [string, string]),
  )
  expect(made).toContain(environment.get('HOME'))
  expect(made).toContain(environment.get('XDG_STATE_HOME'))
  expect(environment.get('PATH')?.split(':')).toContain('/usr/local/bin')
  expect(setting('ExecStart')[0]).toMatch(/^\/usr\/local\/bin\/gatehouse serve /)
})

test('the image has its home on the volume, also where its file system is read-only', () => {
  const dockerfile = text('deploy/Dockerfile')
  const volume = /^VOLUME (\S+)$/m.exec(dockerfile)?.[1] ?? 'none'
  expect(/^ENV HOME=(\S+)$/m.exec(dockerfile)?.[1]).toBe(volume)
  expect(text('deploy/compose.yaml')).toMatch(/read_only: true\n\s+tmpfs: \[\/tmp\]/)
})

describe('the Helm chart', () => {
  const values = 'deploy/helm/gatehouse/values.schema.json'

  test('has the version of the gateway, and so does its image', () => {
    const { version, appVersion } = parse(text('deploy/helm/gatehouse/Chart.yaml'))
    expect([version, appVersion]).toEqual([self.version, self.version])
  })

  test('has the schema of the configuration in that of its values: run `npm run docs`', () => {
    expect(withConfiguration(text(values), schemaText(featureSchemas))).toBe(text(values))
  })

  test('describes each of its values, and knows no others', () => {
    const schema = asObject(readJson(text(values)))
    const described = settingsOf(schema['properties'])
    const { config: _config, ...defaults } = asObject(parse(text('deploy/helm/gatehouse/values.yaml')))
    const given = leaves(defaults)
    // Kubernetes has the keys below these.
    const top = new Set(['config', 'global', 'resources'])
    const own = (key: string): boolean => !top.has(key.split('.')[0] ?? '')
    const keyOf = (leaf: string): string => described.find((key) => leaf.startsWith(`${key}.`)) ?? leaf
    expect([...new Set(given.filter(own).map(keyOf))].toSorted()).toEqual(described.filter(own).toSorted())
    expect(undescribed(schema['properties'])).toEqual([])
  })
})

describe('the alerts and the dashboard', () => {
  const alertFile = 'deploy/helm/gatehouse/files/alerts.yaml'
  const alerts = text(alertFile)
  const dashboard = text('deploy/helm/gatehouse/files/dashboard.json')
  const rules: readonly { readonly expr: string }[] = parse(alerts).groups.flatMap(
    ({ rules: own }: { readonly rules: object[] }) => own,
  )
  const queries = [...dashboard.matchAll(/"(?:expr|query)": "((?:[^"\\]|\\.)*)"/g)].map(([, query = '']) =>
    query.replaceAll('\\"', '"'),
  )

  test('use only metrics that the gateway has', async () => {
    const metrics = new Metrics({
      isMethod: () => true,
      isOutcome: () => true,
      levels: () => ({ upstreams: [], sessions: 0, operations: {} }),
      pendingApprovals: async () => 0,
      deadLetters: async () => 0,
      references: async () => undefined,
    })
    const types = [...(await metrics.page()).text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    const known = new Set(
      types.flatMap(([, name = '', type]) => (type === 'histogram' ? [`${name}_bucket`] : [name])),
    )
    const used = [...rules.map(({ expr }) => expr), ...queries].flatMap((expr) => [
      ...expr.replaceAll(/"[^"]*"/g, '').matchAll(/\b(?:gatehouse|mcp|process|nodejs)_\w+/g),
    ])
    expect(used.length).toBeGreaterThan(30)
    expect([...new Set(used.map(([name]) => name))].filter((name) => !known.has(name))).toEqual([])
  })

  test('name only outcomes that calls have', () => {
    const named = [...alerts.matchAll(/outcome=~?"([^"]+)"/g)].flatMap(([, codes = '']) => codes.split('|'))
    expect(named.length).toBeGreaterThan(3)
    expect(named.filter((code) => !isErrorCode(code))).toEqual([])
  })

  test('have a place of its own for each panel', () => {
    const panels: readonly { readonly gridPos: Record<'x' | 'y' | 'w' | 'h', number> }[] =
      JSON.parse(dashboard).panels
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, index) => `${x + (index % w)} ${y + Math.floor(index / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
  })

  const needsPromtool = needs({ program: '/usr/bin/promtool', get: 'apt-get install prometheus' })

  test('fire when no gateway answers, and when a server is away from all of them', needsPromtool, () => {
    const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
    const up = (values: string, upstream: string) => [
      { series: 'up{job="gatehouse",instance="a"}', values },
      { series: 'gatehouse_upstream_up{job="gatehouse",instance="a",upstream="files"}', values: upstream },
      { series: 'gatehouse_upstream_up{job="gatehouse",instance="b",upstream="files"}', values: '0x30' },
    ]
    const firing = (alertname: string, labels?: object) => ({
      eval_time: '20m',
      alertname,
      exp_alerts: labels ? [{ exp_labels: labels }] : [],
    })
    const absent = { severity: 'critical' }
    const away = { severity: 'warning', upstream: 'files' }
    const tests = [
      {
        input_series: [],
        alert_rule_test: [firing('GatehouseAbsent', absent), firing('GatehouseServerAway')],
      },
      { input_series: up('0x30', '1x30'), alert_rule_test: [firing('GatehouseAbsent', absent)] },
      {
        input_series: up('1x30', '1x30'),
        alert_rule_test: [firing('GatehouseAbsent'), firing('GatehouseServerAway')],
      },
      { input_series: up('1x30', '0x30'), alert_rule_test: [firing('GatehouseServerAway', away)] },
    ].map((each) => ({ interval: '1m', ...each }))
    // What an alert says is not compared: it is prose.
    const bare = rules.map((rule) => ({ ...rule, annotations: {} }))
    writeFileSync(
      join(folder, 'alerts.json'),
      JSON.stringify({ groups: [{ name: 'gatehouse', rules: bare }] }),
    )
    writeFileSync(join(folder, 'tests.json'), JSON.stringify({ rule_files: ['alerts.json'], tests }))
    const checked = spawnSync('promtool', ['test', 'rules', 'tests.json'], { cwd: folder, encoding: 'utf8' })
    rmSync(folder, { recursive: true })
    expect(checked.stdout + checked.stderr).toMatch(/SUCCESS\s*$/)
    const whole = spawnSync('promtool', ['check', 'rules', inRepository(alertFile)])
    expect(whole).toMatchObject({ status: 0 })
  })
})

/** The paths of all values: `a.b`. An empty mapping or list is a value. */
function leaves(value: unknown, path: readonly string[] = []): readonly string[] {
  const entries = Object.entries(asObject(value))
  if (entries.length === 0) return [path.join('.')]
  return entries.flatMap(([key, each]) => leaves(each, [...path, key]))
}

/** The paths of all settings of a schema. */
function settingsOf(properties: unknown, path: readonly string[] = []): readonly string[] {
  return Object.entries(asObject(properties)).flatMap(([key, value]) => {
    const { properties: own } = asObject(value)
    const here = [...path, key]
    return own === undefined ? [here.join('.')] : settingsOf(own, here)
  })
}

/** The paths of settings of a schema without a description. */
function undescribed(properties: unknown, path: readonly string[] = []): readonly string[] {
  return Object.entries(asObject(properties)).flatMap(([key, value]) => {
    const { description, $ref, properties: own } = asObject(value)
    const here = [...path, key]
    const isDescribed = typeof description === 'string' || $ref !== undefined
    return [...(isDescribed ? [] : [here.join('.')]), ...undescribed(own, here)]
  })
}
