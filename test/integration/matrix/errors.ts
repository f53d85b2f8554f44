// Errors of a server keep their code and data, but for codes that the revision of the client has not. Clients have URL
// elicitation.
import { expect, it } from 'vitest'
import { type Reply, textOf } from '../../support/client/options.ts'
import { subject } from '../../support/matrix.ts'
import { mark, type Meeting } from '../../support/meeting.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { structured } from '../../support/structured-error.ts'

const url = 'https://example.com/sign-in'

/** The codes that a server error can have. */
const codes = [-32000, -32019, -32601, -32602, -32603, -32700, 7]

function failing(meeting: Meeting) {
  return (code: number, data?: unknown): Promise<Reply> =>
    meeting.call('error', { code, message: `code ${code}`, ...(data !== undefined && { data }) })
}

/** The status an error of this code has over HTTP. */
function statusOf(code: number, { isHttp, client }: Meeting): number {
  if (!isHttp) return 0
  return client.modern && code === -32601 ? 404 : 200
}

/** Of a server whose upstream has no features. */
export const unchangedErrors = subject('matrix/errors without features', (meeting) => {
  const fail = failing(meeting)

  it('forwards server errors with their message and data', async () => {
    for (const code of codes) {
      const reply = await fail(code, { why: [1, 'é'], code })
      expect(reply.error).toEqual({ code, message: `code ${code}`, data: { why: [1, 'é'], code } })
      expect(reply.status).toBe(statusOf(code, meeting))
    }
  })

  it('forwards an error without data', async () => {
    expect((await fail(-32000)).error).toEqual({ code: -32000, message: 'code -32000' })
  })

  it('forwards a tool failure unchanged', async () => {
    const reply = await meeting.call('fail')
    expect(reply.result).toMatchObject({ isError: true })
    expect(reply.result).not.toHaveProperty('error')
  })
})

export const errors = subject('matrix/errors', (meeting) => {
  const { client, server } = meeting
  const fail = failing(meeting)

  it('C178 forwards a server error as it is, and adds its classification for callers that ask for it', async () => {
    const KEY = 'dev.gatehouse/error'
    for (const code of codes) {
      const sent = { code, message: `code ${code}`, data: { why: [1, 'é'] } }
      const { error, status } = await fail(code, sent.data)
      expect(error).toEqual(sent)
      expect(status).toBe(statusOf(code, meeting))
      const asking = await meeting.request('tools/call', {
        name: 'error',
        arguments: sent,
        _meta: { [KEY]: true },
      })
      expect(asking.error).toMatchObject(sent)
      expect(structured({ ...asking.error, data: objectAt(asking.error?.['data'], KEY) })).toMatch(
        /^(UPSTREAM_ERROR|INVALID_INPUT|UNSUPPORTED_OPERATION)$/,
      )
    }
  })

  it('C178 adds its classification to an error without data', async () => {
    expect(structured((await fail(-32000)).error ?? {})).toBe('UPSTREAM_ERROR')
  })

  it('C135 forwards a tool failure as its result', async () => {
    const reply = await meeting.call('fail')
    const KEY = 'dev.gatehouse/error'
    const object = { code: 'UPSTREAM_ERROR', category: 'permanent', message: 'it failed' }
    expect(reply.result).toMatchObject({ isError: true })
    expect(reply.result).not.toHaveProperty('error')
    expect(objectAt(reply.result, '_meta')[KEY]).toMatchObject(object)
    expect(textOf(reply)).toBe('it failed')
    const asking = await meeting.request('tools/call', {
      name: 'fail',
      arguments: {},
      _meta: { [KEY]: true },
    })
    expect(asking.result).toMatchObject({ isError: true, error: object })
  })

  it('C146 C149 refuses arguments that the server would not accept', async () => {
    const reply = await meeting.call('error', { code: 'x' })
    expect(reply.result).toMatchObject({ isError: true, error: { code: 'INVALID_INPUT', field: 'code' } })
    expect(textOf(reply)).toContain('"code" must be')
  })

  it('reports an unknown tool or prompt', async () => {
    for (const method of ['tools/call', 'prompts/get']) {
      const reply = await meeting.request(method, { name: 'nothing' })
      expect({ method, ...reply.error }).toMatchObject({
        method,
        code: -32602,
        message: expect.stringContaining('nothing'),
      })
      expect(reply.status).toBe(meeting.isHttp ? 200 : 0)
    }
  })

  it("reports an unknown resource with the error code of the client's revision", async () => {
    const uri = 'fake://nothing'
    const reply = await meeting.request('resources/read', { uri })
    expect(reply.error).toMatchObject({ code: client.modern ? -32602 : -32002, data: { uri } })
    expect(reply.status).toBe(meeting.isHttp ? 200 : 0)
  })

  if (client.modern) {
    it('forwards no code that is reserved in 2026-07-28', async () => {
      const reply = await fail(-32050, { why: 1 })
      const upstream = { code: -32050, message: 'code -32050', data: { why: 1 } }
      expect(reply.error).toMatchObject({ code: -32603, message: 'code -32050', data: { upstream } })
      expect(Object(reply.error?.['data']).upstream).toEqual(upstream)
    })
  }

  if (server.modern) return
  it('replaces a code that 2026-07-28 clients must not receive', async () => {
    const reply = await fail(-32002, { uri: 'fake://gone' })
    expect(reply.error).toMatchObject({
      code: client.modern ? -32602 : -32002,
      message: 'code -32002',
      data: { uri: 'fake://gone' },
    })
  })

  if (!server.urlElicitation) return
  const elicitations = [{ mode: 'url', url, message: 'Sign in', elicitationId: 'one' }]
  if (!client.modern) {
    it('forwards a URL elicitation error', async () => {
      expect((await fail(-32042, { elicitations })).error).toMatchObject({
        code: -32042,
        data: { elicitations },
      })
    })
    return
  }

  it('requests URL elicitation if the server requires it by an error, and repeats the call', async () => {
    const other = await meeting.connect({ auto: false })
    const word = mark()
    const params = { name: 'error', arguments: { code: -32042, data: { elicitations }, word } }
    const first = await other.request('tools/call', params)
    expect(first.result).toMatchObject({ resultType: 'input_required' })
    const [[key, question] = []] = Object.entries(objectAt(first.result, 'inputRequests'))
    expect(question).toEqual({
      method: 'elicitation/create',
      params: { mode: 'url', url, message: 'Sign in' },
    })
    const inputResponses: Json = { [String(key)]: { action: 'accept' } }
    const requestState = first.result?.['requestState']
    await other.request('tools/call', { ...params, inputResponses, requestState })
    expect(meeting.seen().filter(({ text }) => text.includes(word))).toHaveLength(2)
  })

  it('reports the missing capability to a client without URL elicitation', async () => {
    const other = await meeting.connect({ capabilities: { elicitation: { form: {} } } })
    const params = { name: 'error', arguments: { code: -32042, data: { elicitations } } }
    const reply = await other.request('tools/call', params)
    expect(reply.error).toMatchObject({
      code: -32021,
      data: { requiredCapabilities: { elicitation: { url: {} } } },
    })
    if (meeting.isHttp) expect(reply.status).toBe(400)
  })
})
