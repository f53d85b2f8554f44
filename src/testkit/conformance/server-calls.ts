/**
 * Checks that call tools of the server under test: those that only read and need no arguments, or whose arguments are
 * configured; those that change something only where the user of the run permits it.
 */
import { isObject } from '../../core/json/json.ts'
import { validator } from '../../core/schema/schema.ts'
import { ERROR_KEY, PROVENANCE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Extras } from './client.ts'
import { move, newId } from './effects.ts'
import {
  checksOf,
  type Context,
  expect,
  expectSame,
  isFailed,
  objectAt,
  objectsIn,
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

/** The tools that read, with their configured arguments, else without any. @throws Skip if there is none */
function readersOf({ readers, calls }: Context): readonly Callable[] {
  const found = readers.flatMap((entry): readonly Callable[] => {
    const required = objectAt(entry, 'inputSchema')?.required
    const isFree = !Array.isArray(required) || required.length === 0
    return configured(entry, calls) ?? (isFree ? [{ name: String(entry.name), args: {}, entry }] : [])
  })
  if (found.length > 0) return found.slice(0, MAX_CALLED)
  throw new Skip(
    'no tool that only reads can be called without arguments, and features.conformance.arguments has none',
  )
}

/** The other tools, with their configured arguments. @throws Skip if they may not be called */
function writersOf({ tools, readers, calls, withWrites }: Context): readonly Callable[] {
  if (!withWrites) throw new Skip('--allow-writes is not given')
  const found = tools
    .filter((entry) => !readers.includes(entry))
    .flatMap((entry) => configured(entry, calls) ?? [])
  if (found.length > 0) return found.slice(0, MAX_CALLED)
  throw new Skip('features.conformance.arguments has no tool that changes something')
}

function configured(entry: Fields, calls: Context['calls']): readonly Callable[] | undefined {
  const name = String(entry.name)
  const args = Object.hasOwn(calls, name) ? calls[name] : undefined
  return args && [{ name, args, entry }]
}

const asking = { capabilities: { elicitation: { form: {} } } }

/** Errors of a call that waits for what the run cannot give: the approval of other people, or a typed text. */
const unconfirmed = new Set<unknown>(['CONFIRMATION_REQUIRED', 'CONFIRMATION_DECLINED'])

/** Makes a call, and confirms it: the user of the run permitted it. @throws Skip if the run cannot confirm it */
async function confirmed({ server }: Context, { name, args }: Callable, meta: Fields): Promise<Answer> {
  const options: Extras = { ...asking, meta }
  const asked = await server.call(name, args, options)
  const { resultType, inputRequests, requestState } = asked.result ?? {}
  const yes = { action: 'accept', content: { confirm: true } }
  const isAsking = resultType === 'input_required' && isObject(inputRequests)
  const inputResponses = Object.fromEntries(
    Object.keys(isAsking ? inputRequests : {}).map((key) => [key, yes]),
  )
  const answer = isAsking
    ? await server.call(name, args, { ...options, beside: { requestState, inputResponses } })
    : asked
  if (unconfirmed.has(errorCodeOf(answer)))
    throw new Skip(`${name} requires a confirmation that the run cannot give`)
  return answer
}

/** The code of the structured error of a failed tool, if it failed. */
function errorCodeOf({ result }: Answer): unknown {
  return objectAt(result, '_meta', ERROR_KEY)?.code
}

/** Failures of a server that does not answer a call. */
const unanswered = new Set<unknown>(['SERVER_UNAVAILABLE', 'OPERATION_TIMEOUT', 'OUTCOME_UNKNOWN'])

/** @throws CheckFailure if the response to a call of a tool is not in the form of MCP, or the server did not answer */
function expectWellFormed({ name, entry }: Callable, answer: Answer): void {
  const { error } = answer
  if (isFailed(answer)) {
    const code = error === undefined ? errorCodeOf(answer) : objectAt(error, 'data')?.code
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

/** @throws CheckFailure if structured content is absent, or does not match the output schema of its tool */
function expectFitting(name: string, content: unknown, schema: Fields): void {
  expect(content !== undefined, `${name} has an output schema, and its result no structured content`)
  const [problem] = validator(schema)(content)
  expect(
    problem === undefined,
    `the structured content of ${name} does not match its output schema: ${problem?.message ?? ''}`,
  )
}

/** The checks that call tools of the server under test. */
export const serverChecks = checksOf({ category: 'idempotency' }, [
  {
    test_id: 'CONF-1107',
    category: 'error_handling',
    description:
      'The server under test: tools that read return results in the form of MCP, failures with a structured error.',
    needs: ['errors'],
    run: async (context) => {
      for (const tool of readersOf(context))
        expectWellFormed(tool, await context.server.call(tool.name, tool.args))
    },
  },
  {
    test_id: 'CONF-0702',
    category: 'manifest',
    description: 'The server under test: a result has its source.',
    needs: ['provenance'],
    run: async (context) => {
      const [tool] = readersOf(context)
      if (!tool) return
      const answer = await context.server.call(tool.name, tool.args, { meta: { [PROVENANCE_KEY]: true } })
      if (isFailed(answer)) throw new Skip(`${tool.name} failed`)
      const stamps = objectAt(successOf(answer), '_meta')?.[PROVENANCE_KEY]
      const [first] = [stamps].flat()
      expect(typeof objectAt(first)?.source === 'string', 'the result has no provenance')
    },
  },
  {
    test_id: 'CONF-0508',
    description: 'The server under test: a repeated call with its key returns the first response.',
    needs: ['idempotency'],
    run: async (context) => {
      const [tool] = readersOf(context)
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
    description: 'The server under test: a repeated call that changes something returns the first response.',
    needs: ['idempotency'],
    run: async (context) => {
      for (const tool of writersOf(context)) {
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
    category: 'transactions',
    description: 'The server under test: steps that change something are undone by a rollback.',
    needs: ['transactions', 'idempotency', 'undo'],
    run: async (context) => {
      const { server } = context
      const tools = writersOf(context)
      const id = newId()
      resultOf(await move(server, 'begin', id))
      const steps: Fields[] = []
      let ended: Answer
      try {
        for (const tool of tools) {
          const answer = await confirmed(context, tool, { transaction_id: id })
          if (!isNotUndoable(answer)) steps.push(successOf(answer))
        }
      } finally {
        ended = await move(server, 'rollback', id)
      }
      const { status, steps_compensated: undoneSteps } = resultOf(ended)
      if (steps.length === 0) throw new Skip('no compensation is configured for the tools')
      expectSame(status, 'rolled_back', 'the status')
      expectSame(objectsIn(undoneSteps).length, steps.length, 'the number of compensated steps')
    },
  },
])

/** Undoes what is done in the transaction that `use` gets; where there are no transactions, it gets none. */
async function undone(
  { server, settings }: Context,
  use: (transaction: { readonly transaction_id: string } | undefined) => Promise<void>,
): Promise<void> {
  if (settings('transactions') === false || server.own === 'off') return use(undefined)
  const id = newId()
  resultOf(await move(server, 'begin', id))
  try {
    await use({ transaction_id: id })
  } finally {
    await move(server, 'rollback', id)
  }
}

/** Whether a step was refused because no compensation is known for it. */
function isNotUndoable(answer: Answer): boolean {
  return errorCodeOf(answer) === 'COMPENSATION_UNAVAILABLE'
}
