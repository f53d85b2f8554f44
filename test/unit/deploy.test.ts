import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { isObject } from '../../src/core/json/json.ts'
import { inRepository } from '../support/document.ts'

const text = (path: string) => readFileSync(inRepository(path), 'utf8')

/** The mappings in a list, or none. */
function listAt(value: unknown, key: string): readonly Readonly<Record<string, unknown>>[] {
  const list: unknown = isObject(value) ? value[key] : undefined
  return Array.isArray(list) ? list.filter(isObject) : []
}

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

test('every container of the pod that runs the gateway or a server can write to /tmp', () => {
  const documents = parseAllDocuments(text('deploy/kubernetes-sidecar.yaml')).map((each): unknown =>
    each.toJS(),
  )
  const pod = documents.find((each) => isObject(each) && each['kind'] === 'Pod')
  const spec = isObject(pod) ? pod['spec'] : undefined
  const writable = new Set(
    listAt(spec, 'volumes').flatMap(({ name, emptyDir }) => (emptyDir === undefined ? [] : [name])),
  )
  const containers = listAt(spec, 'initContainers')
  expect(containers.map(({ name }) => name)).toEqual(['mcp-server', 'gatehouse'])
  for (const container of containers) {
    const mount = listAt(container, 'volumeMounts').find(({ mountPath }) => mountPath === '/tmp')
    expect(writable).toContain(mount?.['name'])
  }
})
