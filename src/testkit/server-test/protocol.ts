/** Checks of a server as a whole: what it says about itself, what it declares, and messages that are not valid. */
import type { Fields } from '../../core/payload.ts'
import { isObject } from '../../core/json/json.ts'
import type { Lists } from './lists.ts'
import type { Results } from './results.ts'
import { absenceOf, type Fault, type ServerSession } from './session.ts'

/** How long a server may take to refuse a message without an id, in milliseconds: it may also ignore it. */
const SILENCE_MS = 500

/** The first result of a server, and a `ping`. @throws ServerLost */
export async function testDiscovery(session: ServerSession, results: Results): Promise<void> {
  const { capabilities, protocolVersion, supportedVersions } = session.discovered
  const { name, version } = session.serverInfo
  const isVersion =
    session.era === 'modern' ? Array.isArray(supportedVersions) : typeof protocolVersion === 'string'
  const isNamed = typeof name === 'string' && typeof version === 'string'
  results
    .about('protocol/discovery')
    .judge('protocol', '', [
      ...(isObject(capabilities) ? [] : ['it has no capabilities']),
      ...(isVersion ? [] : ['it names no protocol version']),
      ...(isNamed ? [] : ['serverInfo has no name or no version']),
    ])
  if (session.era === 'modern') return
  const answer = await session.request('ping')
  const problem = answer.kind === 'result' ? undefined : absenceOf(answer)
  results.about('protocol/ping').judge('protocol', '', problem, { ms: answer.ms })
}

/** Uses the capabilities that are more than lists. @throws ServerLost */
export async function testCapabilities(
  session: ServerSession,
  lists: Lists,
  results: Results,
): Promise<void> {
  for (const { capability, method, params } of uses(session, lists)) {
    const answer = await session.request(method, params)
    const problem = answer.kind === 'result' ? undefined : `it is declared, but ${absenceOf(answer)}`
    results.about(`capability/${capability}`).judge('protocol', method, problem, { ms: answer.ms })
  }
}

interface Use {
  readonly capability: string
  readonly method: string
  readonly params: Fields
}

function uses({ capabilities, era }: ServerSession, { prompts = [], resources = [] }: Lists): Use[] {
  const { logging, completions, resources: declared } = capabilities
  const found: Use[] = []
  if (era === 'legacy' && isObject(logging))
    found.push({ capability: 'logging', method: 'logging/setLevel', params: { level: 'error' } })
  const [argument] = prompts.flatMap(({ name, arguments: wanted }) =>
    Array.isArray(wanted) && isObject(wanted[0]) ? [{ prompt: name, name: wanted[0].name }] : [],
  )
  if (isObject(completions) && argument)
    found.push({
      capability: 'completions',
      method: 'completion/complete',
      params: {
        ref: { type: 'ref/prompt', name: argument.prompt },
        argument: { name: argument.name, value: '' },
      },
    })
  const [first] = resources
  if (era === 'legacy' && isObject(declared) && declared.subscribe === true && first)
    for (const method of ['resources/subscribe', 'resources/unsubscribe'])
      found.push({ capability: 'resources.subscribe', method, params: { uri: first.uri } })
  return found
}

/** Messages that are not valid, by what is wrong with them. */
const malformed: Readonly<Record<string, (id: number) => string>> = {
  'not-json': () => '{"jsonrpc": "2.0", "id": 1, "method": ',
  text: () => '"text"',
  'no-method': (id) => JSON.stringify({ jsonrpc: '2.0', id }),
  'method-number': (id) => JSON.stringify({ jsonrpc: '2.0', id, method: 1 }),
  'no-version': (id) => JSON.stringify({ id, method: 'tools/list' }),
  'params-text': (id) => JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/list', params: 'text' }),
}

/** Sends messages that are no requests: they are refused or ignored, and the server goes on. @throws ServerLost */
export async function testMalformed(session: ServerSession, results: Results): Promise<void> {
  for (const [what, text] of Object.entries(malformed)) {
    const checks = results.about(`malformed/${what}`)
    const answer = await session.sendText(text, SILENCE_MS)
    const isAccepted = answer.kind === 'result'
    checks.judge('refusals', 'refused', isAccepted ? 'it answered with a result' : undefined, {
      note: isAccepted ? undefined : absenceOf(answer),
      ms: answer.ms,
    })
    const isEnded = answer.kind === 'none' && answer.why === 'closed'
    const isAlive = !isEnded && (await session.isAlive())
    const problem = isEnded ? answer.message : 'afterwards it does not respond'
    checks.judge('robustness', 'survives', isAlive ? undefined : problem)
  }
}

const rules: readonly (readonly [Fault['rule'], string])[] = [
  ['messages', 'everything it sends is a message of JSON-RPC'],
  ['response-ids', 'each response answers one request, once'],
  ['requests', 'it requests nothing that the client did not declare'],
  ['notifications', 'its notifications are of declared capabilities'],
]

/** The rules about messages beside the answers, for the whole run. */
export function judgeMessages({ faults }: ServerSession, results: Results): void {
  for (const [rule, note] of rules) {
    const problems = faults.filter((each) => each.rule === rule).map(({ message }) => message)
    results.about(`protocol/${rule}`).judge('protocol', '', problems, { note })
  }
}
