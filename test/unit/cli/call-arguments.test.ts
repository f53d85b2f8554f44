import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { readArguments } from '../../../src/cli/call.ts'
import { UsageError } from '../../../src/cli/command.ts'
import type { Io } from '../../../src/cli/io.ts'

const given = async (...words: string[]): Promise<unknown> => {
  const read = await readArguments(words, { stdin: new PassThrough().end(words[0]) } as unknown as Io)
  return read({ properties: { text: { type: 'string' } } })
}

describe('the arguments of a command line', () => {
  it.each([
    ['{"path":"/precious","path":"/tmp/x"}'],
    ['{"of":[{"path":1,"p\\u0061th":2}]}'],
    ['of={"path":1,"path":2}'],
    ['path=1', 'path=2'],
  ])('with a name that occurs twice are refused: %s', async (...words) => {
    await expect(given(...words)).rejects.toThrow(UsageError)
    await expect(given(...words)).rejects.toThrow('twice')
  })

  it('are texts where the schema says so, whatever they contain', async () => {
    expect(await given('text={"a":1,"a":2}', 'n=1')).toEqual({ text: '{"a":1,"a":2}', n: 1 })
  })
})
