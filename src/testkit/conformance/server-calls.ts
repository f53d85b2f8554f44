/**
 * Checks that call tools of the server under test: those that only read and need no arguments, or whose arguments are
 * configured; those that change something only where the user of the run permits it.
 */
import { randomUUID } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import { validator } from '../../core/schema/schema.ts'
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

function isFailed({ error, result }: Answer): boolean {
  return error !== undefined || result?.isError === true
}

/** Failures of a server that does not answer a call. */
const unanswered = new Set<unknown>(['SERVER_UNAVAILABLE', 'OPERATION_TIMEOUT', 'OUTCOME_UNKNOWN'])

/** @throws Failure if the response to a call of a tool is not in the form of MCP, or the server did not answer */
function expectWellFormed({ name, entry }: Callable, answer: Answer): void {
  const { result, error } = answer
  if (error !== undefined || result?.isError === true) {
    const { code } = objectAt(error, 'data') ?? objectAt(result, '_meta', ERROR_KEY) ?? {}
    expect(typeof code === 'string', `${name} failed without a structured error: ${shown(answer.text)}`)
    expect(!unanswered.has(code), `the server did not answer a call of ${name}: ${code}`)
    if (error !== undefined) return
  }
  const { content, structuredContent, isError } = resultOf(answer)
  expect(Array.isArray(content), `the result of ${name} has no content`)
  for (const block of content)
    expect(isObject(block) && typeof block.type === 'string', `a content block of ${name} has no type`)
  if (isError !== true && isObject(entry.outputSchema))
    expectFitting(name, structuredContent, entry.outputSchema)
}

/** @throws Failure if structured content is absent, or does not match the output schema of its tool */
function expectFitting(name: string, content: unknown, schema: Fields): void {
  expect(content !== undefined, `${name} has an output schema, and its result no structured content`)
  const [problem] = validator(schema)(content)
  expect(
    problem === undefined,
    `the structured content of ${name} does not match its output schema: ${problem?.message ?? ''}`,
  )
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
      if (isFailed(answer)) throw new Skip(`${tool.name} failed`)
      const stamps = objectAt(successOf(answer), '_meta')?.[PROVENANCE_KEY]
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
      const options = { meta: { idempotency_key: newId() } }
      const answer = await context.server.call(tool.name, tool.args, options)
      if (isFailed(answer)) throw new Skip(`${tool.name} failed`)
      const first = successOf(answer)
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
        await undone(context, async (transaction) => {
          const key = { idempotency_key: newId() }
          const step = transaction && (await confirmed(context, tool, { ...key, ...transaction }))
          const isStep = step !== undefined && !isNotUndoable(step)
          const meta = isStep ? { ...key, ...transaction } : key
          const first = resultOf(isStep ? step : await confirmed(context, tool, meta))
          const second = resultOf(await confirmed(context, tool, meta))
          expectSame(objectAt(second, '_meta')?.was_replay, true, `was_replay of ${tool.name}`)
          expectSame(second.content, first.content, `the content of the second response of ${tool.name}`)
        })
      }
    },
  },
  {
    test_id: 'CONF-0517',
    proposal_ref: 'proposal-5',
    category: 'transactions',
    description: 'The server under test: steps that change something are undone by a rollback.',
    needs: ['transactions', 'idempotency', 'undo'],
    run: async (context) => {
      const tools = writers(context)
      const id = newId()
      resultOf(await move(context, 'begin', id))
      const steps: Fields[] = []
      for (const tool of tools) {
        const answer = await confirmed(context, tool, { transaction_id: id })
        if (!isNotUndoable(answer)) steps.push(successOf(answer))
      }
      const { status, steps_compensated: undone } = resultOf(await move(context, 'rollback', id))
      if (steps.length === 0) throw new Skip('no compensation is configured for the tools')
      expectSame(status, 'rolled_back', 'the status')
      expectSame(Array.isArray(undone) ? undone.length : 0, steps.length, 'the number of compensated steps')
    },
  },
]

function newId(): string {
  return `conformance-${randomUUID()}`
}

function move(context: Context, which: 'begin' | 'rollback', id: string): Promise<Answer> {
  const names = { method: `transaction/${which}`, tool: `${which}_transaction` }
  return ask(context.server, context, names, { transaction_id: id })
}

/** Undoes what is done in the transaction that `use` gets; where there are no transactions, it gets none. */
async function undone(
  context: Context,
  use: (transaction: { readonly transaction_id: string } | undefined) => Promise<void>,
): Promise<void> {
  const { settings, hasMethods, hasTools } = context
  if (settings('transactions') === false || !(hasMethods || hasTools)) return use(undefined)
  const id = newId()
  resultOf(await move(context, 'begin', id))
  try {
    await use({ transaction_id: id })
  } finally {
    await move(context, 'rollback', id)
  }
}

/** Whether a step was refused because no compensation is known for it. */
function isNotUndoable({ result }: Answer): boolean {
  return objectAt(result, '_meta', ERROR_KEY)?.code === 'COMPENSATION_UNAVAILABLE'
}
