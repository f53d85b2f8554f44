// The conformance suite as its users run it, and its report as a running gateway shows it.
import { existsSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { validator } from '../../../src/core/schema/schema.ts'
import { Canaries } from '../../support/canary.ts'
import { type Finished, runCommand, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { clientOf } from '../../support/journey.ts'
import { publishedServer } from '../../support/peers/servers.ts'
import { hasSchema, schemaText } from '../../support/published-schemas.ts'
import { type Json, isObject } from '../../support/server/json.ts'
import { parseXml } from '../../support/xml.ts'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-conformance-')))
const store = join(root, 'store')
const file = join(root, 'text.txt')
const broken = join(import.meta.dirname, '../../fixtures/broken-server/main.ts')
const canaries = new Canaries()

const filesystem = {
  command: publishedServer('@modelcontextprotocol/server-filesystem', root),
  revision: '2025-11-25',
}
const files = {
  ...filesystem,
  features: { conformance: { arguments: { write_file: { path: file, content: 'changed' } } } },
  tools: {
    write_file: {
      undo: {
        snapshot: 'read_text_file(path=$.args.path)',
        restore: 'write_file(path=$.args.path, content=$.snapshot.content)',
      },
    },
  },
}

async function conformance(config: Json, ...args: string[]): Promise<Finished> {
  const { path, remove } = await configFile(config)
  try {
    return await runCommand(['conformance', ...args, '--config', path])
  } finally {
    await remove()
  }
}

interface Result {
  readonly test_id: string
  readonly status: string
  readonly message?: string
}

function resultsIn(report: Json): readonly Result[] {
  return Array.isArray(report['results']) ? report['results'] : []
}

const statusOf = (report: Json, id: string) => resultsIn(report).find(({ test_id }) => test_id === id)?.status

let ran: Finished
let report: Json
beforeAll(async () => {
  writeFileSync(file, 'before')
  ran = await conformance({ store, upstreams: { files } }, 'files', '--allow-writes', '--json')
  report = JSON.parse(ran.stdout)
})
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }))

describe('a run against server-filesystem', () => {
  it('passes every check that applies, and skips those of features that are off', () => {
    const others = resultsIn(report).filter(({ status }) => status !== 'passed')
    expect(others.map(({ status, message }) => [status, message])).toEqual(
      Array.from({ length: 3 }, () => ['skipped', 'features.references is off']),
    )
    expect(report['summary']).toEqual({ passed: 65, failed: 0, skipped: 3, errors: 0 })
    expect(report).toMatchObject({ server_name: 'files', server_version: '0.2.0' })
    expect(ran.code).toBe(0)
    expect(ran.stderr).toContain('files: 68 of 68 checks')
  })

  it('calls tools that change something only where that is permitted, and undoes it', async () => {
    expect(['CONF-0509', 'CONF-0517'].map((id) => statusOf(report, id))).toEqual(['passed', 'passed'])
    expect(readFileSync(file, 'utf8')).toBe('before')
    writeFileSync(file, 'untouched')
    const safe = await conformance({ store: 'memory', upstreams: { files } }, '--json')
    const results = resultsIn(JSON.parse(safe.stdout)).filter(({ test_id }) =>
      /^CONF-05(09|17)$/.test(test_id),
    )
    expect(results).toEqual([
      expect.objectContaining({ status: 'skipped', message: '--allow-writes is not given' }),
      expect.objectContaining({ status: 'skipped', message: '--allow-writes is not given' }),
    ])
    expect(readFileSync(file, 'utf8')).toBe('untouched')
  })

  it.skipIf(!hasSchema('proposals/conformance.schema.json'))('has a report of the published form', () => {
    const check = validator(JSON.parse(schemaText('proposals/conformance.schema.json')))
    expect(check(report)).toEqual([])
  })
})

describe('a gateway with the store of a run', () => {
  it('shows its report as a page, as JSON, as a badge and by a tool', async () => {
    const gateway = await startGateway({ store, upstreams: { files: filesystem, other: filesystem } })
    onTestFinished(() => gateway.close())
    const numbers = { tested_at: report['tested_at'], passed: 65, failed: 0 }
    const published = { ...report, history: [numbers] }
    const get = (path: string, accept = '*/*') => fetch(`${gateway.origin}${path}`, { headers: { accept } })
    expect(await (await get('/conformance/files', 'application/json')).json()).toEqual(published)
    expect(await (await get('/conformance', 'application/json')).json()).toEqual({ reports: [published] })

    const page = await get('/conformance', 'text/html,application/json;q=0.5')
    expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(page.headers.get('content-security-policy')).toContain(`default-src 'none'`)
    expect(page.headers.get('vary')).toContain('Accept')
    const html = await page.text()
    // It has the frame of all pages.
    expect(html).toContain('<a class="brand" href="./">')
    expect(html).toContain('65 passed, 0 failed, 3 skipped, 0 not carried out')
    expect(html).toContain('<code>gatehouse conformance other</code>')

    const badge = await get('/conformance/files/extensions.svg')
    expect(badge.headers.get('content-type')).toBe('image/svg+xml')
    expect(parseXml(await badge.text()).attributes['aria-label']).toBe(
      'gateway extensions: 65 of 65 checks passed',
    )
    expect(await (await get('/conformance/other/extensions.svg')).text()).toContain(
      'gateway extensions: not run',
    )
    // What the gateway adds is no proof of the server.
    expect(await (await get('/conformance/files/badge.svg')).text()).toContain('server test: not run')

    const client = await clientOf({ url: `${gateway.url}/files` })
    const { result } = await client.request('tools/call', { name: 'get_conformance_report', arguments: {} })
    const short = { ...report, results: [], more: expect.stringContaining('/conformance/files') }
    expect(result?.['structuredContent']).toEqual(short)
    const list = await client.request('tools/list', {})
    expect(JSON.stringify(list.result)).not.toContain('get_conformance_report')

    const together = await clientOf(gateway)
    const named = { name: 'get_conformance_report', arguments: { server: 'files' } }
    expect((await together.request('tools/call', named)).result?.['structuredContent']).toEqual(short)
    const unnamed = await together.request('tools/call', { name: 'get_conformance_report', arguments: {} })
    expect(unnamed.result).toMatchObject({ isError: true, error: { code: 'INVALID_INPUT', field: 'server' } })
  })

  it('says where there is no report how to get one', async () => {
    const gateway = await startGateway({ store: 'memory', upstreams: { files: filesystem } })
    onTestFinished(() => gateway.close())
    const missing = await fetch(`${gateway.origin}/conformance`, { headers: { accept: 'application/json' } })
    expect(missing.status).toBe(404)
    expect(await missing.json()).toMatchObject({
      error: {
        data: {
          code: 'RESOURCE_NOT_FOUND',
          suggestion: expect.stringContaining('gatehouse test files and gatehouse conformance files'),
        },
      },
    })
  })

  it('has none of this where the feature is off, and the pages only for callers where there is authentication', async () => {
    const off = await startGateway({
      store,
      upstreams: { files: { ...filesystem, features: { conformance: 'off' } }, other: filesystem },
    })
    onTestFinished(() => off.close())
    expect((await fetch(`${off.origin}/conformance/files`)).status).toBe(404)
    expect(await (await fetch(`${off.origin}/conformance`)).text()).not.toContain('server-files')
    const hash = 'sha256:0123456789abcdef:0000000000000000000000000000000000000000000000000000000000000000'
    const guarded = await startGateway({
      store,
      auth: { opaque: { tokens: [{ hash, id: 'nobody' }] } },
      upstreams: { files: filesystem },
    })
    onTestFinished(() => guarded.close())
    for (const path of ['/conformance', '/conformance/files', '/conformance/badge.svg'])
      expect((await fetch(`${guarded.origin}${path}`)).status).toBe(401)
  })
})

// What follows has no run in common, and waits for its servers more than it computes.
describe.concurrent('a run against a broken server', () => {
  it('ends with 1, says what is broken, writes JUnit XML, and keeps secrets to itself', async () => {
    const secret = canaries.of('token')
    const junit = join(root, 'report.xml')
    const server = { command: [process.execPath, broken, 'list fails'], env: { API_TOKEN: secret } }
    const config = { store: join(root, 'broken-store'), upstreams: { broken: server } }
    const { code, stdout, stderr } = await conformance(config, '--junit', junit)
    expect(code).toBe(1)
    expect(stdout).toMatch(/^failed {3}CONF-005 +tools\/list failed: no list for \S+$/m)
    expect(stdout).toMatch(/^\d+ passed, [1-9]\d* failed, \d+ skipped$/m)
    const xml = readFileSync(junit, 'utf8')
    const suites = parseXml(xml)
    expect(suites.attributes['tests']).toBe('68')
    const cases = suites.children.flatMap(({ children }) => children)
    const [failure] = cases.find(({ attributes }) => attributes['name'] === 'CONF-005')?.children ?? []
    expect(failure).toMatchObject({
      name: 'failure',
      attributes: { message: expect.stringContaining('no list') },
    })
    const skipped = cases.filter(({ children }) => children[0]?.name === 'skipped')
    expect(suites.attributes['skipped']).toBe(String(skipped.length))
    expect(canaries.in(`${stdout}${stderr}${xml}`)).toEqual([])
  })
})

it.concurrent('does not call a tool that says that it reads, and by its name deletes', async () => {
  // This server ends when the tool is called.
  const server = { command: [process.execPath, broken, 'wrong hint'] }
  const { code, stdout } = await conformance({ store: 'memory', upstreams: { server } }, '--json')
  const results = resultsIn(JSON.parse(stdout)).filter(({ test_id }) => test_id === 'CONF-1107')
  expect(results).toMatchObject([
    { status: 'skipped', message: expect.stringContaining('no tool that only reads') },
  ])
  expect(code).toBe(0)
})

describe.concurrent('wrong usage', () => {
  const config = { store: 'memory', upstreams: { files: filesystem, other: filesystem } }

  it.each([
    [['unknown'], 2, /no server is named "unknown"/],
    [['files', 'other'], 2, /name one server, or none for all/],
    [['files', '--strict'], 2, /--strict/],
    [['--junit', join(root, 'all.xml')], 2, /name one server with --junit/],
    [['--suite'], 2, /--suite prints the suite/],
  ])('%j ends with %i', async (args, code, message) => {
    const finished = await conformance(config, ...args)
    expect([finished.code, finished.stdout]).toEqual([code, ''])
    expect(finished.stderr).toMatch(message)
    expect(existsSync(join(root, 'all.xml'))).toBe(false)
  })

  it('of a server that does not start ends with 1 and the reason', async () => {
    const absent = { command: [process.execPath, join(root, 'absent.js')] }
    const finished = await conformance({ store: 'memory', upstreams: { absent } }, '--json')
    expect([finished.code, finished.stdout]).toEqual([1, ''])
    expect(finished.stderr).toMatch(/^gatehouse: absent cannot be reached: /m)
  })
})

it('--suite prints what each check is about', async () => {
  const { code, stdout } = await runCommand(['conformance', '--suite'])
  const suite: unknown = JSON.parse(stdout)
  expect(code).toBe(0)
  expect(isObject(suite) && suite['metadata']).toMatchObject({ total_tests: 68, suite_version: '1.0.0' })
})
