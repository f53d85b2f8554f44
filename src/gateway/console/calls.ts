/** The pages of the console about calls, as the gateway that serves them has their content. */
import { world } from '../../core/world.ts'
import type { Target } from '../../core/call.ts'
import type { LoggedCall } from '../../core/logged-call.ts'
import type { Settings } from '../../core/settings.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import { type ActionState, callPage, type Gate } from '../../downstream/pages/call-story.ts'
import type { ConsolePage } from '../../downstream/pages/console.ts'
import { type RewindOptions, rewindPages } from '../../downstream/pages/rewind-page.ts'
import type { LiveOptions } from '../../downstream/pages/live.ts'
import type { PageUser } from '../../downstream/pages/page-users.ts'
import { type Overview, timelinePage } from '../../downstream/pages/timeline.ts'
import { Actions } from '../../records/actions.ts'
import { Pause, type PauseState } from '../../records/pause.ts'
import type { Observing } from '../../observability/observing.ts'
import type { Store } from '../../store/store.ts'
import { gatesOf } from './gates.ts'
import type { CallJournal } from '../call-journal.ts'
import type { Inspected } from '../inspect.ts'

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

/** What the pages about calls need of the gateway. */
export interface CallParts {
  store(): Store
  readonly observing: Pick<Observing, 'ordered'>
  readonly journal: CallJournal
  readonly gateway: Explained
  /** The URL of a path of the gateway. */
  url(path: string): string
  /** Whether writes are paused; undefined where they cannot be. */
  pause(): { readonly state: PauseState | undefined } | undefined
  rewinding(): ReturnType<RewindOptions['rewinding']>
}

/** How many things need a page user, and how the servers are. */
interface States {
  needs(user: PageUser): Promise<number | undefined>
  servers(): Overview['servers']
}

/** The timeline, the story of each call, and rewinds. */
export function callPages(parts: CallParts, { needs, servers }: States): readonly ConsolePage[] {
  const { journal, store, gateway, url, pause, observing, rewinding } = parts
  const logs = { calls: () => journal.calls, rates: () => journal.rates }
  return [
    timelinePage({
      ...logs,
      overview: async (user) => {
        const paused = pause()
        return { needs: await needs(user), servers: servers(), pause: paused ? paused.state : 'off' }
      },
      pause: () => new Pause(store(), observing.ordered),
    }),
    callPage({
      ...logs,
      gates: (call) => gatesFor(call, gateway),
      action: async (key) => actionText(store(), key),
      endpoint: (server) => url(`/mcp/${encodeURIComponent(server)}`),
      // Loaded on demand: a serving gateway writes no tests.
      test: async (call) => (await import('../../testkit/conversations.ts')).callTestFile(call),
    }),
    ...rewindPages({ rewinding, servers: () => servers().map(({ name }) => name) }),
  ]
}

/** What these pages follow. */
export function callTopics(
  { journal, pause }: Pick<CallParts, 'journal' | 'pause'>,
  servers: States['servers'],
): LiveOptions['topics'] {
  return {
    calls: async () => (await journal.calls?.end()) ?? '',
    // A rewind that is shown is read again each second.
    rewinds: () => String(Math.floor(world.now() / 1000)),
    overview: () => JSON.stringify([pause(), servers().map(({ name, state }) => [name, state])]),
  }
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
