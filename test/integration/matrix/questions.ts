// A server of any revision asks its questions of the client whose call it answers, in the way of the client's revision.
import { expect, it } from 'vitest'
import { type Answers, type Reply, textOf } from '../../support/client/options.ts'
import { subject } from '../../support/matrix.ts'
import { type Json, parse } from '../../support/server/json.ts'

export const questions = subject('matrix/questions', (meeting) => {
  const { client, server, kinds } = meeting
  const form = { action: 'accept', content: { name: 'Ada' } }
  const sampled = { role: 'assistant', model: 'model of Ada', content: { type: 'text', text: 'Paris' } }
  const roots = { roots: [{ uri: 'file:///home/Ada' }] }

  /** Calls a tool that asks; returns the responses that the server received, or the refusal. */
  const ask = async (tool: string, args: Json = {}) => {
    const reply = await meeting.call(tool, args)
    return reply.result?.['isError'] === true ? { refused: textOf(reply) } : parse(textOf(reply))
  }

  it('requests sampling from the client', async () => {
    expect(await ask('ask_sampling')).toEqual({ answer: sampled })
  })

  if (server.audio) {
    it("requests sampling with audio if the client's revision has audio content", async () => {
      const refused = { refused: expect.stringContaining('sampling') }
      expect(await ask('ask_spoken')).toEqual(client.audio ? { answer: sampled } : refused)
    })
  }

  it('requests the roots', async () => {
    expect(await ask('ask_roots')).toEqual({ answer: roots })
  })

  it('asks repeatedly without losing a response', async () => {
    for (let time = 0; time < 2; time++) {
      expect(await ask('ask_sampling')).toEqual({ answer: sampled })
      expect(await ask('ask_roots')).toEqual({ answer: roots })
    }
  })

  it('asks before it returns a prompt and before it reads a resource', async () => {
    const prompt = await meeting.request('prompts/get', { name: 'asking' })
    const resource = await meeting.request('resources/read', { uri: 'fake://asking' })
    if (server.elicitation && !client.elicitation) {
      const code = server.modern ? -32602 : -32603
      expect(prompt.error).toMatchObject({ code, message: expect.stringContaining('elicitation') })
      expect(resource.error).toMatchObject({ code, message: expect.stringContaining('elicitation') })
      return
    }
    const text = JSON.stringify({ answer: server.elicitation ? form : roots })
    expect(prompt.result).toMatchObject({ messages: [{ content: { text } }] })
    expect(resource.result).toMatchObject({ contents: [{ text }] })
  })

  if (server.modern) {
    it('repeats a call that the server wants repeated, without a question', async () => {
      expect(await ask('ask_later')).toEqual({})
    })
  }

  if (!server.elicitation) return
  if (!client.elicitation) {
    it('reports missing form elicitation to the server or in the tool result', async () => {
      for (const tool of ['ask_form', 'ask_two', 'ask_parallel', 'ask_rounds']) {
        expect(await ask(tool)).toEqual({ refused: expect.stringContaining('elicitation') })
      }
    })
    return
  }

  it('requests form elicitation', async () => {
    expect(await ask('ask_form')).toEqual({ answer: form })
    expect(meeting.connected.asked.at(-1)?.params).toMatchObject({
      message: 'What is your name?',
      requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    })
  })

  it('requests form elicitation for a server that keeps no state', async () => {
    expect(await ask('ask_form', { state: false })).toEqual({ answer: form })
  })

  it('asks two questions at once', async () => {
    const before = meeting.connected.asked.length
    expect(await ask('ask_two')).toEqual({ first: form, second: form })
    expect(meeting.connected.asked).toHaveLength(before + 2)
  })

  it('requests form elicitation, sampling and roots at once', async () => {
    expect(await ask('ask_parallel')).toEqual({ form, sampling: sampled, roots })
  })

  it('asks in several rounds', async () => {
    const before = meeting.connected.asked.length
    const reply = await meeting.call('ask_rounds', { n: 4 })
    expect(parse(textOf(reply))).toEqual({ round_1: form, round_2: form, round_3: form, round_4: form })
    expect(meeting.connected.asked).toHaveLength(before + 4)
    expect(reply.rounds).toBe(client.modern ? 5 : 1)
  })

  it('asks for several calls at once', async () => {
    const all = await Promise.all([
      ask('ask_form'),
      ask('ask_rounds', { n: 2 }),
      ask('ask_two'),
      ask('ask_form'),
    ])
    expect(all).toEqual([
      { answer: form },
      { round_1: form, round_2: form },
      { first: form, second: form },
      { answer: form },
    ])
  })

  it('forwards a refusal of the user', async () => {
    const shy = await meeting.connect({
      answers: { ...answersOf('Eve'), 'elicitation/create': () => ({ action: 'decline' }) },
    })
    const reply = await shy.request('tools/call', { name: 'ask_form', arguments: {} })
    expect(parse(textOf(reply))).toEqual({ answer: { action: 'decline' } })
  })

  if (server.urlElicitation) {
    it(`${client.urlElicitation ? 'requests URL elicitation' : 'reports that URL elicitation is not supported'}`, async () => {
      const answered = await ask('ask_url')
      if (!client.urlElicitation)
        return expect(answered).toEqual({ refused: expect.stringContaining('elicitation') })
      expect(answered).toEqual({ answer: { action: 'accept' } })
      expect(meeting.connected.asked.at(-1)?.params).toMatchObject({
        mode: 'url',
        url: 'https://example.com/authorize?state=1',
      })
    })
  }

  if (server.urlElicitation && server.modern && client.urlElicitation && !client.modern) {
    it('gives each URL elicitation its own id, and sends a completion notification for each', async () => {
      const { asked, notes } = meeting.connected
      const [before, told] = [asked.length, notes.length]
      const call = (): Promise<Reply> => meeting.connected.request('tools/call', { name: 'ask_url' })
      const replies = await Promise.all([call(), call(), call()])
      const ids = asked.slice(before).map(({ params }) => params['elicitationId'])
      expect(new Set(ids).size).toBe(3)
      const heard = [...replies.flatMap((reply) => reply.notes), ...notes.slice(told)]
      const over = heard.filter((note) => note.method === 'notifications/elicitation/complete')
      expect(new Set(over.map(({ params }) => params['elicitationId']))).toEqual(new Set(ids))
    })
  }

  if (kinds.client.transport === 'stdio') return
  it('sends each question to the client whose call it belongs to', async () => {
    const names = ['Ada', 'Bob', 'Cleo']
    const clients = await Promise.all(names.map((name) => meeting.connect({ answers: answersOf(name) })))
    const replies = await Promise.all(
      clients.flatMap((each) => [
        each.request('tools/call', { name: 'ask_form', arguments: {} }),
        each.request('tools/call', { name: 'ask_rounds', arguments: { n: 2 } }),
        each.request('tools/call', { name: 'ask_sampling', arguments: {} }),
      ]),
    )
    const expected = names.flatMap((name) => {
      const own = { action: 'accept', content: { name } }
      const model = { ...sampled, model: `model of ${name}` }
      return [{ answer: own }, { round_1: own, round_2: own }, { answer: model }]
    })
    expect(replies.map((reply) => parse(textOf(reply)))).toEqual(expected)
  })
})

/** The answers of a user with this name. */
export function answersOf(name: string): Answers {
  return {
    'elicitation/create': (params) => {
      if (params['mode'] === 'url') return { action: 'accept' }
      return { action: 'accept', content: { name } }
    },
    'sampling/createMessage': () => ({
      role: 'assistant',
      model: `model of ${name}`,
      content: { type: 'text', text: 'Paris' },
    }),
    'roots/list': () => ({ roots: [{ uri: `file:///home/${name}` }] }),
  }
}
