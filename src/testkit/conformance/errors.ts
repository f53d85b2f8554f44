/** Checks of failures: each is reported in one structured form, and refusals do not reach the server. */
import { categories } from '../../core/error.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import {
  checksOf,
  type Context,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  isFailed,
  objectAt,
  Skip,
  shown,
} from './check.ts'

/** A name that no tool or method has. */
const NO_SUCH = 'conformance_no_such_name'

/** The structured error of a JSON-RPC error with this code. @throws CheckFailure */
function errorData(error: Fields | undefined, code: number): Fields {
  expectSame(error?.code, code, 'the code of the JSON-RPC error')
  const data = objectAt(error, 'data')
  expect(data !== undefined, 'error.data has no structured error')
  expectWellFormed(data)
  return data
}

/** @throws CheckFailure if a structured error lacks what every one has */
function expectWellFormed(error: Fields): void {
  expect(typeof error.code === 'string' && error.code !== '', 'the error has no code')
  expect(typeof error.message === 'string' && error.message !== '', 'the error has no message')
  expect(categories.includes(String(error.category)), `category is ${shown(String(error.category))}`)
  expect(typeof error.user_actionable === 'boolean', 'user_actionable is absent')
  const { retry_after_seconds: wait } = error
  const isWaiting = error.category === 'transient' || error.category === 'rate_limited'
  expect(
    isWaiting ? Number.isInteger(wait) && Number(wait) >= 0 : true,
    'a transient error has no whole retry_after_seconds',
  )
}

/** The structured error of a tool that fails with a text. @throws CheckFailure */
async function failing({ ours }: Context, text: string): Promise<{ error: Fields; text: string }> {
  const { result, text: whole } = await ours.call('get_failure', { text })
  expectSame(result?.isError, true, 'isError')
  expectSame(result?.structuredContent, undefined, 'structuredContent of a failed tool with an output schema')
  const error = objectAt(result, '_meta', ERROR_KEY)
  expect(error !== undefined, `the result has no structured error: ${shown(whole)}`)
  expectWellFormed(error)
  return { error, text: whole }
}

function requiredOf(inputSchema: unknown): readonly unknown[] {
  const required = objectAt(inputSchema)?.required
  return Array.isArray(required) ? required : []
}

/** Whether the gateway refuses arguments that do not match a schema. */
function isStrict(settings: Context['settings']): boolean {
  return objectAt(settings('validate'))?.input === 'strict'
}

/** The checks of failures. */
export const errorChecks = checksOf({ category: 'error_handling' }, [
  {
    test_id: 'CONF-004',
    proposal_ref: 'proposal-11',
    description: 'A call of an unknown tool is a JSON-RPC error -32602 with a structured error.',
    needs: ['errors', 'validate'],
    run: async ({ server }) => {
      const { error } = await server.call(NO_SUCH)
      const data = errorData(error, -32602)
      expectSame(data.code, 'UNKNOWN_TOOL', 'the code of the structured error')
      expectSame(data.category, 'invalid_input', 'the category')
    },
  },
  {
    test_id: 'CONF-006',
    proposal_ref: 'proposal-11',
    description: 'A request with an unknown method is a JSON-RPC error -32601 with a structured error.',
    needs: ['errors'],
    run: async ({ server }) => {
      const { error } = await server.send(`conformance/${NO_SUCH}`)
      expectSame(errorData(error, -32601).code, 'UNSUPPORTED_OPERATION', 'the code of the structured error')
    },
  },
  {
    test_id: 'CONF-007',
    proposal_ref: 'proposal-11',
    description: 'A body that is not JSON is a JSON-RPC error -32700 with the id null and the status 400.',
    run: async ({ server }) => {
      const { status, message, error } = await server.post('{"jsonrpc": "2.0", "method":')
      expectSame(errorData(error, -32700).code, 'PARSE_ERROR', 'the code of the structured error')
      expectSame(message.id, null, 'the id')
      expectSame(status, 400, 'the status')
    },
  },
  {
    test_id: 'CONF-1101',
    description:
      'A tools/call without the name of a tool is a JSON-RPC error -32602 that names the parameter.',
    needs: ['errors', 'validate'],
    run: async ({ server }) => {
      const { error } = await server.send('tools/call', { arguments: {} })
      expectSame(errorData(error, -32602).field, 'name', 'the field')
    },
  },
  {
    test_id: 'CONF-1102',
    description:
      'Arguments that do not match the schema reach the server unchanged, unless the configuration is strict: then they are refused with the name of the argument.',
    needs: ['validate', 'errors'],
    run: async ({ ours, echo, settings }) => {
      const reached = echo.follow('get_echo')
      const answer = await ours.call('get_echo', { text: 7 })
      const sent = isStrict(settings) ? [] : [{ text: 7 }]
      expectSame(
        reached().map((each) => each.arguments),
        sent,
        'the arguments that reached the server',
      )
      if (!isStrict(settings)) return
      const error = failureOf(answer, 'INVALID_INPUT')
      expectWellFormed(error)
      expectSame(error.field, 'text', 'the field')
    },
  },
  {
    test_id: 'CONF-1103',
    description:
      'The server under test: if a call of a listed tool without its required arguments fails, it does in that form; if the configuration is strict, it is refused.',
    needs: ['validate', 'errors'],
    run: async ({ server, readers, settings }) => {
      const tool = readers.find(({ inputSchema }) => requiredOf(inputSchema).length > 0)
      if (!tool) throw new Skip('no tool that only reads has a required argument')
      const answer = await server.call(String(tool.name))
      if (isStrict(settings)) return expectWellFormed(failureOf(answer, 'INVALID_INPUT'))
      const error = objectAt(answer.error, 'data') ?? objectAt(answer.result, '_meta', ERROR_KEY)
      expectSame(error !== undefined, isFailed(answer), 'whether there is a structured error')
      if (error) expectWellFormed(error)
    },
  },
  {
    test_id: 'CONF-1104',
    description: 'A failure that a server reports as a text gets a structured error beside it.',
    needs: ['errors'],
    run: async (context) => {
      const { error } = await failing(context, 'the printer is on fire')
      expectSame(error.code, 'UPSTREAM_ERROR', 'the code')
      expectSame(error.category, 'permanent', 'the category')
    },
  },
  {
    test_id: 'CONF-1105',
    description:
      'If a failure of a server has a time to wait, the structured error is rate_limited and has that time.',
    needs: ['errors'],
    run: async (context) => {
      const { error } = await failing(context, 'rate limit exceeded, retry after 7 seconds')
      expectSame(error.category, 'rate_limited', 'the category')
      expectSame(error.retry_after_seconds, 7, 'retry_after_seconds')
    },
  },
  {
    test_id: 'CONF-1106',
    description:
      'The failure of a server reaches the client as it is; with hide_details, without stack frames and passwords.',
    needs: ['errors'],
    run: async (context) => {
      const frame = 'at Object.conformanceFrame (/srv/conformance-hidden/index.js:1:2)'
      const failure = `Error: it broke\n    ${frame}\npassword=conformance-hunter2`
      const { text } = await failing(context, failure)
      const settings = objectAt(context.settings('errors'))
      if (settings?.hide_details !== true)
        return expect(text.includes(JSON.stringify(failure)), 'it was changed')
      expect(!/conformanceFrame|conformance-hidden/.test(text), 'the response has a stack frame')
      expect(!text.includes('conformance-hunter2'), 'the response has a password')
    },
  },
  {
    test_id: 'CONF-0302',
    description: 'A call beyond the rate of a tool is refused with the time to wait, before the server.',
    needs: ['rate_limit'],
    run: async ({ ours, echo }) => {
      const reached = echo.follow('get_limited')
      await ours.call('get_limited', { text: 'first' })
      expectCalls(reached(), 1)
      const answer = await ours.call('get_limited', { text: 'second' })
      const error = failureOf(answer, 'RATE_LIMIT_EXCEEDED')
      expectWellFormed(error)
      expectSame(error.category, 'rate_limited', 'the category')
      expectCalls(reached(), 1)
    },
  },
])
