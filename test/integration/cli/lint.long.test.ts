import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { folder, httpServer } from '../../support/journey.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import type { Json } from '../../support/server/json.ts'

interface Report {
  readonly upstream: string
  readonly revision: string
  readonly assertions: readonly Json[]
  readonly owner: readonly Json[]
  readonly summary: Json
}

const badServer = [
  process.execPath,
  fileURLToPath(new URL('../../fixtures/bad-server/main.ts', import.meta.url)),
]
const corporate = {
  profile: 'corporate',
  listen: { public_url: 'https://gate.example' },
  auth: { jwt: { issuer: 'https://idp.example', audience: 'gate', jwks: 'https://idp.example/keys' } },
}

function file(config: Json): string {
  const path = join(folder(), 'gateway.config.yaml')
  writeFileSync(path, JSON.stringify(config))
  return path
}

async function lint(server: Json, config: Json = {}, args: readonly string[] = []) {
  const path = file({ ...config, upstreams: { one: server } })
  const { code, stdout, stderr } = await runCommand(['lint', 'one', '--json', '--config', path, ...args])
  expect(stderr).toBe('')
  const report: Report = JSON.parse(stdout)
  const withStatus = (status: string): unknown[] =>
    report.assertions.filter((each) => each['status'] === status).map(({ id }) => id)
  return { code, report, withStatus }
}

/** The rules that fail for every server behind a gateway without authentication and rate limits. */
const ofTheGateway = ['C082', 'C083', 'C191', 'C192']
/** The rules that fail for every server if the describing features of the corporate profile are off. */
const undescribed =
  'C011 C022 C069 C084 C134 C137 C138 C139 C140 C141 C142 C153 C154 C155 C156 C157 C165 C166 C167 C168 C169'.split(
    ' ',
  )

/** The rules that fail because of the server itself. */
function ofServer(failed: readonly unknown[]): unknown[] {
  return failed.filter((id) => ![...ofTheGateway, ...undescribed].includes(String(id)))
}

describe('gatehouse lint', () => {
  test('finds what server-everything could improve', async () => {
    const { code, report, withStatus } = await lint({ command: publishedServer(everything, 'stdio') })
    expect(code).toBe(0)
    expect(report).toMatchObject({ upstream: 'one', revision: '2025-11-25' })
    expect(ofServer(withStatus('fail'))).toEqual(['C119', 'C130', 'C131', 'C132', 'C133', 'C160', 'C161'])
    expect(withStatus('pass')).toEqual(
      expect.arrayContaining(['C008', 'C087', 'C100', 'C105', 'C118', 'C121', 'C152', 'C171', 'C172']),
    )
  })

  test('finds what server-filesystem could improve', async () => {
    const files = join(folder(), 'files')
    mkdirSync(files)
    const command = publishedServer('@modelcontextprotocol/server-filesystem', files)
    const { withStatus } = await lint({ command })
    expect(ofServer(withStatus('fail'))).toEqual(['C089', 'C120', 'C130', 'C131', 'C132', 'C214'])
    expect(withStatus('pass')).toEqual(
      expect.arrayContaining(['C119', 'C121', 'C126', 'C133', 'C143', 'C174']),
    )
  })

  test('finds what server-memory could improve', async () => {
    const command = publishedServer('@modelcontextprotocol/server-memory')
    const { withStatus } = await lint({ command, env: { MEMORY_FILE_PATH: join(folder(), 'memory.jsonl') } })
    expect(ofServer(withStatus('fail'))).toEqual(['C089', 'C130', 'C131', 'C132', 'C161'])
  })

  test('finds every fault of a bad server, and never calls a tool', async () => {
    const { report, withStatus } = await lint({ command: badServer })
    expect(ofServer(withStatus('fail'))).toEqual(
      (
        'C008 C021 C088 C089 C100 C105 C119 C120 C121 C122 C126 C130 C131 C132 C133 C143 C152 ' +
        'C160 C161 C162 C163 C164 C170 C171 C172 C177'
      ).split(' '),
    )
    // The gateway marks the tool as destructive, which the server does not.
    expect(withStatus('repaired')).toContain('C136')
    // Clients get the forms that they accept.
    expect(withStatus('repaired')).toEqual(expect.arrayContaining(['C124', 'C158', 'C159', 'C173']))
    // Clients get the tasks of the gateway.
    expect(withStatus('repaired')).toContain('C118')
    const mended = report.assertions.find(({ id }) => id === 'C127')
    expect(mended).toMatchObject({
      status: 'repaired',
      evidence: ['repaired for clients', expect.stringContaining('DeleteAll')],
    })
  })

  test('finds what the corporate profile repairs', async () => {
    const { withStatus } = await lint({ command: publishedServer(everything, 'stdio') }, corporate)
    expect(withStatus('repaired')).toEqual(
      expect.arrayContaining(['C082', 'C119', 'C133', 'C160', 'C161', 'C191', 'C192', ...undescribed]),
    )
    expect(withStatus('fail')).toEqual(['C130', 'C131', 'C132'])
  })

  test.each(['2024-11-05', '2025-06-18', '2026-07-28'] as const)(
    'audits a server of %s over HTTP',
    async (revision) => {
      const server = await httpServer({ revision, transport: revision === '2024-11-05' ? 'sse' : 'http' })
      const { report, withStatus } = await lint({ url: server.url })
      expect(report.revision).toBe(revision)
      expect(withStatus('pass')).toEqual(expect.arrayContaining(['C087', 'C088', 'C100', 'C105', 'C121']))
      expect(server.received('tools/call')).toEqual([])
    },
  )

  test('prints a JSON report with number, level, status and evidence of each rule', async () => {
    const { report } = await lint({ command: badServer })
    expect(Object.keys(report)).toEqual(['upstream', 'revision', 'assertions', 'owner', 'summary'])
    const statuses = new Map<unknown, number>()
    for (const each of report.assertions) {
      expect(each).toEqual({
        id: expect.stringMatching(/^C\d{3}$/),
        level: expect.stringMatching(/^(?:must|should|forbidden|may)$/),
        status: expect.stringMatching(/^(?:pass|repaired|fail|not applicable)$/),
        text: expect.stringMatching(/\.$/),
        evidence: expect.any(Array),
        ...(each['fix'] !== undefined && { fix: expect.any(String) }),
      })
      expect(each['evidence']).not.toEqual([])
      expect(each['fix'] === undefined || each['status'] === 'fail').toBe(true)
      statuses.set(each['status'], (statuses.get(each['status']) ?? 0) + 1)
    }
    expect(report.summary).toEqual({
      pass: statuses.get('pass'),
      repaired: statuses.get('repaired'),
      fail: statuses.get('fail'),
      notApplicable: statuses.get('not applicable'),
      serious: expect.arrayContaining(['C119', 'C162']),
      owner: expect.arrayContaining(['C176']),
    })
  })

  test('exits with 1 with --strict if a mandatory rule fails, and otherwise with 0', async () => {
    expect((await lint({ command: badServer }, {}, ['--strict'])).code).toBe(1)
    expect((await lint({ command: badServer })).code).toBe(0)
    const memory = {
      command: publishedServer('@modelcontextprotocol/server-memory'),
      env: { MEMORY_FILE_PATH: join(folder(), 'memory.jsonl') },
    }
    expect((await lint(memory, corporate, ['--strict'])).code).toBe(0)
  })

  test('prints a text report with one line for each rule, the place of each failure and its fix', async () => {
    const path = file({ upstreams: { one: { command: badServer } } })
    const { stdout } = await runCommand(['lint', 'one', '--config', path])
    expect(stdout).toMatch(/^one: MCP 2025-11-25, checked against \d+ rules\n/)
    expect(stdout).toMatch(/^fail +C119 must +Tool names are .*\n +DeleteAll\n +send-mail\n +fix: Rename/m)
    expect(stdout).toMatch(/^\d+ pass, \d+ repaired by the gateway, \d+ fail, \d+ not applicable$/m)
    expect(stdout).toMatch(/^only the owner of the server can provide: C/m)
  })

  test('lists the facts that only the owner knows, with their config keys and how many are set', async () => {
    const server = {
      command: publishedServer('@modelcontextprotocol/server-memory'),
      env: { MEMORY_FILE_PATH: join(folder(), 'memory.jsonl') },
      not_for: ['files'],
      tools: { 'delete_*': { cost: 'free' }, read_graph: { cli: 'memory graph' } },
    }
    const { report } = await lint(server)
    const said = Object.fromEntries(report.owner.map((each) => [each['key'], [each['said'], each['of']]]))
    expect(said).toMatchObject({
      about: [0, 1],
      not_for: [1, 1],
      install: [0, 1],
      'tools.*.cost': [3, 9],
      'tools.*.cli': [1, 9],
      'tools.*.api': [0, 9],
      'tools.*.examples': [0, 9],
    })
    const path = file({ upstreams: { one: server } })
    const { stdout } = await runCommand(['lint', 'one', '--config', path])
    expect(stdout).toMatch(/^only its owner knows; set it under upstreams.one:\n {2}about .*\n {2}use_when /m)
    expect(stdout).toMatch(/^ {2}tools\.\*\.cost +what a call costs \(set for 3 of 9\)$/m)
    expect(stdout).not.toMatch(/^ {2}not_for/m)
  })

  test('gives the reason why a server cannot be audited, and exits with 1', async () => {
    const path = file({ upstreams: { one: '/nowhere/at-all' } })
    const { code, stdout, stderr } = await runCommand(['lint', 'one', '--config', path])
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^gatehouse: one cannot be audited: /)
  })

  test('lists the known servers if given none or an unknown one, and exits with 2', async () => {
    const path = file({ upstreams: { one: 'echo', two: 'echo' } })
    const { code, stderr } = await runCommand(['lint', 'three', '--config', path])
    expect(code).toBe(2)
    expect(stderr).toContain('one, two')
    expect((await runCommand(['lint', '--config', path])).code).toBe(2)
  })

  test('prints no secret', async () => {
    const server = await httpServer()
    const path = file({ upstreams: { one: { url: `${server.url}?api_key=pumpkin`, token: 'sesame' } } })
    const { stdout } = await runCommand(['lint', 'one', '--config', path])
    expect(stdout).toMatch(/^fail +C062 forbidden .*\n +the query contains api_key\n/m)
    expect(stdout).not.toMatch(/sesame|pumpkin/)
  })
})
