/** The rules of `gatehouse lint` that are about MCP itself, for the server as a test sees it. */
import type { Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { assertions } from '../../lint/audit.ts'
import { gather, type Subject } from '../../lint/subject.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Area } from './results.ts'
import { failureText, shown } from './leaks.ts'
import { absenceOf, type CheckContext, type ServerSession } from './session.ts'

/** The rules, by the area that they belong to. The others are about the corporate profile, or are checked in calls. */
const areas: ReadonlyMap<string, Area> = new Map([
  ...['C008', 'C087', 'C100', 'C105', 'C118', 'C173'].map((id) => [id, 'protocol'] as const),
  ...['C121', 'C124', 'C126', 'C127', 'C158', 'C159', 'C172'].map((id) => [id, 'definitions'] as const),
  ['C177', 'results'],
])

/** Adds the results of the rules, and returns the tools with their classification. @throws ServerLost */
export async function testRules(
  settings: UpstreamSettings,
  { session, results, redactor }: CheckContext,
): Promise<Subject['tools']> {
  const subject = await gather(handlerOf(session, redactor), {
    settings,
    revision: session.revision,
    guards: new Map(),
    isProtected: false,
  })
  session.mustGoOn()
  for (const { id, text, check } of assertions) {
    const area = areas.get(id)
    if (area === undefined) continue
    const { status, evidence } = check(subject)
    const isFailed = status === 'fail'
    results.add(area, `lint/${id}`, `lint/${id}`, {
      description: text,
      status: status === 'not applicable' ? 'skipped' : isFailed ? 'failed' : 'passed',
      message: isFailed
        ? `${text} ${evidence.slice(0, 3).join('; ')}`
        : status === 'not applicable'
          ? evidence[0]
          : text,
    })
  }
  return subject.tools
}

/** The server as a handler: without anything that the gateway does. */
function handlerOf(session: ServerSession, redactor: Redactor): Handler {
  const cursors = new Set<string>()
  return async ({ method, params }) => {
    // The result of the handshake, which no server repeats.
    if (method === 'server/discover') return { kind: 'result', result: Payload.of(session.discovered) }
    const answer = await session.request(method, params.fields)
    if (answer.kind !== 'result') {
      const relayed = answer.kind === 'error' ? { relayed: Payload.of(answer.error) } : {}
      throw new GatewayError(
        'UPSTREAM_ERROR',
        shown(failureText(answer) ?? absenceOf(answer), redactor),
        relayed,
      )
    }
    const { nextCursor, ...rest } = answer.result
    // A list that does not end is found by another check; it is read twice.
    const key = `${method} ${String(params.fields.cursor)} ${String(nextCursor)}`
    const isLoop =
      nextCursor === params.fields.cursor || (cursors.has(`${key} twice`) && nextCursor !== undefined)
    if (nextCursor !== undefined) cursors.add(cursors.has(key) ? `${key} twice` : key)
    return { kind: 'result', result: Payload.of(isLoop ? rest : answer.result) }
  }
}
