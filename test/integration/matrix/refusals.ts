// What the client cannot answer is refused to the server, or reported to the client, in the way of either revision.
import { expect, it } from 'vitest'
import { type Answers, textOf } from '../../support/client/options.ts'
import { type Pair, subject } from '../../support/matrix.ts'
import { mark, type Meeting } from '../../support/meeting.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { traitsOf } from '../../support/server/revisions.ts'

/** Of a client without capabilities. */
export const missingCapabilities = subject('matrix/refusals without capabilities', (meeting) => {
  const { server } = meeting

  it('reports the missing capability of a tool, in its result or in an error', async () => {
    await refuses(meeting, 'ask_sampling', { sampling: {} })
    await refuses(meeting, 'ask_roots', { roots: {} })
    if (server.elicitation) await refuses(meeting, 'ask_form', { elicitation: { form: {} } })
    if (server.urlElicitation) await refuses(meeting, 'ask_url', { elicitation: { url: {} } })
    expect(meeting.connected.asked).toEqual([])
  })

  it('reports the missing capability of a prompt or resource in an error', async () => {
    const requiredCapabilities = server.elicitation ? { elicitation: { form: {} } } : { roots: {} }
    for (const [method, params] of askingRequests) {
      const { error, status } = await meeting.request(method, params)
      expect(error).toMatchObject({
        code: codeOf(meeting),
        message: expect.stringMatching(/elicitation|roots/),
      })
      if (server.modern) expect(error).toMatchObject({ data: { requiredCapabilities } })
      if (meeting.isHttp) expect(status).toBe(server.modern && meeting.client.modern ? 400 : 200)
    }
  })
})

/** Of a client with roots that the configuration does not forward. */
export const rootsNotForwarded = subject(
  'matrix/refusals of roots',
  (meeting) => {
    it('declares no roots to a server that could ask at any time', async () => {
      const own = await meeting.connect({ answers: rootsAt('file:///home') })
      const reply = await own.request('tools/call', { name: 'ask_roots', arguments: {} })
      expect(reply.result).toMatchObject({ isError: true })
      expect(textOf(reply)).toContain('roots')
      const opened = meeting.seen().filter(({ message }) => message?.['method'] === 'initialize')
      expect(opened.length).toBeGreaterThan(0)
      for (const { message } of opened) {
        expect(objectAt(objectAt(message, 'params'), 'capabilities')).not.toHaveProperty('roots')
      }
    })
  },
  isAskedAnyTime,
)

/** Of a server that requests the roots before the first call. */
export const rootsRequestedFirst = subject(
  'matrix/refusals of no roots',
  (meeting) => {
    it('gets the roots from the first client that can be asked, however short its call', async () => {
      // Each set of client capabilities has its own connection, which asks once.
      const word = mark()
      const from = meeting.seen().length
      const capabilities = { roots: {}, experimental: { [word]: {} } }
      const other = await meeting.connect({ capabilities, answers: rootsAt(`file:///${word}`) })
      const reply = await other.request('tools/call', { name: 'echo', arguments: { word } })
      expect(textOf(reply)).toBe(JSON.stringify({ word }))
      await meeting.until(({ text }) => text.includes(`file:///${word}`), from)
      expect(other.asked).toHaveLength(1)
    })
  },
  isAskedAnyTime,
)

const askingRequests: readonly (readonly [string, Json])[] = [
  ['prompts/get', { name: 'asking' }],
  ['resources/read', { uri: 'fake://asking' }],
]

/** Servers of 2026-07-28 ask nothing outside a call. */
function isAskedAnyTime({ client, server }: Pair): boolean {
  return !traitsOf(server.revision).modern && client.transport !== 'stdio'
}

function rootsAt(uri: string): Answers {
  return { 'roots/list': () => ({ roots: [{ uri }] }) }
}

function codeOf({ client, server }: Meeting): number {
  if (!server.modern) return -32603
  return client.modern ? -32021 : -32602
}

/** A tool's refusal: the text of the server, or the error of 2026-07-28. */
async function refuses(meeting: Meeting, tool: string, requiredCapabilities: Json): Promise<void> {
  const { client, server } = meeting
  const [needed = ''] = Object.keys(requiredCapabilities)
  const reply = await meeting.call(tool)
  if (!client.modern || !server.modern) {
    expect(reply.result).toMatchObject({ isError: true })
    expect(textOf(reply)).toContain(needed)
    return
  }
  expect(reply.error).toMatchObject({ code: -32021, data: { requiredCapabilities } })
  if (meeting.isHttp) expect(reply.status).toBe(400)
}
