/**
 * Checks that call tools of the server under test: those that only read and need no arguments, or whose arguments are
 * configured; those that change something only where the user of the run permits it.
 */
import { randomUUID } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import { ERROR_KEY, PROVENANCE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../cassette.ts'
import type { Answer, RequestOptions } from './client.ts'
import {
  ask,
  type Check,
  type Context,
  expect,
  expectSame,
  objectAt,
  resultOf,
  Skip,
  shown,
  succeeded,
  successOf,
} from './check.ts'

/** A tool of the server, with arguments that it accepts. */
interface Callable {
  readonly name: string
  readonly args: Fields
  readonly entry: Fields
}

/** How many tools of the server are called by a check. */
const MAX_CALLED = 5

function isReading({ annotations }: Fields): boolean {
  return objectAt({ annotations }, 'annotations')?.readOnlyHint === true
}

function callable(entry: Fields, calls: Context['calls']): readonly Callable[] {
  const name = String(entry.name)
  const configured = Object.hasOwn(calls, name) ? calls[name] : undefined
  if (configured) return [{ name, args: configured, entry }]
  const required = objectAt(entry, 'inputSchema')?.required
  const isFree = !Array.isArray(required) || required.length === 0
  return isReading(entry) && isFree ? [{ name, args: {}, entry }] : []
}

/** The tools that read. @throws Skip if there is none */
function readers({ tools, calls }: Context): readonly Callable[] {
  const found = tools
    .filter(isReading)
    .flatMap((entry) => callable(entry, calls))
    .slice(0, MAX_CALLED)
  if (found.length > 0) return found
  throw new Skip(
    'no tool that only reads can be called without arguments, and features.conformance.arguments has none',
  )
}

/** The tools that change something, with their configured arguments. @throws Skip if they may not be called */
function writers({ tools, calls, withWrites }: Context): readonly Callable[] {
  if (!withWrites) throw new Skip('--allow-writes is not given')
  const found = tools.filter((entry) => !isReading(entry)).flatMap((entry) => callable(entry, calls))
  if (found.length > 0) return found.slice(0, MAX_CALLED)
  throw new Skip('features.conformance.arguments has no tool that changes something')
}

const asking = { capabilities: { elicitation: { form: {} } } }

/** Makes a call, and confirms it: the user of the run permitted it. */
async function confirmed({ server }: Context, { name, args }: Callable, meta: Fields): Promise<Answer> {
  const options: RequestOptions = { ...asking, meta }
  const answer = await server.call(name, args, options)
  const { resultType, inputRequests, requestState } = answer.result ?? {}
  if (resultType !== 'input_required' || !isObject(inputRequests)) return answer
  const yes = { action: 'accept', content: { confirm: true } }
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, yes]))
  return server.call(name, args, { ...options, beside: { requestState, inputResponses } })
}

/** @throws Failure if a result is no result of a tool in the form of MCP */
function expectWellFormed({ name, entry }: Callable, answer: Answer): void {
  const result = resultOf(answer)
  expect(Array.isArray(result.content), `the result of ${name} has no content`)
  for (const block of result.content)
    expect(isObject(block) && typeof block.type === 'string', `a content block of ${name} has no type`)
  if (result.isError === true) {
    const error = objectAt(result, '_meta', ERROR_KEY)
    expect(
      typeof error?.code === 'string',
      `${name} failed without a structured error: ${shown(answer.text)}`,
    )
    return
  }
  if (isObject(entry.outputSchema))
    expect(result.structuredContent !== undefined, `${name} has an output schema, and no structured content`)
}

/** The checks that call tools of the server under test. */
export const serverChecks: readonly Check[] = [
  {
    test_id: 'CONF-1107',
    proposal_ref: 'proposal-11',
    category: 'error_handling',
    description:
      'The server under test: tools that read return results in the form of MCP, failures with a structured error.',
    needs: ['errors'],
    run: async (context) => {
      for (const tool of readers(context))
        expectWellFormed(tool, await context.server.call(tool.name, tool.args))
    },
  },
  {
    test_id: 'CONF-0702',
    proposal_ref: 'proposal-7',
    category: 'manifest',
    description: 'The server under test: a result says where it comes from.',
    needs: ['provenance'],
    run: async (context) => {
      const [tool] = readers(context)
      if (!tool) return
      const answer = await context.server.call(tool.name, tool.args, { meta: { [PROVENANCE_KEY]: true } })
      if (answer.result?.isError === true) throw new Skip(`${tool.name} failed`)
      const found = successOf(answer)
      const stamps = objectAt(found, '_meta')?.[PROVENANCE_KEY]
      const [first] = [stamps].flat()
      expect(typeof objectAt({ first }, 'first')?.source === 'string', 'the result has no provenance')
    },
  },
  {
    test_id: 'CONF-0508',
    proposal_ref: 'proposal-5',
    category: 'idempotency',
    description: 'The server under test: a repeated call with its key returns the first response.',
    needs: ['idempotency'],
    run: async (context) => {
      const [tool] = readers(context)
      if (!tool) return
      const options = { meta: { idempotency_key: `conformance-${randomUUID()}` } }
      const first = resultOf(await context.server.call(tool.name, tool.args, options))
      if (first.isError === true) throw new Skip(`${tool.name} failed`)
      const second = resultOf(await context.server.call(tool.name, tool.args, options))
      expectSame(objectAt(second, '_meta')?.was_replay, true, 'was_replay')
      expectSame(second.content, first.content, 'the content of the second response')
    },
  },
  {
    test_id: 'CONF-0509',
    proposal_ref: 'proposal-5',
    category: 'idempotency',
    description: 'The server under test: a repeated call that changes something returns the first response.',
    needs: ['idempotency'],
    run: async (context) => {
      for (const tool of writers(context)) {
        const key = { idempotency_key: `conformance-${randomUUID()}` }
        const first = resultOf(await confirmed(context, tool, key))
        const second = resultOf(await confirmed(context, tool, key))
        expectSame(objectAt(second, '_meta')?.was_replay, true, `was_replay of ${tool.name}`)
        expectSame(second.content, first.content, `the content of the second response of ${tool.name}`)
      }
    },
  },
  {
    test_id: 'CONF-0517',
    proposal_ref: 'proposal-5',
    category: 'transactions',
    description: 'The server under test: steps that change something are undone by a rollback.',
    needs: ['transactions', 'idempotency'],
    run: async (context) => {
      const { server } = context
      const id = `conformance-${randomUUID()}`
      const move = (which: string) =>
        ask(
          server,
          context,
          { method: `transaction/${which}`, tool: `${which}_transaction` },
          { transaction_id: id },
        )
      const tools = writers(context)
      resultOf(await move('begin'))
      const steps: Fields[] = []
      for (const tool of tools) {
        const result = resultOf(await confirmed(context, tool, { transaction_id: id }))
        if (objectAt(result, '_meta', ERROR_KEY)?.code !== 'COMPENSATION_UNAVAILABLE')
          steps.push(succeeded(result))
      }
      const { status, steps_compensated: undone } = resultOf(await move('rollback'))
      if (steps.length === 0) throw new Skip('no compensation is configured for the tools')
      expectSame(status, 'rolled_back', 'the status')
      expectSame(Array.isArray(undone) ? undone.length : 0, steps.length, 'the number of compensated steps')
    },
  },
]
