/**
 * What the Helm chart renders starts a real process: the arguments, the environment and the volumes of the container of
 * Gatehouse, with a folder in the place of each volume, and the entry point and variables of the image from the Dockerfile.
 * Probes and the client of `helm test` then run as rendered.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../support/child-process.ts'
import { until } from '../../support/condition.ts'
import { inRepository } from '../../support/document.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import {
  type CommandProcess,
  gatewayProgram,
  runCommandProcess,
  startCommandProcess,
} from '../../support/gateway-process.ts'
import { type KubernetesObject, needsHelm, objectsOf, type Release } from '../../support/kubernetes-tools.ts'
import { needsRedis, startRedis } from '../../support/redis-server.ts'

type Parsed = KubernetesObject['spec']

/** The values of the keys of Secrets, by name and key. */
type Secrets = Readonly<Record<string, Readonly<Record<string, string>>>>

/** A container of a pod that runs here. */
interface Container {
  readonly rendered: Parsed
  readonly command: CommandProcess
  /** A text of the pod with the folders of its volumes. */
  local(text: string): string
  close(): Promise<void>
}

/** The variables that the image has. */
const imageEnv = Object.fromEntries(
  [...readFileSync(inRepository('deploy/Dockerfile'), 'utf8').matchAll(/^ENV (\w+)=(\S+)$/gm)].map(
    ([, name = '', value]) => [name, value],
  ),
)

/** What the variables of a container say. */
function environmentOf({ env = [] }: Parsed, secrets: Secrets): Record<string, string> {
  return Object.fromEntries(
    env.map(({ name, value, valueFrom }: Parsed) => {
      const { name: secret, key } = valueFrom?.secretKeyRef ?? {}
      // The address of the pod is that of this machine.
      const own = valueFrom?.fieldRef?.fieldPath === 'status.podIP' ? '127.0.0.1' : undefined
      return [name, value ?? own ?? secrets[secret]?.[key]]
    }),
  )
}

/** Starts the container of Gatehouse of a Deployment. */
function startRendered(objects: readonly KubernetesObject[], secrets: Secrets = {}): Container {
  const root = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const pod = objects.find(({ kind }) => kind === 'Deployment')?.spec.template.spec
  const containers: readonly Parsed[] = [...(pod.initContainers ?? []), ...pod.containers]
  const rendered = containers.find(({ name }) => name === 'gatehouse')
  const mounts: readonly Parsed[] = rendered.volumeMounts
  const folders = new Map(mounts.map(({ name, mountPath }) => [mountPath as string, join(root, name)]))
  const paths = [...folders].filter(([path]) => path !== '/tmp').toSorted(([a], [b]) => b.length - a.length)
  const local = (text: string): string =>
    paths.reduce((changed, [path, folder]) => changed.replaceAll(path, folder), text)
  for (const { name, mountPath } of mounts) {
    const { configMap, secret } = pod.volumes.find((each: Parsed) => each.name === name)
    const map = objects.find(
      ({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMap?.name,
    )
    const files: Record<string, string> = map?.data ?? secrets[secret?.secretName] ?? {}
    mkdirSync(folders.get(mountPath) ?? '')
    for (const [file, text] of Object.entries(files))
      writeFileSync(join(folders.get(mountPath) ?? '', file), local(text))
  }
  const env = { ...imageEnv, ...environmentOf(rendered, secrets), TMPDIR: folders.get('/tmp') ?? '' }
  const localEnv = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, local(value)]))
  const command = startCommandProcess(rendered.args.map(local), { cwd: root, env: localEnv })
  return {
    rendered,
    command,
    local,
    close: async () => {
      await command.close()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

/** Whether a probe succeeds. */
async function succeeds({ httpGet, exec }: Parsed, { ports = [] }: Parsed): Promise<boolean> {
  if (exec) {
    const [program, ...args] = exec.command
    expect(program).toBe('gatehouse')
    return (await runCommandProcess(args)).code === 0
  }
  const { containerPort } = ports.find(({ name }: Parsed) => name === httpGet.port)
  const found = await fetch(`http://127.0.0.1:${containerPort}${httpGet.path}`).catch(() => undefined)
  return found?.status === 200
}

/** The tools that a client of the SDK lists. */
async function toolsAt(url: string, token?: string): Promise<number> {
  const client = new Client({ name: 'a-client', version: '1.0.0' })
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
  const { tools } = await client.listTools()
  await client.close()
  return tools.length
}

const hashOf = (token: string): string =>
  `sha256:0a0b0c0d0e:${createHash('sha256').update(`0a0b0c0d0e${token}`).digest('hex')}`

describe('a pod of the Helm chart', needsHelm, () => {
  let server: FakeServer
  beforeAll(async () => {
    server = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  })
  afterAll(() => server.close())

  /** The objects of a release whose gateway has this port, and the server of this test. */
  async function release(values: Required<Release>['values']) {
    const port = await freePort()
    const set = { port, fleetPort: await freePort(), 'config.upstreams': { everything: server.url } }
    return { port, objects: objectsOf({ values, set }) }
  }

  test(
    'serves as one of a fleet with Redis, and the client of helm test gets through',
    needsRedis,
    async () => {
      const redis = await startRedis({ isForgetful: true })
      const secrets: Secrets = {
        'gatehouse-redis': { url: redis.url },
        gatehouse: {
          'prometheus-token-hash': hashOf('for-prometheus'),
          'agents-token-hash': hashOf('for-agents'),
          'anna-password-hash': `scrypt:0a0b0c0d0e:${'c'.repeat(64)}`,
          'agents-token': 'for-agents',
        },
      }
      const { port, objects } = await release('gateway')
      const { rendered, command, close } = startRendered(objects, secrets)
      try {
        await until(() => succeeds(rendered.readinessProbe, rendered), 'the readiness probe')
        expect(await succeeds(rendered.livenessProbe, rendered)).toBe(true)
        expect(await toolsAt(`http://127.0.0.1:${port}/mcp`, 'for-agents')).toBeGreaterThan(0)

        const [client] = objects.find(({ kind }) => kind === 'Pod')?.spec.containers ?? []
        const [script] = objects.flatMap(({ data }): string[] => data?.['client.mjs'] ?? [])
        const env = environmentOf(client, secrets)
        const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
        writeFileSync(join(folder, 'client.mjs'), script ?? '')
        expect(client.command).toEqual(['node', '/client/client.mjs'])
        expect(env['MCP_URL']).toBe('http://rel-gatehouse.agents.svc:8900/mcp')
        const service = `http://127.0.0.1:${port}/mcp`
        const connect = (given: NodeJS.ProcessEnv) =>
          runCommandProcess([], {
            program: [process.execPath, join(folder, 'client.mjs')],
            env: { ...env, MCP_URL: service, ...given },
          })
        const [done, refused] = await Promise.all([connect({}), connect({ MCP_TOKEN: 'another' })])
        rmSync(folder, { recursive: true })
        expect(done).toMatchObject({ code: 0, stdout: expect.stringMatching(/lists \d+ tools/) })
        expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('HTTP 401') })

        command.stop()
        expect(await command.ended).toMatchObject({ code: 0 })
      } finally {
        await close()
        await redis.stop()
      }
    },
  )

  test('serves with the volume of one replica, where its store then is', async () => {
    const { port, objects } = await release('single')
    const { rendered, local, close } = startRendered(objects, { files: { token: 'a-token' } })
    try {
      await until(() => succeeds(rendered.readinessProbe, rendered), 'the readiness probe')
      expect(await toolsAt(`http://127.0.0.1:${port}/mcp`)).toBeGreaterThan(0)
      expect(readFileSync(join(local('/var/lib/gatehouse'), 'store', 'data.mdb')).length).toBeGreaterThan(0)
    } finally {
      await close()
    }
  })

  test('serves the application of its pod as a sidecar, and its probes run in the container', async () => {
    const { objects } = await release('sidecar')
    const { rendered, close } = startRendered(objects)
    try {
      await until(() => succeeds(rendered.startupProbe, rendered), 'the startup probe')
      await until(() => succeeds(rendered.readinessProbe, rendered), 'the readiness probe')
      const [application] =
        objects.find(({ kind }) => kind === 'Deployment')?.spec.template.spec.containers ?? []
      expect(await toolsAt(environmentOf(application, {})['MCP_URL'] ?? '')).toBeGreaterThan(0)
    } finally {
      await close()
    }
  })

  test('is started by the entry point of the image, which is the command of the tests', () => {
    const dockerfile = readFileSync(inRepository('deploy/Dockerfile'), 'utf8')
    expect(dockerfile).toContain('ENTRYPOINT ["tini", "--", "gatehouse"]')
    expect(dockerfile).toContain('ln -s /app/dist/main.js /usr/local/bin/gatehouse')
    expect(gatewayProgram().at(-1)).toMatch(/dist\/main\.js$/)
  })
})
