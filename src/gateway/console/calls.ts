/** The pages of the console about calls, as the gateway that serves them has their content. */
import { world } from '../../core/world.ts'
import { type ActionState, callPage } from '../../downstream/pages/call-story.ts'
import type { ConsolePage } from '../../downstream/pages/console.ts'
import { rewindPages } from '../../downstream/pages/rewind-page.ts'
import type { LiveOptions } from '../../downstream/pages/live.ts'
import type { PageUser } from '../../downstream/pages/page-users.ts'
import { type Overview, timelinePage } from '../../downstream/pages/timeline.ts'
import { Actions } from '../../records/actions.ts'
import type { Store } from '../../store/store.ts'
import type { Owner } from '../owner.ts'

/** What the pages about calls need of the gateway. */
export interface CallParts {
  readonly owner: Owner
  store(): Store
  /** The URL of a path of the gateway. */
  url(path: string): string
}

/** What needs a page user, and how the servers are. */
interface States {
  needs(user: PageUser): Promise<Overview['needs']>
  servers(): Overview['servers']
}

/** The timeline, the story of each call, and rewinds. */
export function callPages(parts: CallParts, { needs, servers }: States): readonly ConsolePage[] {
  const { owner, store, url } = parts
  return [
    timelinePage({
      ...owner,
      overview: async (user) => ({
        needs: await needs(user),
        servers: servers(),
        pause: owner.paused(),
      }),
    }),
    callPage({
      ...owner,
      action: async (key) => actionText(store(), key),
      endpoint: (server) => url(`/mcp/${encodeURIComponent(server)}`),
      // Loaded on demand: a serving gateway writes no tests.
      test: async (call) => (await import('../../testkit/conversations.ts')).callTestFile(call),
    }),
    ...rewindPages({ rewinding: owner.rewinding, servers: () => servers().map(({ name }) => name) }),
  ]
}

/** What these pages follow. */
export function callTopics({ calls, paused }: Owner, servers: States['servers']): LiveOptions['topics'] {
  return {
    calls: async () => (await calls()?.end()) ?? '',
    // A rewind that is shown is read again each second.
    rewinds: () => String(Math.floor(world.now() / 1000)),
    overview: () => JSON.stringify([paused(), servers().map(({ name, state }) => [name, state])]),
  }
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
