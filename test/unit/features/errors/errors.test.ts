import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import {
  categories,
  type ErrorCode,
  errorCodes,
  GatewayError,
  isErrorCode,
} from '../../../../src/core/error.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import type { ErrorRule } from '../../../../src/core/settings.ts'
import { errors } from '../../../../src/features/errors/errors.ts'
import { encodeLegacyError, legacyErrorCode } from '../../../../src/protocol/legacy.ts'
import { annotateFailure } from '../../../../src/features/idempotency/completion.ts'
import { modernError } from '../../../../src/protocol/modern.ts'
import { featureDeps, type ServiceStubs, withTool } from '../../../support/feature-deps.ts'
import { toolCall } from '../../../support/tool-call.ts'
import { serverSettings } from '../../../support/server-settings.ts'

const KEY = 'dev.gatehouse/error'
const capabilities = { extensions: { [KEY]: {} } }
const declaring = { era: 'modern', revision: '2026-07-28', capabilities } as const

interface Given {
  readonly call?: Partial<Call>
  readonly rules?: readonly ErrorRule[]
  readonly outputSchema?: object
  readonly compat?: boolean | 'always'
  readonly hides?: boolean
  readonly deps?: ServiceStubs
}

/** The outcome of a call after the feature. */
function ended(end: () => Outcome, given: Given = {}): Promise<Outcome> {
  const { rules = [], outputSchema, compat = true } = given
  const reach = { kind: 'url', url: 'https://one.example/mcp', headers: {} } as const
  const server = serverSettings({ name: 'one', reach, trust: false, errors: rules })
  const entry: Descriptor = {
    upstream: 'one',
    kind: 'tool',
    name: 't',
    definition: { name: 't', ...(outputSchema && { outputSchema }) },
    classification: { op: 'write', risk: 'reversible', idempotent: false, evidence: [] },
  }
  const deps = featureDeps({ server: () => server, entry: () => entry, ...given.deps })
  const policy = withTool(
    errors.create(
      () => ({ retry: 2, compat, hide_details: given.hides ?? false, documentation_hosts: ['docs.example'] }),
      deps,
    ),
    deps,
  ).calls?.middleware
  const call = toolCall(given.call)
  const target = { ...call.target, method: call.method }
  const wrapped = policy?.(target)?.(async () => end())
  if (!wrapped) throw new Error('There is no policy')
  return wrapped(call)
}

async function resultOf(end: () => Outcome, given?: Given): Promise<Payload> {
  const outcome = await ended(end, given)
  if (outcome.kind === 'result') return outcome.result
  throw new Error('It asks')
}

function thrownBy(end: () => Outcome, given?: Given): Promise<GatewayError> {
  return ended(end, given).then(
    () => Promise.reject(new Error('It did not fail')),
    (error: unknown) => (error instanceof GatewayError ? error : Promise.reject(error)),
  )
}

function fails(error: GatewayError): () => Outcome {
  return () => {
    throw error
  }
}

function saying(text: string, more: object = {}): () => Outcome {
  const result = Payload.of({ content: [{ type: 'text', text }], isError: true, ...more })
  return () => ({ kind: 'result', result })
}

function relaying(code: number, message: string, data?: unknown): () => Outcome {
  const relayed = Payload.of({ code, message, ...(data !== undefined && { data }) })
  return fails(new GatewayError('UPSTREAM_ERROR', message, { relayed }))
}

function objectIn(result: Payload): Record<string, unknown> {
  const { _meta: meta } = result.fields
  const object = isObject(meta) ? meta['dev.gatehouse/error'] : undefined
  if (!isObject(object)) throw new Error('There is no structured error')
  return object
}

function expectWhole(object: unknown): void {
  expect(object).toMatchObject({ code: expect.stringMatching(/^[A-Z_]+$/), message: expect.any(String) })
  if (!isObject(object)) return
  expect(categories).toContain(object.category)
  expect(object.user_actionable).toBeTypeOf('boolean')
  const mustWait = object.category === 'transient' || object.category === 'rate_limited'
  const wait = object.retry_after_seconds
  if (mustWait || wait !== undefined)
    expect(wait).toSatisfy((each) => Number.isInteger(each) && Number(each) >= 0)
  expect(object.retryAfter).toBe(wait)
}

const inResults = new Set<string>([
  'RESOURCE_NOT_FOUND',
  'SCOPE_INSUFFICIENT',
  'PERMISSION_DENIED',
  'CONFLICT',
  'TRANSACTION_CONFLICT',
  'IDEMPOTENCY_CONFLICT',
  'IDEMPOTENCY_IN_PROGRESS',
  'OUTCOME_UNKNOWN',
  'COMPENSATION_UNAVAILABLE',
  'CONFIRMATION_REQUIRED',
  'CONFIRMATION_DECLINED',
  'CONFIRMATION_TOKEN_INVALID',
  'WRITES_PAUSED',
  'UPSTREAM_ERROR',
])

const rpcs: Partial<Record<ErrorCode, number>> = {
  PARSE_ERROR: -32700,
  INVALID_REQUEST: -32600,
  UNSUPPORTED_OPERATION: -32601,
  INVALID_INPUT: -32602,
  UNKNOWN_TOOL: -32602,
  RATE_LIMIT_EXCEEDED: -32003,
  QUOTA_EXHAUSTED: -32003,
  OPERATION_TIMEOUT: -32004,
  PAYLOAD_TOO_LARGE: -32005,
  SERVER_UNAVAILABLE: -32006,
  CONFLICT: -32007,
  TRANSACTION_CONFLICT: -32007,
  IDEMPOTENCY_CONFLICT: -32007,
  IDEMPOTENCY_IN_PROGRESS: -32007,
  SERVER_ERROR: -32603,
}

describe('every error code', () => {
  const codes = errorCodes.filter(isErrorCode)

  it.each(codes)('C178 %s is delivered as result or error, complete with all members', async (code) => {
    const end = fails(new GatewayError(code, 'No.', { suggestion: 'Stop.' }))
    if (inResults.has(code)) {
      const result = await resultOf(end)
      expect(result.fields).toMatchObject({
        isError: true,
        content: [{ type: 'text', text: expect.stringMatching(/^No\. /) }],
      })
      expectWhole(objectIn(result))
      expect(objectIn(result)).toMatchObject({ code, requestId: 'r1' })
      return
    }
    const error = await thrownBy(end)
    expect(error.code).toBe(code)
    expectWhole(error.data)
  })

  it.each(codes)('%s is a JSON-RPC error for methods other than tools/call', async (code) => {
    const call = { method: 'prompts/get', target: { method: 'prompts/get', upstream: 'one', name: 'p' } }
    const error = await thrownBy(fails(new GatewayError(code, 'No.')), { call })
    expect(error.code).toBe(code === 'UPSTREAM_ERROR' ? 'UPSTREAM_ERROR' : code)
    expectWhole(error.data)
    expectWhole(modernError(error, 'r1').fields.data)
  })

  it.each(Object.entries(rpcs))('C179 %s has the code %d', (code, rpc) => {
    expect(isErrorCode(code) && new GatewayError(code, 'No.').rpc).toBe(rpc)
  })

  it('C179 a missing resource has code -32002 before 2026-07-28', () => {
    const error = new GatewayError('RESOURCE_NOT_FOUND', 'No.')
    const request = { kind: 'request', id: '1', method: 'x/y', params: Payload.of({}) } as const
    expect(legacyErrorCode(request, error)).toBe(-32002)
    expect(encodeLegacyError(request, error, 'r1')).toContain('"code":-32002')
    expect(modernError(error).fields.code).toBe(-32602)
  })

  it('a missing client capability is code -32602 or a tool result for older clients', () => {
    const data = { requiredCapabilities: { sampling: {} } }
    const error = new GatewayError('CAPABILITY_REQUIRED', 'It asks a model.', { data })
    const told = (method: string): unknown =>
      JSON.parse(encodeLegacyError({ kind: 'request', id: '1', method, params: Payload.of({}) }, error, 'r1'))
    expect(told('prompts/get')).toMatchObject({ error: { code: -32602 } })
    const text = 'This tool requires a capability the client does not declare: sampling. It asks a model.'
    expect(told('tools/call')).toMatchObject({ result: { isError: true, content: [{ text }] } })
  })

  it('retry_after_seconds is a non-negative integer', () => {
    const wait = (retryAfterSeconds: number) =>
      new GatewayError('RATE_LIMIT_EXCEEDED', 'No.', { retryAfterSeconds }).data.retry_after_seconds
    expect([wait(0.2), wait(-5), wait(30), wait(Number.NaN), wait(Infinity)]).toEqual([1, 0, 30, 1, 1])
  })
})

describe('a failed tool result', () => {
  const saying = (sent: object) => (): Outcome => ({ kind: 'result', result: Payload.of({ ...sent }) })

  it('C178 a failed result receives no structured content the tool did not send', async () => {
    const failed = (): Outcome => ({
      kind: 'result',
      result: Payload.of({ content: [{ type: 'text', text: 'no such file' }], isError: true }),
    })
    const { fields } = await resultOf(failed, { call: { meta: { [KEY]: true } } })
    expect(fields).toMatchObject({ error: { code: expect.any(String) } })
    expect(fields).not.toHaveProperty('structuredContent')
  })

  const content = [{ type: 'text', text: 'no such file' }]
  const structuredContent = { reason: 'absent' }
  it.each<readonly [string, object]>([
    ['texts alone', { content, isError: true }],
    ['structured content', { content, structuredContent, isError: true }],
    ['its own error', { content, error: { code: 'X1' }, isError: true }],
  ])('a failed result with %s is unchanged apart from its classification in _meta', async (_what, sent) => {
    const { _meta: meta, ...rest } = (await resultOf(saying(sent))).fields
    expect(rest).toEqual(sent)
    expect(meta).toEqual({ [KEY]: expect.objectContaining({ code: expect.any(String), requestId: 'r1' }) })
  })

  it.each<readonly [string, Partial<Call>]>([
    ['declare it', { client: declaring }],
    ['request it', { meta: { [KEY]: true } }],
  ])('the error object is added for clients that %s', async (_what, call) => {
    const { error, _meta: meta } = (await resultOf(saying({ content, isError: true }), { call })).fields
    expect(error).toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
    expect(meta).toEqual({ [KEY]: error })
    const bare = await resultOf(saying({ content, isError: true }), { call, compat: false })
    expect(bare.fields).not.toHaveProperty('error')
  })
})

describe('a refused tool call', () => {
  const denied = fails(new GatewayError('PERMISSION_DENIED', 'No.'))

  it('C135 a refusal is stated as text, as structured content and as error object', async () => {
    const { fields } = await resultOf(denied)
    const object = { code: 'PERMISSION_DENIED', category: 'permanent', user_actionable: false }
    expect(fields).toMatchObject({ error: object, structuredContent: { error: object } })
  })

  it('C178 a refusal has no structured content if the tool declares an output schema', async () => {
    expect((await resultOf(denied, { outputSchema: { type: 'object' } })).fields).not.toHaveProperty(
      'structuredContent',
    )
    const failing = { entry: () => Promise.reject(new Error('no list')) }
    expect((await resultOf(denied, { deps: failing })).fields).not.toHaveProperty('structuredContent')
  })

  it('a refusal has no error object if compat is off', async () => {
    expect((await resultOf(denied, { compat: false })).fields).not.toHaveProperty('error')
  })

  it('C080 C081 a missing scope that the client can obtain remains an error', async () => {
    const lacking = fails(new GatewayError('SCOPE_INSUFFICIENT', 'No.'))
    expect(objectIn(await resultOf(lacking))).toMatchObject({
      category: 'auth_required',
      user_actionable: true,
    })
    const call = { principal: { id: 'ada', token: new Secret('x') } }
    expect(await thrownBy(lacking, { call })).toMatchObject({ code: 'SCOPE_INSUFFICIENT' })
  })

  it('a refusal is unchanged if the call was aborted', async () => {
    const signal = AbortSignal.abort(new GatewayError('CANCELLED', 'Gone.'))
    expect(await thrownBy(denied, { call: { signal } })).toMatchObject({ code: 'PERMISSION_DENIED' })
  })

  it('C147 an unexpected failure is hidden from the client and logged', async () => {
    const bug = new TypeError('secret')
    const end = (): Outcome => {
      throw bug
    }
    await expect(ended(end)).rejects.toBe(bug)
  })

  it('a refusal keeps its status and whether the call was sent', async () => {
    const error = new GatewayError('SERVER_UNAVAILABLE', 'connect ECONNREFUSED 10.0.0.1:80', {
      isUnsent: true,
    })
    expect(await thrownBy(fails(error))).toMatchObject({
      message: 'connect ECONNREFUSED [host]',
      extra: { isUnsent: true },
    })
  })
})

describe('classification of a failed tool result', () => {
  it.each([
    ['MCP error -32602: Tool nope not found', 'UNKNOWN_TOOL', 'invalid_input'],
    ['Rate limit reached, retry in 30 seconds', 'RATE_LIMIT_EXCEEDED', 'rate_limited'],
    ['the request timed out', 'OPERATION_TIMEOUT', 'transient'],
    ['Service Temporarily Unavailable', 'SERVER_UNAVAILABLE', 'transient'],
    ['connect ECONNREFUSED', 'SERVER_UNAVAILABLE', 'transient'],
    ['Request failed with status code 503', 'SERVER_UNAVAILABLE', 'transient'],
    ['Error 500', 'SERVER_UNAVAILABLE', 'transient'],
    ['Error: 502 (upstream)', 'SERVER_UNAVAILABLE', 'transient'],
    ['Internal Server Error', 'SERVER_UNAVAILABLE', 'transient'],
    ['Error: 500 characters is the maximum length of a title', 'UPSTREAM_ERROR', 'permanent'],
    ['Error 5000', 'UPSTREAM_ERROR', 'permanent'],
    ['the item is unavailable', 'UPSTREAM_ERROR', 'permanent'],
    ['ENOENT: no such file', 'RESOURCE_NOT_FOUND', 'permanent'],
    ['EACCES', 'PERMISSION_DENIED', 'permanent'],
    ['401 Unauthorized', 'AUTHENTICATION_REQUIRED', 'auth_required'],
    ['The token has expired', 'TOKEN_EXPIRED', 'auth_required'],
    ['"a" must be a number', 'INVALID_INPUT', 'invalid_input'],
    ['it broke', 'UPSTREAM_ERROR', 'permanent'],
  ])('the text "%s" is classified as %s', async (text, code, category) => {
    const result = await resultOf(saying(text))
    expect(result.fields.content).toEqual([{ type: 'text', text }])
    const message = text.replace('MCP error -32602: ', '')
    expect(objectIn(result)).toMatchObject({ code, category, message, requestId: 'r1' })
    expectWhole(objectIn(result))
  })

  it('the delay before a retry is read from the text', async () => {
    const wait = async (text: string) => objectIn(await resultOf(saying(text))).retry_after_seconds
    expect(await wait('Too many requests, retry in 30 seconds')).toBe(30)
    expect(await wait('rate limited; Retry-After: 7')).toBe(7)
    expect(await wait('rate limited')).toBe(1)
  })

  it('the classification states its source', async () => {
    expect(objectIn(await resultOf(saying('it broke'))).details).toEqual({ classified_by: 'default' })
  })

  it('configured rules have precedence', async () => {
    const rules = [
      { match: 'quota (exceeded|gone)', code: 'QUOTA_EXHAUSTED', retryAfter: 90_500, suggestion: 'Buy.' },
    ] as const
    expect(objectIn(await resultOf(saying('Quota exceeded: invalid'), { rules }))).toMatchObject({
      code: 'QUOTA_EXHAUSTED',
      category: 'rate_limited',
      retry_after_seconds: 91,
      suggestion: 'Buy.',
    })
  })

  it('rules with catastrophic backtracking are skipped without delay', async () => {
    const rules = [
      { match: '(?=x)', code: 'CONFLICT' },
      { match: '(a+)+$', code: 'CONFLICT' },
    ] as const
    const start = performance.now()
    expect(objectIn(await resultOf(saying(`${'a'.repeat(50_000)}!`), { rules })).code).toBe('UPSTREAM_ERROR')
    expect(performance.now() - start).toBeLessThan(2000)
  })

  it('a structured error of the tool is kept and completed', async () => {
    const own = {
      code: 'WIDGET_STUCK',
      category: 'transient',
      details: { widget: 7, at: '/srv/w' },
      documentation_url: 'https://docs.example/widgets',
    }
    for (const more of [{ error: own }, { structuredContent: { error: own } }]) {
      const object = objectIn(await resultOf(saying('stuck', more)))
      expect(object).toMatchObject({
        ...own,
        message: 'stuck',
        retry_after_seconds: 1,
      })
      expectWhole(object)
      const hidden = objectIn(await resultOf(saying('stuck', more), { hides: true }))
      expect(hidden).toMatchObject({ ...own, details: { widget: 7, at: '[path]' } })
    }
  })

  it("an error in the gateway's own format is sanitised as well", async () => {
    const own = { code: 'WIDGET_STUCK', category: 'transient', message: 'at /srv/w, password=hunter2' }
    const sent = { _meta: { 'dev.gatehouse/error': own } }
    const result = await resultOf(saying('open /srv/a/b failed', sent), { hides: true })
    expect(result.text).not.toMatch(/srv|hunter2/)
    expect(objectIn(result)).toMatchObject({ code: 'WIDGET_STUCK', retry_after_seconds: 1 })
    expectWhole(objectIn(result))
    const odd = saying('ENOENT: open /srv/a/b', { _meta: { 'dev.gatehouse/error': 7 } })
    const noObject = await resultOf(odd, { hides: true })
    expect(objectIn(noObject)).toMatchObject({ code: 'RESOURCE_NOT_FOUND', message: 'ENOENT: open [path]' })
  })

  it('the approval link of a gateway behind this one is kept', async () => {
    const text = 'Approve it at http://127.0.0.1:8900/confirm/1'
    const error = { code: 'CONFIRMATION_REQUIRED', category: 'permanent', message: text }
    const meta = { 'dev.gatehouse/error': error, 'dev.gatehouse/confirmation': { approval: '1' } }
    expect((await resultOf(saying(text, { _meta: meta }))).fields.content).toEqual([{ type: 'text', text }])
  })

  it.each([
    'http://docs.example/x',
    'https://evil.example/x',
    'https://a:b@docs.example/',
    'javascript:1',
    7,
  ])('a documentation_url is removed if it is %s', async (url) => {
    const error = { code: 'A', category: 'permanent', documentation_url: url }
    expect(objectIn(await resultOf(saying('no', { error })))).not.toHaveProperty('documentation_url')
  })

  it("a documentation_url on the server's own host is kept", async () => {
    const error = { code: 'A', category: 'permanent', documentation_url: 'https://help.one.example/x' }
    expect(objectIn(await resultOf(saying('no', { error })))).toHaveProperty('documentation_url')
  })

  const telling = 'open /srv/a/b failed, password=hunter2, db.internal'

  it('C182 C183 C185 secrets, paths and hosts are removed if details are hidden', async () => {
    const result = await resultOf(saying(telling), { hides: true })
    expect(result.text).not.toMatch(/srv|hunter2|db\.internal/)
  })

  it('a failed result always has text if details are hidden, whatever the tool sent', async () => {
    for (const content of [undefined, [], [{ type: 'image', data: 'x', mimeType: 'y' }]]) {
      const { fields } = await resultOf(saying('', { content }), { hides: true })
      expect(fields.content).toEqual(expect.arrayContaining([{ type: 'text', text: 'The tool failed.' }]))
    }
  })

  it.each([
    `{"content":[{"type":"text","text":"${telling}"}],"isError":true,"n":1.0}`,
    '{"isError":true,"content":[]}',
    '{"isError":true,"content":[{"type":"image","data":"x","mimeType":"y"}],"structuredContent":{"password":"p"}}',
    '{"isError":true,"error":null,"_meta":{"a":1.0}}',
  ])('a failed result stays as its server sent it, beside the structured error: %s', async (text) => {
    const told = await resultOf(() => ({ kind: 'result', result: Payload.text(text) }))
    expectWhole(objectIn(told))
    expect(told.withMeta({ 'dev.gatehouse/error': undefined }).value).toEqual(JSON.parse(text))
    const ours = JSON.stringify(told.fields['_meta']).slice(1, -1)
    expect(told.text).toContain(text.includes('_meta') ? '"a":1.0' : text.slice(1, -1))
    expect(ours).toContain('requestId')
  })

  it('a classified result of this request is not classified again', async () => {
    const meta = { 'dev.gatehouse/error': { code: 'CONFIRMATION_REQUIRED', requestId: 'r1' } }
    const { fields } = await resultOf(saying('confirm /srv/x', { _meta: meta }))
    expect(fields).toMatchObject({ _meta: meta, content: [{ text: 'confirm /srv/x' }] })
    expect(fields).not.toHaveProperty('error')
  })

  it.each([
    '{"content":[{"type":"text","text":"/srv/a/b password=x"}],"n":1.0}',
    '{"content":[],"isError":false}',
    '{"content":[],"isError":null}',
    '{"content":[],"isError":"no"}',
    '{"resultType":"task","taskId":"1"}',
    '{"resultType":"input_required","inputRequests":{}}',
  ])('a result of a tool that did not fail, or an incomplete result, is unchanged: %s', async (text) => {
    const result = Payload.text(text)
    expect((await resultOf(() => ({ kind: 'result', result }))).text).toBe(text)
  })
})

describe('a JSON-RPC error of a server', () => {
  it.each([
    [-32602, 'bad', 'INVALID_INPUT'],
    [-32602, 'Tool x not found', 'UNKNOWN_TOOL'],
    [-32601, 'no', 'UNSUPPORTED_OPERATION'],
    [-32002, 'no', 'RESOURCE_NOT_FOUND'],
    [-32021, 'no', 'CAPABILITY_REQUIRED'],
    [-32603, 'rate limit', 'UPSTREAM_ERROR'],
    [7, 'no', 'UPSTREAM_ERROR'],
  ])('code %d (%s) is classified as %s', async (rpc, message, code) => {
    const error = await thrownBy(relaying(rpc, message))
    expect(error).toMatchObject({ code, rpc })
    expect(error.extra.relayed?.fields).toMatchObject({ code: rpc, message, data: { code, requestId: 'r1' } })
    expectWhole(error.extra.relayed?.fields.data)
  })

  it('the data of the server is kept', async () => {
    const data = { why: [1, 'é'], requiredCapabilities: { roots: {} } }
    const error = await thrownBy(relaying(-32021, 'no', data))
    expect(error.extra.relayed?.fields.data).toMatchObject(data)
  })

  it('data that is not an object stays as it is', async () => {
    for (const data of [['a'], 'a', null, 0]) {
      const error = await thrownBy(relaying(-32000, 'no', data))
      expect(error.extra.relayed?.value).toEqual({ code: -32000, message: 'no', data })
    }
  })

  it.each([{ code: 7, why: 1 }, { why: 1 }, { uri: 'a:b' }, {}])(
    'data %j has the structured error for callers that ask for it alone',
    async (data) => {
      const end = relaying(-32000, 'no', data)
      expect((await thrownBy(end)).extra.relayed?.fields.data).toEqual(data)
      const error = await thrownBy(end, { call: { meta: { [KEY]: true } } })
      const { [KEY]: object, ...rest } = { ...Object(error.extra.relayed?.fields.data) }
      expect(rest).toEqual(data)
      expectWhole(object)
    },
  )

  it('the message, the code and other members stay as they are', async () => {
    for (const code of [0, 123456789, -2147483649]) {
      const relayed = Payload.of({ code, message: 'MCP error 7: at /srv/x', more: null })
      const error = await thrownBy(fails(new GatewayError('UPSTREAM_ERROR', 'at /srv/x', { relayed })))
      expect(error.extra.relayed?.with({ data: undefined }).value).toEqual(relayed.value)
    }
  })

  it.each([
    ['none', undefined, undefined],
    ['some', { why: 1 }, { why: 1 }],
    ['conflicting data', { code: 7 }, { code: 7 }],
    ['a string', 'why', 'why'],
  ])(
    'an error code that 2026-07-28 clients cannot receive is reported under upstream, with data: %s',
    async (_what, data, own) => {
      const error = await thrownBy(relaying(-32050, 'no', data))
      expect(modernError(error, 'r1').value).toMatchObject({ code: -32603, data: { code: 'UPSTREAM_ERROR' } })
      const { upstream, requestId } = modernError(error, 'r1').fields.data as Record<string, unknown>
      expect(requestId).toBe('r1')
      expect(upstream).toEqual({ code: -32050, message: 'no', ...(own !== undefined && { data: own }) })
      expect(modernError(error, 'r1').text.match(/"data":/g)).toHaveLength(own === undefined ? 1 : 2)
    },
  )

  it('idempotency members are not attributed to the server', async () => {
    const said = { idempotency_key: 'k', was_replay: false }
    const relayed = Payload.of({ code: -32050, message: 'no' })
    const failure = new GatewayError('UPSTREAM_ERROR', 'no', { relayed })
    const about = { key: 'k', wasReplay: false, startedAt: 0 }
    const error = await thrownBy(fails(annotateFailure(failure, about) as GatewayError))
    expect(modernError(error).value).toMatchObject({ data: said })
    const { upstream } = modernError(error).fields.data as { upstream: unknown }
    expect(upstream).toEqual({ code: -32050, message: 'no' })
  })

  it('a structured error of the server is kept', async () => {
    const data = { code: 'CONFLICT', category: 'permanent', reason: 'held' }
    const error = await thrownBy(relaying(-32000, 'no', data))
    expect(error.code).toBe('CONFLICT')
    expect(error.extra.relayed?.fields.data).toMatchObject(data)
    expectWhole(error.extra.relayed?.fields.data)
  })

  it('the missing resource is named', async () => {
    const call = {
      method: 'resources/read',
      params: Payload.of({ uri: 'a:b' }),
      target: { method: 'resources/read' },
    }
    const error = await thrownBy(relaying(-32002, 'no'), { call })
    expect(error.extra.relayed?.fields.data).toMatchObject({ code: 'RESOURCE_NOT_FOUND', uri: 'a:b' })
    const named = await thrownBy(relaying(-32602, 'no', { uri: 'a:b' }), { call })
    expect(named.extra.relayed?.fields.data).toMatchObject({ code: 'RESOURCE_NOT_FOUND', uri: 'a:b' })
    const more = await thrownBy(relaying(-32602, 'no', { uri: 'a:b', why: 1 }), { call })
    expect(more.extra.relayed?.fields.data).toEqual({ uri: 'a:b', why: 1 })
  })

  it('data without a URI says nothing about a resource', async () => {
    const error = await thrownBy(relaying(-32602, 'no', { why: 1 }))
    expect(error.code).not.toBe('RESOURCE_NOT_FOUND')
    expect(error.extra.relayed?.fields).toMatchObject({ code: -32602, data: { why: 1 } })
  })

  it('C181 C182 C186 stack traces, secrets and internal details are removed if details are hidden', async () => {
    const error = await thrownBy(
      relaying(-32603, 'no\n    at f (/a/b.js:1:2)', {
        stack: 'Error\n    at f (/a/b.js:1:2)',
        token: 'Bearer abcdefgh1234',
      }),
      { hides: true },
    )
    expect(error.message).toBe('no')
    expect(error.extra.relayed?.text).not.toMatch(/b\.js|abcdefgh/)
  })

  it('a URL elicitation error is passed on unchanged', async () => {
    const data = { elicitations: [{ url: 'http://localhost:3000/a' }] }
    const end = relaying(-32042, 'visit', data)
    expect((await thrownBy(end)).extra.relayed?.fields.data).toEqual(data)
  })
})

describe('an HTTP status of the server', () => {
  const answering = (status: number, extra: object = {}) =>
    fails(
      new GatewayError('UPSTREAM_ERROR', `The server answered HTTP ${status}.`, {
        details: { http_status: status },
        ...extra,
      }),
    )

  it.each([
    [401, 'SERVER_UNAVAILABLE', 'permanent'],
    [413, 'PAYLOAD_TOO_LARGE', 'invalid_input'],
    [422, 'INVALID_INPUT', 'invalid_input'],
    [429, 'RATE_LIMIT_EXCEEDED', 'rate_limited'],
    [503, 'SERVER_UNAVAILABLE', 'transient'],
  ])('status %d is classified as %s', async (status, code, category) => {
    expect(await thrownBy(answering(status))).toMatchObject({ code, category })
  })

  it.each([
    [403, 'PERMISSION_DENIED'],
    [404, 'RESOURCE_NOT_FOUND'],
    [409, 'CONFLICT'],
    [400, 'UPSTREAM_ERROR'],
  ])('status %d is classified as %s in a tool result', async (status, code) => {
    expect(objectIn(await resultOf(answering(status)))).toMatchObject({
      code,
      details: { http_status: status },
    })
  })

  it('the Retry-After of the server is adopted', async () => {
    const error = await thrownBy(answering(429, { retryAfterSeconds: 12 }))
    expect(error.data).toMatchObject({ retry_after_seconds: 12, retryAfter: 12 })
  })
})

describe('arbitrary errors of a server', () => {
  it('any error becomes a complete error object', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), fc.integer(), fc.string(), async (data, code, message) => {
        fc.pre(code !== -32042)
        const error = await thrownBy(relaying(code, message, data))
        expect(error.extra.relayed?.fields.data).toEqual(data)
        const result = await resultOf(saying(message, { error: data, structuredContent: data }))
        expectWhole(objectIn(result))
      }),
      {
        numRuns: 50,
        examples: [
          [{ '': null }, 0, ''],
          [{ constructor: null }, -32602, ''],
        ],
      },
    )
  })
})

describe('compat: always', () => {
  const given = { compat: 'always' } as const

  it('puts the error of every failed result and of every refusal at `error`, for clients that never asked', async () => {
    const failed = await resultOf(saying('Error 500'), given)
    expect(failed.fields.error).toEqual(objectIn(failed))
    expect((await resultOf(saying('Error 500'))).fields).not.toHaveProperty('error')
    for (const code of [
      'UNKNOWN_TOOL',
      'SCOPE_INSUFFICIENT',
      'RATE_LIMIT_EXCEEDED',
      'SERVER_UNAVAILABLE',
    ] as const) {
      const principal = { id: 'me', token: new Secret('a-token'), scopes: new Set<string>() }
      const refused = await resultOf(fails(new GatewayError(code, 'No.')), { ...given, call: { principal } })
      expect(refused.fields).toMatchObject({ isError: true, error: { code } })
    }
  })

  it('keeps the code and the data of an error that a server sent', async () => {
    const data = { field: 'id', allowed: [1] }
    const { fields } = await resultOf(relaying(-32602, 'Invalid id', data), given)
    expect(fields.error).toMatchObject({
      code: 'INVALID_INPUT',
      details: { upstream: { code: -32602, data } },
    })
  })

  it('leaves errors after which a client has to act', async () => {
    for (const code of ['AUTHENTICATION_REQUIRED', 'CAPABILITY_REQUIRED'] as const)
      expect((await thrownBy(fails(new GatewayError(code, 'No.')), given)).code).toBe(code)
    expect((await thrownBy(relaying(-32021, 'Needed', { requiredCapabilities: {} }), given)).code).toBe(
      'CAPABILITY_REQUIRED',
    )
  })
})
