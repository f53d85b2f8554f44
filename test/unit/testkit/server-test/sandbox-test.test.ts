import { describe, expect, it } from 'vitest'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import type { UpstreamSettings } from '../../../../src/core/settings.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { examplesOf } from '../../../../src/testkit/server-test/examples.ts'
import { Results } from '../../../../src/testkit/server-test/results.ts'
import { testInSandbox } from '../../../../src/testkit/server-test/writing-test.ts'
import type { ServerSession } from '../../../../src/testkit/server-test/session.ts'

const definition = {
  name: 'run_command',
  inputSchema: {
    type: 'object',
    properties: { command: { type: 'string', default: 'of the schema', examples: ['of the schema'] } },
    required: ['command'],
    examples: [{ command: 'of the schema' }],
  },
  dashdash: { examples: [{ input: { command: 'of the server' } }] },
}

/** Tests a tool that runs what its caller writes: the arguments of its calls, and the messages of its results. */
async function tested(examples: readonly { readonly input: object }[]) {
  const tool = {
    ...{ upstream: 'shell', kind: 'tool', name: 'run_command', definition },
    classification: { op: 'execute', evidence: [] },
  } as unknown as Descriptor
  const settings = { tools: { run_command: { examples } } } as unknown as UpstreamSettings
  const calls: unknown[] = []
  const session = {
    request: async (_method: string, params: unknown) => {
      calls.push(isObject(params) ? params['arguments'] : params)
      return { kind: 'result', result: { content: [] }, ms: 1 }
    },
  } as unknown as ServerSession
  const results = new Results((text) => text)
  const sandbox = { isServer: true, folders: [], named: new Map<string, string>() }
  await testInSandbox(tool, sandbox, {
    ...{ session, results, redactor: new Redactor(), revision: '2025-11-25', seed: 1 },
    examples: examplesOf(tool, settings),
  })
  return { calls, messages: results.all.map(({ message }) => message) }
}

describe('a tool that runs what its caller writes', () => {
  it('is not called without an example of the configuration, whatever the server suggests', async () => {
    const { calls, messages } = await tested([])
    expect(calls).toEqual([])
    expect(messages).toEqual([
      'not called: it runs what its caller writes: give examples of the tool in the configuration',
    ])
  })

  it('is called with the examples of the configuration alone', async () => {
    const inputs = [{ command: 'first' }, { command: 'second' }]
    const { calls } = await tested(inputs.map((input) => ({ input })))
    expect(calls).toEqual(inputs)
  })
})
