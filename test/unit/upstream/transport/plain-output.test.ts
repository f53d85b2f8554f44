import { describe, expect, it } from 'vitest'
import { PlainOutput } from '../../../../src/upstream/transport/stdio.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

const pass = fakeClock()

const REQUEST = '{"jsonrpc":"2.0","id":1,"method":"server/discover"}'
const RESPONSE = '{"jsonrpc":"2.0","id":1,"result":{}}'

function outputOfProcess() {
  const verdicts: string[] = []
  const finals: boolean[] = []
  const output = new PlainOutput({
    readable: (line) => line.replaceAll('secret', '***').trim(),
    onVerdict: ({ message }, isFinal) => {
      verdicts.push(message)
      finals.push(isFinal)
    },
  })
  return { output, verdicts, finals }
}

describe('the output of a process before its first message', () => {
  it.each([
    ['a banner', 'Server running on stdio'],
    ['a page', '<!DOCTYPE html>'],
    ['a number', '42'],
    ['a text in quotes', '"ready"'],
    ['null', 'null'],
    ['an empty object', '{}'],
    ['an empty list', '[]'],
    ['a list of null', '[null]'],
    ['a record of a log', '{"level":30,"id":1,"msg":"ready"}'],
    ['a dictionary of another language', "{'jsonrpc': '2.0', 'id': 1}"],
    ['half a message', RESPONSE.slice(0, -1)],
    ['two messages on one line', RESPONSE + RESPONSE],
    ['the header of another framing', 'Content-Length: 120'],
    ['its input', REQUEST],
    ['its input with blanks around it', ` ${REQUEST}\r`],
  ])('is no message if it is %s', (_what, line) => {
    const { output } = outputOfProcess()
    output.sent(REQUEST)
    expect(output.read(line)).toBe(false)
    expect(output.printed).toMatch(/it printed ".+"|It repeats what it is sent/)
    // What comes after it is read.
    expect(output.read(RESPONSE)).toBe(true)
    expect(output.printed).toBe('')
  })

  it.each([
    ['a response', RESPONSE],
    ['an error without an id', '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}'],
    ['a response without its version', '{"id":1,"result":null}'],
    ['a malformed response', '{"jsonrpc":"2.0","id":1}'],
    ['a notification', '{"jsonrpc":"2.0","method":"notifications/message"}'],
    ['a batch', `[${RESPONSE}]`],
    ['an id beyond the exact numbers', '{"jsonrpc":"2.0","id":9007199254740993,"result":{}}'],
    ['another request of the same kind', REQUEST.replace('1', '2')],
  ])('is a message if it is %s, and text is one afterwards', async (_what, line) => {
    const { output, verdicts } = outputOfProcess()
    output.sent(REQUEST)
    expect([output.read(line), output.read('text')]).toEqual([true, true])
    await pass(60_000)
    expect([output.printed, verdicts]).toEqual(['', []])
  })

  it('leads to a verdict when it has ended for five seconds, once', async () => {
    const { output, verdicts } = outputOfProcess()
    output.read('Listening with secret')
    await pass(4999)
    expect(verdicts).toEqual([])
    await pass(1)
    const told = 'The server does not speak MCP. Its output is not JSON: it printed "Listening with ***".'
    expect(verdicts).toEqual([told])
    output.read('more')
    await pass(60_000)
    expect(verdicts).toEqual([told])
  })

  it('leads to none while more of it comes, or errors are printed', async () => {
    const { output, verdicts } = outputOfProcess()
    for (let second = 0; second < 40; second += 4) {
      if (second < 20) output.read(`loading ${second} %`)
      else output.readError('loading')
      await pass(4000)
    }
    expect(verdicts).toEqual([])
    await pass(1000)
    expect(verdicts).toHaveLength(1)
  })

  it('leads to a verdict if it is in errors about what is sent, which are not quoted', async () => {
    const { output, verdicts } = outputOfProcess()
    output.readError('sh: no jsonrpc yet')
    output.sent(REQUEST)
    output.readError(`sh: 1: ${REQUEST}: not found`)
    await pass(3000)
    output.sent(REQUEST)
    output.readError(`sh: 2: ${REQUEST}: not found`)
    await pass(1000)
    expect(verdicts).toEqual([
      'The server does not speak MCP. It takes what it is sent for text, as its errors show.',
    ])
  })

  it('leads to none where a server logs what it gets, and answers', async () => {
    const { output, verdicts } = outputOfProcess()
    output.sent(REQUEST)
    output.readError(`received ${REQUEST}`)
    output.read(RESPONSE)
    await pass(60_000)
    expect([output.printed, verdicts]).toEqual(['', []])
  })

  it('leads to none where there is nothing visible, whatever is printed as errors', async () => {
    const { output, verdicts } = outputOfProcess()
    output.read('  ')
    output.readError('loading')
    await pass(60_000)
    expect([output.printed, verdicts]).toEqual(['', []])
  })

  it('leads to a verdict sooner if text follows each message', async () => {
    const { output, verdicts } = outputOfProcess()
    for (let round = 0; round < 2; round++) {
      output.sent(`${REQUEST}${round}`)
      output.read('syntax error')
      await pass(round === 0 ? 3000 : 1000)
    }
    expect(verdicts).toHaveLength(1)
  })

  it('leads to a final verdict at once if there is no end of it, or it is a page', () => {
    const endless = outputOfProcess()
    for (let line = 0; line < 1000; line++) endless.output.read('y')
    const page = outputOfProcess()
    page.output.read('  <html>')
    expect([endless.finals, page.finals]).toEqual([[true], [true]])
  })

  it('has an end though its last line has none', async () => {
    const { output, verdicts } = outputOfProcess()
    output.readTail(Buffer.from('first\npass'))
    output.readTail(Buffer.from('word: '))
    await pass(5000)
    expect(verdicts).toEqual([expect.stringContaining('it printed "pass')])
  })

  it('may be a message that arrives in parts', async () => {
    const { output, verdicts } = outputOfProcess()
    output.readTail(Buffer.from(`\n ${RESPONSE.slice(0, 9)}`))
    await pass(60_000)
    expect([output.read(RESPONSE), verdicts]).toEqual([true, []])
  })

  it('is not waited for once the process is no longer listened to', async () => {
    const { output, verdicts } = outputOfProcess()
    output.read('text')
    output.end()
    await pass(60_000)
    expect([output.printed, verdicts]).toEqual([expect.stringContaining('"text"'), []])
  })

  it('is shortened', () => {
    const { output } = outputOfProcess()
    output.read('long '.repeat(1000))
    expect(output.printed.length).toBeLessThan(220)
  })
})
