/**
 * The tools of the owner's client, at `/operator/mcp`: each with the roles that may call it, and what it does of what an `Owner`
 * does.
 *
 * Invariant: whoever made a call neither decides on it nor takes it back here.
 */
import { asGatewayError, GatewayError } from '../core/error.ts'
import { world } from '../core/world.ts'
import { summaryView } from '../downstream/pages/servers-page.ts'
import type { CallLog } from '../records/call-log.ts'
import { readQuery } from '../records/call-query.ts'
import { pauseView } from '../records/pause.ts'
import { approvalTools } from './operator-approvals.ts'
import { rewindTools } from './operator-rewinds.ts'
import {
  about,
  changes,
  flag,
  listOf,
  objectOf,
  off,
  type OperatorTool,
  reads,
  resultOf,
  text,
  textIn,
} from './operator-tool.ts'
import type { Owner } from './owner.ts'

/** How many calls one search returns. */
const DEFAULT_CALLS = 50
const MAX_CALLS = 200
const MAX_PAUSE_MINUTES = 60 * 24 * 366

/** All tools, in the order in which they are listed. */
export function operatorTools(owner: Owner): readonly OperatorTool[] {
  return [
    ...approvalTools(owner),
    ...callTools(owner),
    ...serverTools(owner),
    ...pauseTools(owner),
    ...rewindTools(owner),
  ]
}

// Calls.

const callSchema = resultOf({
  at: about({ type: 'number' }, 'When it ended, in milliseconds since 1970.'),
  ms: about({ type: 'number' }, 'How long it took.'),
  end: text,
  id: text,
  who: text,
  method: text,
})

function callTools(owner: Owner): readonly OperatorTool[] {
  return [
    {
      definition: {
        name: 'search_calls',
        title: 'What was called',
        description: `Searches the log of calls, newest first. All words and conditions must hold: tool:NAME, server:NAME, user:ID,
client:TEXT, code:CODE, kind:write, method:NAME, status: ok, failed, denied, asked, task or dry_run, since:1h, until:10m,
duration>500ms. * stands for any text.`,
        inputSchema: objectOf({
          query: about({ ...text, maxLength: 500 }, 'Such as "status:denied since:1h". Default: all calls.'),
          limit: { type: 'integer', minimum: 1, maximum: MAX_CALLS, default: DEFAULT_CALLS },
          before: about(text, 'The member `next` of the page before.'),
        }),
        outputSchema: resultOf({ calls: listOf(callSchema), next: text }, ['calls']),
        annotations: reads,
      },
      roles: ['viewer'],
      run: async ({ query: words = '', limit = DEFAULT_CALLS, before }) => {
        const query = readQuery(String(words), world.now())
        if ('problem' in query) throw new GatewayError('INVALID_INPUT', query.problem, { field: 'query' })
        const { calls, next } = await requiredLog(owner).search(query, Number(limit), textIn(before))
        return { calls: calls.map(({ call }) => call), ...(next !== undefined && { next }) }
      },
    },
    {
      definition: {
        name: 'get_call',
        title: 'One call',
        description:
          'Shows everything that is known of a call: how it ended and why, which features it passed, and its arguments and result where they are kept.',
        inputSchema: objectOf({ id: about(text, 'The request id, as search_calls has it.') }, ['id']),
        outputSchema: resultOf({
          call: callSchema,
          content: { type: 'object' },
          gates: listOf({ type: 'object' }),
        }),
        annotations: reads,
      },
      roles: ['viewer'],
      run: async ({ id }) => {
        const log = requiredLog(owner)
        const call = await log.find(String(id))
        if (!call) throw new GatewayError('RESOURCE_NOT_FOUND', 'This call is not in the log of calls.')
        const [content, gates] = await Promise.all([log.contentOf(call.id), owner.gates(call)])
        return { call, content, gates }
      },
    },
  ]
}

/** @throws UNSUPPORTED_OPERATION */
function requiredLog(owner: Owner): CallLog {
  const log = owner.calls()
  if (log) return log
  throw off('Calls are not logged: `observe.calls` is off.')
}

// Servers.

const serverSchema = resultOf({
  name: text,
  state: { enum: ['ready', 'starting', 'unavailable'] },
  drained: flag,
  transport: text,
})

const stepSchema = resultOf({ step: text, state: { enum: ['ok', 'failed', 'skipped'] }, note: text })

function serverTools({ servers, onOrdered }: Owner): readonly OperatorTool[] {
  return [
    {
      definition: {
        name: 'list_servers',
        title: 'Servers',
        description:
          'Lists the MCP servers behind the gateway: whether each can be reached, and if not, why.',
        inputSchema: objectOf({}),
        outputSchema: resultOf({ servers: listOf(serverSchema) }),
        annotations: reads,
      },
      roles: ['viewer'],
      run: async () => ({ servers: servers.list().map(summaryView) }),
    },
    {
      definition: {
        name: 'doctor',
        title: 'Examine a server',
        description:
          'Connects to a server step by step, from the name to one read, and says at which step that fails and what to do.',
        inputSchema: objectOf({ server: about(text, 'The name, as list_servers has it.') }, ['server']),
        outputSchema: resultOf({ server: text, healthy: flag, steps: listOf(stepSchema) }),
        annotations: { ...reads, openWorldHint: true },
      },
      roles: ['operator'],
      run: async ({ server }, user) => {
        const { by, via } = user
        const order = { order: 'doctor', upstream: String(server), by, via } as const
        try {
          const steps = await servers.examine(order.upstream, user)
          onOrdered(order)
          return { server, healthy: steps.every(({ state }) => state !== 'failed'), steps }
        } catch (error) {
          onOrdered({ ...order, code: asGatewayError(error).code })
          throw error
        }
      },
    },
  ]
}

// The pause of writes.

const pauseSchema = resultOf({ paused: flag, since: text, by: text, reason: text, until: text }, ['paused'])

function pauseTools(owner: Owner): readonly OperatorTool[] {
  const mustBeOn = (): void => {
    if (owner.paused() === 'off') throw off('Writes cannot be paused: `features.pause_writes` is off.')
  }
  return [
    {
      definition: {
        name: 'pause_writes',
        title: 'Pause writes',
        description:
          'Refuses every call that is not known to only read, at all gateways of the store, until resume_writes. Running calls finish.',
        inputSchema: objectOf({
          reason: about({ ...text, maxLength: 500 }, 'Why, for callers and other operators.'),
          minutes: about(
            { type: 'integer', minimum: 1, maximum: MAX_PAUSE_MINUTES },
            'After how many minutes it ends by itself. Default: never.',
          ),
        }),
        outputSchema: pauseSchema,
        annotations: changes,
      },
      roles: ['operator'],
      run: async ({ reason, minutes }, { by, via }) => {
        mustBeOn()
        const until = minutes === undefined ? undefined : world.now() + Number(minutes) * 60_000
        return pauseView(await owner.pause().pause({ by, via, reason: textIn(reason), until }))
      },
    },
    {
      definition: {
        name: 'resume_writes',
        title: 'Resume writes',
        description: 'Ends the pause of writes, at all gateways of the store.',
        inputSchema: objectOf({}),
        outputSchema: pauseSchema,
        annotations: changes,
      },
      roles: ['operator'],
      run: async (_given, { by, via }) => {
        mustBeOn()
        await owner.pause().resume({ by, via })
        return pauseView(undefined)
      },
    },
  ]
}
