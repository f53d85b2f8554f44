// The conformance suite against published servers, and proof that its checks can fail: against broken servers, and with
// gateways in which one line is different.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { canary } from '../../support/five-servers.ts'
import { foreignFile } from '../../support/foreign.ts'
import { runCommandProcess } from '../../support/gateway-process.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { type Mutation, mutated } from '../../support/mutation.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { isObject, type Json } from '../../support/server/json.ts'
import { variantsOf } from '../../support/soak.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-conformance-'))
const broken = join(import.meta.dirname, '../../fixtures/broken-server/main.ts')
const filesystem = publishedServer('@modelcontextprotocol/server-filesystem', root)
afterAll(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }))

async function conformance(config: Json, run: typeof runCommand = runCommand): Promise<Finished> {
  const { path, remove } = await configFile({ store: 'memory', ...config })
  try {
    return await run(['conformance', '--json', '--config', path])
  } finally {
    await remove()
  }
}

/** The ids of the checks with a status. */
function idsOf(report: unknown, status: string): readonly string[] {
  const results: readonly unknown[] =
    isObject(report) && Array.isArray(report['results']) ? report['results'] : []
  return results.flatMap((each) =>
    isObject(each) && each['status'] === status ? [String(each['test_id'])] : [],
  )
}

describe('published servers', () => {
  let finished: Finished
  let reports: readonly unknown[] = []
  beforeAll(async () => {
    finished = await conformance({
      features: { references: 'on' },
      upstreams: {
        everything: { command: publishedServer(everything) },
        files: { command: filesystem },
        memory: {
          command: publishedServer('@modelcontextprotocol/server-memory'),
          env: { MEMORY_FILE_PATH: join(root, 'memory.jsonl') },
        },
        thinking: { command: publishedServer('@modelcontextprotocol/server-sequential-thinking') },
        notion: {
          command: [process.execPath, foreignFile('@notionhq/notion-mcp-server/bin/cli.mjs')],
          env: { NOTION_TOKEN: canary },
        },
      },
    })
    reports = JSON.parse(finished.stdout).reports
  })

  it.each([
    ['everything', 66, 2],
    ['files', 66, 2],
    ['memory', 66, 2],
    ['thinking', 63, 5],
  ])('%s passes %i checks, and %i do not apply', (name, passed, skipped) => {
    const report = reports.find((each) => isObject(each) && each['server_name'] === name)
    expect(report).toMatchObject({ summary: { passed, failed: 0, skipped, errors: 0 } })
  })

  it('notion, whose token is not valid, fails no check of the gateway, and its token is in no report', () => {
    const report = reports.find((each) => isObject(each) && each['server_name'] === 'notion')
    expect(idsOf(report, 'passed').length).toBeGreaterThan(60)
    expect(idsOf(report, 'failed').filter((id) => id !== 'CONF-1107')).toEqual([])
    expect(`${finished.stdout}${finished.stderr}`).not.toContain(canary)
  })
})

describe('a broken server', () => {
  it.each([
    ['none', []],
    ['list is no array', ['CONF-005']],
    ['two tools of one name', ['CONF-005']],
    ['schema of a text', ['CONF-005']],
    ['name of a tool is a number', ['CONF-005']],
    ['content is a text', ['CONF-1107']],
    ['block without a type', ['CONF-1107']],
    ['output does not match', ['CONF-1107']],
    ['exits', ['CONF-1107']],
  ])('is found: %s', async (fault, ids) => {
    const server = { command: [process.execPath, broken, fault] }
    const { stdout, code } = await conformance({ upstreams: { server } })
    expect(idsOf(JSON.parse(stdout), 'failed')).toEqual(expect.arrayContaining(ids))
    expect(code).toBe(ids.length === 0 ? 0 : 1)
  })
})

const mutations: readonly (readonly [what: string, found: string, mutation: Mutation])[] = [
  [
    'the key of one caller is the key of all',
    'CONF-0504',
    {
      file: 'records/calls.js',
      find: 'return `${callCollection(principal)}/${upstream}:${key}`;',
      replace: "return `${callCollection('all')}/${upstream}:${key}`;",
    },
  ],
  [
    'a key fits other arguments',
    'CONF-0502',
    {
      file: 'records/calls.js',
      find: 'return canonicalHash({ ...context, tool, arguments: given ?? {} });',
      replace: "return canonicalHash('same');",
    },
  ],
  [
    'a replay is not marked',
    'CONF-0501',
    {
      file: 'features/idempotency/completion.js',
      find: 'was_replay: wasReplay,',
      replace: 'was_replay: false,',
    },
  ],
  [
    'scopes are not required',
    'CONF-003',
    {
      file: 'features/permissions/gate.js',
      find: 'const missing = missingScopes(requirement, scopes);',
      replace: 'const missing = [];',
    },
  ],
  [
    'a confirmation is valid for other arguments',
    'CONF-0603',
    {
      file: 'features/confirm/request.js',
      find: 'digest: canonicalHash([call.principal.id, entry.upstream, entry.name, identity]),',
      replace: 'digest: canonicalHash([call.principal.id, entry.upstream, entry.name]),',
    },
  ],
  [
    'nothing is confirmed',
    'CONF-0601',
    {
      file: 'features/confirm/policy.js',
      find: 'entry && needsConfirmation(rule, entry, call)',
      replace: 'false',
    },
  ],
  [
    'steps are undone in their order',
    'CONF-0511',
    {
      file: 'features/transactions/rollback.js',
      find: 'index <= pivot })).toReversed();',
      replace: 'index <= pivot }));',
    },
  ],
  [
    'a session state is valid for another caller',
    'CONF-1402',
    {
      file: 'features/state/session.js',
      find: 'JSON.stringify([principal.id, target.upstream])',
      replace: 'JSON.stringify([target.upstream])',
    },
  ],
  [
    'stack frames are passed on',
    'CONF-1106',
    {
      file: 'features/errors/sanitise.js',
      find: 'withoutSecrets(withoutFrames(text))',
      replace: 'withoutSecrets(text)',
    },
  ],
  [
    'a rate is not applied',
    'CONF-0302',
    { file: 'features/rate-limit.js', find: 'if (!taken.isGranted)', replace: 'if (false)' },
  ],
  [
    'arguments are refused that the server would have to judge',
    'CONF-1102',
    { file: 'features/validate/validate.js', find: "if (input === 'strict')", replace: 'if (true)' },
  ],
  [
    'a reference exists for another caller',
    'CONF-0903',
    { file: 'records/references.js', find: '${callerHash(id)}:${reference}`', replace: 'all:${reference}`' },
  ],
  [
    'a tool is missing in the manifest',
    'CONF-0101',
    {
      file: 'descriptions/formats/manifest.js',
      find: 'tools.map(manifestTool)',
      replace: 'tools.slice(1).map(manifestTool)',
    },
  ],
  [
    'the time to wait is not read',
    'CONF-1105',
    { file: 'core/failure.js', find: 'retryAfterSeconds: secondsIn(start)', replace: 'retryAfterSeconds: 1' },
  ],
]

/** Every third of them in the ordinary run. */
const tried = variantsOf(mutations, (_each, index) => index % 3 === 0)

describe('a gateway in which one line is different', () => {
  it.each(tried)('is found: %s', async (_what, id, mutation) => {
    const features = { references: 'on', errors: { hide_details: true } }
    const config = { features, upstreams: { files: { command: filesystem } } }
    const { stdout, code } = await conformance(config, (args) => runCommandProcess(args, mutated(mutation)))
    expect(idsOf(JSON.parse(stdout), 'failed')).toContain(id)
    expect(code).toBe(1)
  })
})
