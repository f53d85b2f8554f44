import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { runCommand, type RunningGateway, startGateway } from '../../support/gateway.ts'
import { configFile } from '../../support/gateway-with.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

const program = fileURLToPath(new URL('../../fixtures/context-server/main.ts', import.meta.url))
const command = [process.execPath, program]
const argument = (token: string): object => ({ _session_state: token })
const issues = {
  command,
  features: {
    confirm: { wait: 'off' },
    validate: { input: 'strict' },
    state: { remember: { '*': ['owner', 'repo'], delete_repo: ['owner'] }, transaction: 'on' },
  },
  tools: { create_issue: { undo: 'delete_repo(owner=$.args.owner, repo=$.args.repo)', idempotent: true } },
}

describe('the values of a session', () => {
  let folder: string
  let gateway: RunningGateway
  const tokens: string[] = []
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'gatehouse-state-'))
    gateway = await startGateway(
      {
        store: join(folder, 'store'),
        observe: { audit: join(folder, 'audit.jsonl'), metrics: 'on' },
        upstreams: {
          issues,
          models: { command, isolation: 'per_client', inject_arguments: 'on' },
          native: { command, env: { MODE: 'native' } },
          off: { command, env: { MODE: 'native' }, features: { state: 'off' } },
        },
      },
      { args: ['--log-level', 'debug'] },
    )
  })
  afterAll(async () => {
    await gateway.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })
  const client = (server: string): StatelessClient => new StatelessClient({ url: `${gateway.url}/${server}` })

  test('remembered arguments pass validation, and the audit log names them', async () => {
    const one = client('issues')
    const missing = await one.call('list_issues', { owner: 'acme' })
    expect(missing.fields).toMatchObject({ isError: true, error: { code: 'INVALID_INPUT' } })
    await one.call('list_issues', { owner: 'acme', repo: 'site' })
    const created = await one.call('create_issue', { title: 'New' })
    expect(created.seen).toMatchObject({ owner: 'acme', repo: 'site', title: 'New' })
    const lines = await until(() => {
      const found = auditLines(join(folder, 'audit.jsonl')).filter((line) => line['tool'] === 'create_issue')
      return found.length > 0 && found
    }, 'the audit line')
    expect(lines.at(-1)).toMatchObject({ remembered: ['owner', 'repo'] })
    tokens.push(String(one.state))
  })

  test('the list shows remembered arguments as optional, but not for a destructive tool', async () => {
    const { fields } = await client('issues').send('tools/list', {})
    const required = (fields['tools'] as { name: string; inputSchema: { required?: string[] } }[]).map(
      ({ name, inputSchema }) => [name, inputSchema.required],
    )
    expect(Object.fromEntries(required)).toMatchObject({
      list_issues: undefined,
      create_issue: ['title'],
      delete_repo: ['repo'],
    })
  })

  test('gatehouse explain names the arguments that a call may leave out', async () => {
    const file = await configFile({ upstreams: { issues } })
    onTestFinished(() => file.remove())
    const named = async (tool: string): Promise<string> =>
      (await runCommand(['explain', '--config', file.path, 'issues', tool])).stdout
    expect(await named('create_issue')).toMatch(/remembered +owner, repo /)
    expect(await named('delete_repo')).toMatch(/remembered +owner \(/)
    expect(await named('peek')).not.toContain('remembered ')
  })

  test('a confirmation says which arguments are remembered', async () => {
    const one = client('issues')
    await one.call('list_issues', { owner: 'acme', repo: 'site' })
    const asked = await one.call('delete_repo', { repo: 'site' })
    expect(asked.fields).toMatchObject({ isError: true })
    expect(asked.texts.join(' ')).toContain('Remembered from earlier calls: owner.')
    const refused = await one.call('delete_repo', {})
    expect(refused.fields, 'an argument that is not named for the tool').toMatchObject({
      error: { code: 'INVALID_INPUT' },
    })
  })

  test('a model gets a handle in words, and comes back with an argument', async () => {
    const one = client('models')
    const first = await one.call('count', {})
    const handle = /pass _session_state: "(st_[\w-]{22})"/.exec(first.texts.join(' '))?.[1] ?? ''
    tokens.push(handle)
    const again = await client('models').call('count', argument(handle) as Record<string, unknown>)
    expect(again.seen).toMatchObject({ pid: first.seen['pid'], count: 2 })
    expect(again.seen).not.toHaveProperty('_session_state')
    const { fields } = await client('models').send('tools/list', {})
    const [tool] = fields['tools'] as { inputSchema: { properties: object } }[]
    expect(tool?.inputSchema.properties).toHaveProperty('_session_state')
  })

  test('a server with a state of its own gets it back, sealed on the way', async () => {
    const one = client('native')
    await one.call('count')
    const second = await one.call('count')
    expect(second.seen).toMatchObject({ count: 2 })
    expect(second.fields['session_state']).not.toMatch(/^own-/)
    tokens.push(String(one.state))
    const foreign = await one.call('count', {}, { session_state: 'own-7' })
    expect(foreign.fields).toMatchObject({ isError: true, error: { code: 'INVALID_INPUT' } })
  })

  test('with the feature off, the state of a server passes unchanged', async () => {
    const one = client('off')
    const first = await one.call('count')
    expect(first.fields).toMatchObject({ session_state: 'own-1', state_changed: true })
  })

  test('calls of a session are steps of the transaction that it named', async () => {
    const one = client('issues')
    await one.call('list_issues', { owner: 'acme', repo: 'site' })
    const begun = await one.send('tools/call', {
      name: 'begin_transaction',
      arguments: { transaction_id: 'tx-1' },
    })
    expect(begun.fields).toMatchObject({ content: expect.any(Array) })
    expect(begun.fields).not.toHaveProperty('isError')
    await one.call('create_issue', { title: 'One' }, { transaction_id: 'tx-1' })
    await one.call('create_issue', { title: 'Two' })
    const status = await one.send('tools/call', {
      name: 'get_transaction',
      arguments: { transaction_id: 'tx-1' },
    })
    expect(status.fields['structuredContent']).toMatchObject({ steps: [{ status: 'ok' }, { status: 'ok' }] })
    tokens.push(String(one.state))
  })

  test('the gateway and its servers announce the extension where it is on', async () => {
    const { fields } = await client('issues').send('server/discover', {})
    expect(fields['capabilities']).toMatchObject({ extensions: { 'dev.gatehouse/session_state': {} } })
    const off = await client('off').send('server/discover', {})
    expect(off.fields['capabilities']).not.toMatchObject({
      extensions: { 'dev.gatehouse/session_state': {} },
    })
  })

  test('tokens are in no log line, no audit line and no metric', async () => {
    const bad = `st_${'Q'.repeat(22)}`
    await client('issues').call('peek', {}, { session_state: bad })
    tokens.push(bad)
    const metrics = await (await fetch(gateway.url.replace(/\/mcp$/, '/metrics'))).text()
    const outputs = [gateway.stderr(), JSON.stringify(auditLines(join(folder, 'audit.jsonl'))), metrics]
    expect(outputs[0]).toContain('"call"')
    expect(tokens.filter((token) => token.length > 20)).toHaveLength(5)
    for (const token of tokens)
      for (const text of outputs)
        for (const part of [token.slice(0, 24), token.slice(-24)]) expect(text).not.toContain(part)
  })
})
