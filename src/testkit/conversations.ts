/**
 * The requests of a recording with the answers of the client to the server's questions, in one form for both
 * eras; and the test that is written of one, for vitest and the official client.
 */
import { isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { type Cassette, type Episode, episodesOf, handshakes, withoutMeta } from './cassette.ts'
import { oneLine } from '../core/text/escape.ts'
import { escaped } from '../core/text/redactor.ts'
import { partsBetween } from './player.ts'
import { steady, steadyCode } from './steady.ts'

/** A request, what the client answered during it, and the response. */
interface Conversation {
  readonly line: number
  readonly method: string
  readonly params: Fields
  readonly answers: readonly Answer[]
  /** The JSON-RPC response. */
  readonly response: Fields
}

/** The answer to a question of the server. */
interface Answer {
  readonly method: string
  readonly result: Fields
}

const notListed = new Set([...handshakes, 'subscriptions/listen'])

/** The answered requests of a recording, without handshakes. */
export function conversationsOf(cassette: Cassette): readonly Conversation[] {
  const episodes = episodesOf(cassette)
  return episodes.flatMap((episode, index) => {
    if (!episode.response || notListed.has(episode.method)) return []
    // The retry of a request belongs to its conversation.
    if (episode.params.inputResponses !== undefined) return []
    return [conversationFrom(episode, episodes.slice(index + 1))]
  })
}

function conversationFrom(first: Episode, later: readonly Episode[]): Conversation {
  const answers = first.steps.flatMap(({ frame, answer }): readonly Answer[] =>
    isObject(answer?.result) ? [{ method: String(frame.method), result: answer.result }] : [],
  )
  let last = first
  let rest = later
  for (;;) {
    const { result } = last.response ?? {}
    if (!isObject(result) || result.resultType !== 'input_required') break
    const at = rest.findIndex(
      ({ method, params }) =>
        method === first.method &&
        params.inputResponses !== undefined &&
        params.requestState === result.requestState,
    )
    const retry = rest[at]
    if (!retry) break
    answers.push(...answersIn(result, retry))
    last = retry
    rest = rest.slice(at + 1)
  }
  const { line, method, params } = first
  return { line, method, params: withoutMeta(params), answers, response: last.response ?? {} }
}

function answersIn({ inputRequests }: Fields, { params: { inputResponses } }: Episode): Answer[] {
  if (!isObject(inputRequests) || !isObject(inputResponses)) return []
  return Object.entries(inputRequests).flatMap(([key, question]) => {
    const result = inputResponses[key]
    if (!isObject(question) || !isObject(result)) return []
    return [{ method: String(question.method), result }]
  })
}

/** The functions of the client by method. */
const functions: ReadonlyMap<string, string> = new Map(
  Object.entries({
    'tools/list': 'listTools',
    'tools/call': 'callTool',
    'prompts/list': 'listPrompts',
    'prompts/get': 'getPrompt',
    'resources/list': 'listResources',
    'resources/templates/list': 'listResourceTemplates',
    'resources/read': 'readResource',
    'completion/complete': 'complete',
  }),
)

/** The capabilities with which a client answers questions. */
const capabilities: ReadonlyMap<string, object> = new Map(
  Object.entries({
    'elicitation/create': { elicitation: { form: {}, url: {} } },
    'sampling/createMessage': { sampling: {} },
    'roots/list': { roots: {} },
  }),
)

/** The text of a test file. @throws Error if the client has no function for the request */
export function testFile(
  { method, params, answers, response, line }: Conversation,
  { file, header }: Cassette,
): string {
  const { marks } = header.redaction
  const { error } = response
  const given = JSON.stringify([params, answers])
  const isIncomplete = marks.some((mark) => given.includes(JSON.stringify(mark).slice(1, -1)))
  const made = madeBy(method, params)
  if (made === undefined) throw new Error(`${file}:${line}: a request ${method} cannot become a test`)
  return fileText({
    origin: `line ${line} of a recording by gatehouse replay --to-test`,
    method,
    params,
    answers,
    ...(isIncomplete && {
      advice: `Fill in what was removed from the recording: ${oneLine(marks.join(' '))}`,
    }),
    expectation: isObject(error)
      ? `await expect(${made}).rejects.toMatchObject(${code({ code: error.code })})`
      : `expect(steady(await ${made})).toMatchObject(${code(steady(response.result), marks)})`,
  })
}

/** A call of a tool, as the log of calls has it. */
interface ToolCall {
  /** The tool as its server knows it. */
  readonly tool: string
  /** Undefined if the log does not keep them. */
  readonly arguments: Fields | undefined
  readonly isError: boolean
}

/** The text of a test file for a call of a tool that was logged: it expects that the call succeeds or fails, as it did. */
export function callTestFile({ tool, arguments: given, isError }: ToolCall): string {
  const params = { name: tool, arguments: given ?? {} }
  const expected = 'toMatchObject({ isError: true })'
  return fileText({
    origin: 'a call in the log of calls',
    method: 'tools/call',
    params,
    answers: [],
    ...(given === undefined && { advice: 'Fill in the arguments: they are not kept in the log of calls.' }),
    expectation: `expect(await ${madeBy('tools/call', params)}).${isError ? '' : 'not.'}${expected}`,
  })
}

/** The call of the client that makes a request; undefined if it has no function for that. */
function madeBy(method: string, params: Fields): string | undefined {
  const call = functions.get(method)
  return call === undefined ? undefined : `client.${call}(${code(params)})`
}

interface TestText extends Pick<Conversation, 'method' | 'params' | 'answers'> {
  /** What it is made from. */
  readonly origin: string
  /** What has to be done before it runs: a sentence. */
  readonly advice?: string
  /** The statement that fails if the response is another one. */
  readonly expectation: string
}

function fileText({ origin, advice, method, params, answers, expectation }: TestText): string {
  const asked = [...new Set(answers.map((answer) => answer.method))]
  const declared = Object.assign({}, ...asked.map((each) => capabilities.get(each) ?? {}))
  const title = `${method}${typeof params.name === 'string' ? ` ${params.name}` : ''}`
  return `// Made from ${origin}.
// Run it with the server in MCP_SERVER, a URL or a command as JSON: MCP_SERVER='["node","server.js"]' npx vitest run
${advice === undefined ? '' : `// ${advice}\n`}import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, expect, test } from 'vitest'

const client = new Client(
  { name: 'recorded-test', version: '1.0.0' },
  { capabilities: ${code(declared)}, versionNegotiation: { mode: 'auto' } },
)
${asked.map((each) => handlerCode(each, answers)).join('')}
beforeAll(async () => {
  const server = process.env['MCP_SERVER']
  if (server === undefined) throw new Error('Set MCP_SERVER to a URL, or to a command as a JSON array')
  if (/^https?:/.test(server)) return client.connect(new StreamableHTTPClientTransport(new URL(server)))
  const [command, ...args] = JSON.parse(server)
  return client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }))
})
afterAll(() => client.close())

test(${JSON.stringify(title)}, async () => {
  ${expectation}
})

/** A value without what differs in every run: times, ids, durations. */
${steadyCode()}
`
}

function handlerCode(method: string, answers: readonly Answer[]): string {
  const results = answers.filter((answer) => answer.method === method).map(({ result }) => result)
  return `{
  const answers = ${code(results)}
  client.setRequestHandler(${JSON.stringify(method)}, () => answers.shift() ?? Promise.reject(new Error('not recorded')))
}
`
}

/** JavaScript for a JSON value; texts with marks match any text in their place. */
function code(value: unknown, marks: readonly string[] = []): string {
  const isMarked = (text: string): boolean => marks.some((mark) => text.includes(mark))
  if (typeof value === 'string' && isMarked(value)) return markedCode(value, marks)
  if (Array.isArray(value)) return `[${value.map((each) => code(each, marks)).join(', ')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'undefined'
  const members = Object.entries(value).map(([key, each]) => `${JSON.stringify(key)}: ${code(each, marks)}`)
  return members.length === 0 ? '{}' : `{ ${members.join(', ')} }`
}

function markedCode(text: string, marks: readonly string[]): string {
  if (marks.includes(text)) return 'expect.anything()'
  const pattern = partsBetween(text, marks).map(escaped).join('[^]*')
  return `expect.stringMatching(new RegExp(${JSON.stringify(`^${pattern}$`)}))`
}
