import { describe, expect, test } from 'vitest'
import type { Call, Handler } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import type { ServerRecord } from '../../../../src/core/descriptor.ts'
import { SkillRelay } from '../../../../src/features/describing/skills.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { serverRecord } from '../../../support/server-record.ts'
import { toolCall } from '../../../support/tool-call.ts'

const digest = `sha256:${'0'.repeat(64)}`
const skill = {
  uri: 'skill://acme/git/SKILL.md',
  frontmatter: { name: 'git', description: 'Works with git.' },
  resources: [{ uri: 'skill://acme/git/SKILL.md', digest, size: 3 }],
}
const moved = {
  ...skill,
  uri: 'skill://hub/acme/git/SKILL.md',
  resources: [{ uri: 'skill://hub/acme/git/SKILL.md', digest, size: 3 }],
}

function bench(server: Handler) {
  const asked: Call[] = []
  const record = (name: string): ServerRecord => {
    const extensions = { 'io.modelcontextprotocol/skills': {} }
    return serverRecord({ name, capabilities: name === 'hub' ? { extensions } : {} })
  }
  const deps = featureDeps({
    servers: () => ['files', 'hub'],
    records: () => ({
      names: [],
      of: record,
      last: record,
      renew: () => undefined,
      onChange: () => undefined,
    }),
    relay: (call) => {
      asked.push(call)
      return server(call)
    },
  })
  return { relay: new SkillRelay(deps), asked }
}

const listing: Handler = async ({ method, params }) => {
  if (method === 'resources/read')
    return { kind: 'result', result: Payload.of({ contents: [{ uri: params.fields.uri, text: 'abc' }] }) }
  if (method === 'skills/get') return { kind: 'result', result: Payload.of({ skill }) }
  return { kind: 'result', result: Payload.of({ skills: [skill, { uri: 1 }] }) }
}

const of = (method: string, upstream?: string, params = {}): Call =>
  toolCall({
    method,
    params: Payload.of(params),
    target: { method, ...(upstream !== undefined && { upstream }) },
  })

describe('skills published by a server', () => {
  test('names in an aggregate have the server name as prefix', async () => {
    const { relay, asked } = bench(listing)
    expect(await relay.list(of('skills/list'))).toEqual([moved])
    expect(asked.map(({ target }) => target)).toEqual([{ method: 'skills/list', upstream: 'hub' }])
  })

  test('names at the endpoint of the server are unchanged', async () => {
    expect(await bench(listing).relay.list(of('skills/list', 'hub'))).toEqual([skill])
  })

  test('a skill is found by its exposed URI', async () => {
    const { relay, asked } = bench(listing)
    expect(await relay.get(of('skills/get'), moved.uri)).toEqual(moved)
    expect(asked[0]?.params.fields.uri).toBe(skill.uri)
    expect(await relay.get(of('skills/get'), 'skill://files/acme/git/SKILL.md')).toBeUndefined()
    expect(await relay.get(of('skills/get'), 'skill://hub/SKILL.md')).toBeUndefined()
  })

  test('skill files are read from the server under the requested URI', async () => {
    const { relay, asked } = bench(listing)
    expect(relay.files.matches?.(moved.uri)).toBe(true)
    expect(relay.files.matches?.('skill://hub/SKILL.md')).toBe(false)
    const outcome = await relay.files.handle(of('resources/read', undefined, { uri: moved.uri }))
    expect(outcome).toMatchObject({ kind: 'result' })
    expect(outcome.kind === 'result' && outcome.result.fields.contents).toEqual([
      { uri: moved.uri, text: 'abc' },
    ])
    expect(asked[0]?.target).toEqual({ method: 'resources/read', upstream: 'hub', name: skill.uri })
  })

  test('a skill is missing if its server says so, and not if its server fails', async () => {
    const answering = (extra: object): Handler => {
      return () => Promise.reject(new GatewayError('INVALID_INPUT', 'No.', extra))
    }
    const refusing = bench(answering({ relayed: Payload.of({ code: -32602, message: 'No.' }) })).relay
    expect(await refusing.get(of('skills/get'), moved.uri)).toBeUndefined()
    const failing = bench(answering({})).relay
    await expect(failing.get(of('skills/get'), moved.uri)).rejects.toThrow('No.')
  })

  test('skills are omitted if their server fails or never ends its list', async () => {
    const failing: Handler = async () => {
      throw new GatewayError('SERVER_UNAVAILABLE', 'It is away.')
    }
    expect(await bench(failing).relay.list(of('skills/list'))).toEqual([])
    const endless: Handler = async () => ({
      kind: 'result',
      result: Payload.of({ skills: [skill], nextCursor: 'more' }),
    })
    const { relay, asked } = bench(endless)
    expect(await relay.list(of('skills/list'))).toHaveLength(100)
    expect(asked).toHaveLength(100)
  })
})
