// Every step of a call reaches the client that requested progress, with the token of that client.
import { expect, it } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import { subject } from '../../support/matrix.ts'
import { mark, type Meeting } from '../../support/meeting.ts'
import { type Id, type Json, objectAt } from '../../support/server/json.ts'

export const progress = subject('matrix/progress', (meeting) => {
  const { client, server, kinds } = meeting

  it("sends every progress step with the client's token, before the response", async () => {
    for (const token of ['täg "1"', 0, 77]) {
      const { reply, heard } = await slowly(meeting, token)
      expect(textOf(reply)).toBe('took 4 steps')
      expect(heard).toEqual([1, 2, 3, 4].map((step) => stepOf(token, step)))
    }
  })

  it('adds the completed part and the id of the operation to each step', async () => {
    const { reply, added } = await slowly(meeting, mark())
    const id = String(added[0]?.['operation_id'])
    expect(id).toMatch(/^[\w-]{40,200}$/)
    expect(added).toMatchObject(
      [0.25, 0.5, 0.75, 1].map((progress) => ({ type: 'progress', progress, operation_id: id })),
    )
    expect(objectAt(Object(reply.result), '_meta')['dev.gatehouse/operation_id']).toBe(id)
  })

  it('gives the server its own progress token', async () => {
    const token = mark()
    const { word } = await slowly(meeting, token)
    const { message } = await meeting.until(({ text }) => text.includes(word))
    const seen = objectAt(objectAt(message, 'params'), '_meta')['progressToken']
    expect(['string', 'number']).toContain(typeof seen)
    expect(seen).not.toBe(token)
  })

  it('keeps the progress of concurrent calls apart', async () => {
    const tokens = ['one', 'two', 1, 2]
    const all = await Promise.all(tokens.map((token) => slowly(meeting, token)))
    for (const [index, { heard }] of all.entries()) {
      const token = tokens[index] ?? ''
      expect(heard).toEqual([1, 2, 3, 4].map((step) => stepOf(token, step)))
    }
  })

  it('sends no progress to a client that did not request it', async () => {
    const word = mark()
    const reply = await meeting.call('slow', { ms: 8, steps: 4, word })
    expect(reply.notes).toEqual([])
    const { message } = await meeting.until(({ text }) => text.includes(word))
    expect(objectAt(objectAt(message, 'params'), '_meta')).not.toHaveProperty('progressToken')
  })

  if (kinds.client.transport === 'stdio') return
  it('keeps the progress of two clients with the same token apart', async () => {
    const other = await meeting.connect()
    const [mine, theirs] = await Promise.all([slowly(meeting, 'same'), slowly(meeting, 'same', other)])
    const expected = [1, 2, 3, 4].map((step) => stepOf('same', step))
    expect(mine.heard).toEqual(expected)
    expect(theirs.heard).toEqual(expected)
  })

  function stepOf(progressToken: Id, progress: number): Json {
    const hasMessage = client.progressMessage && server.progressMessage
    return { progressToken, progress, total: 4, ...(hasMessage && { message: `step ${progress} of 4` }) }
  }
})

/** Calls a tool that reports four steps. */
async function slowly(meeting: Meeting, progressToken: Id, client = meeting.connected) {
  const heard: Json[] = []
  const added: Json[] = []
  const word = mark()
  const onProgress = ({ _meta, ...values }: Json): void => {
    heard.push(values)
    added.push(objectAt(Object(_meta), 'dev.gatehouse/progress'))
  }
  const options = { progressToken, onProgress }
  const params = { name: 'slow', arguments: { ms: 12, steps: 4, word } }
  return { reply: await client.request('tools/call', params, options), heard, added, word }
}
