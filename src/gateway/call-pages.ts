/** The pages of the console about calls, as the gateway that serves them has their content. */
import type { Target } from '../core/call.ts'
import type { LoggedCall } from '../core/logged-call.ts'
import type { Settings } from '../core/settings.ts'
import { ifAnswered } from '../core/time/waiting.ts'
import { type ActionState, callPage, type Gate } from '../downstream/pages/call-story.ts'
import type { ConsolePage } from '../downstream/pages/console.ts'
import { type RewindOptions, rewindPages } from '../downstream/pages/rewind-page.ts'
import { timelinePage, type TimelineOptions } from '../downstream/pages/timeline.ts'
import { Actions } from '../records/actions.ts'
import type { Store } from '../store/store.ts'
import { gatesOf } from './call-gates.ts'
import type { CallJournal } from './call-journal.ts'
import type { Inspected } from './inspect.ts'

/** How long a server has to list its tools, in milliseconds. */
const LIST_TIMEOUT_MS = 1000

/** How a gateway would handle a call now. */
interface Explained {
  readonly settings: Settings
  /** The features of a target, outermost first. */
  chain(target: Target): readonly { readonly feature: string }[]
  /** What is known of a tool. @throws what listing throws */
  inspect(upstream: string, tool: string): Promise<Inspected | undefined>
}

interface CallPages extends Pick<TimelineOptions, 'overview' | 'pause'>, RewindOptions {
  readonly journal: CallJournal
  store(): Store
  readonly gateway: Explained
  /** The URL of a path of the gateway. */
  url(path: string): string
}

/** The timeline, and the story of each call. */
export function callPages({ journal, store, gateway, url, ...options }: CallPages): readonly ConsolePage[] {
  const logs = { calls: () => journal.calls, rates: () => journal.rates }
  return [
    timelinePage({ ...logs, ...options }),
    callPage({
      ...logs,
      gates: (call) => gatesFor(call, gateway),
      action: async (key) => actionText(store(), key),
      endpoint: (server) => url(`/mcp/${encodeURIComponent(server)}`),
      // Loaded on demand: a serving gateway writes no tests.
      test: async (call) => (await import('../testkit/conversations.ts')).callTestFile(call),
    }),
    ...rewindPages(options),
  ]
}

async function gatesFor(call: LoggedCall, gateway: Explained): Promise<readonly Gate[]> {
  const { server, method, name } = call
  if (server === undefined || !hasServer(gateway.settings, server)) return []
  const chain = gateway.chain({ upstream: server, method, ...(name !== undefined && { name }) })
  const isTool = method === 'tools/call' && name !== undefined
  const inspected = isTool ? await ifAnswered(gateway.inspect(server, name), LIST_TIMEOUT_MS) : undefined
  return gatesOf(call, chain, inspected)
}

function hasServer({ upstreams }: Settings, server: string): boolean {
  return upstreams.some(({ name }) => name === server)
}

async function actionText(store: Store, key: string): Promise<ActionState | undefined> {
  const action = await new Actions(store).find(key)
  if (!action) return undefined
  const { undoneAt, status, way } = action
  const cannot = (text: string): ActionState => ({ text, canRewind: false })
  if (undoneAt !== undefined) return cannot('It is undone.')
  if (status === 'failed') return cannot('It failed, so there is nothing to undo.')
  if (status === 'pending') return cannot('It is not known whether it took effect.')
  if (way.kind === 'nothing') return cannot('It only read.')
  if (way.kind === 'none') return cannot(`It cannot be undone: ${way.reason}.`)
  const how = way.kind === 'exact' ? 'exactly' : 'approximately'
  return { text: `It can be undone ${how}: ${way.description}.`, canRewind: true }
}
