/** The console of one gateway: its pages, what they follow, and how many things need a page user. */
import type { Handler } from '../../core/call.ts'
import { ifAnswered } from '../../core/time/waiting.ts'
import type { ConsolePage } from '../../downstream/pages/console.ts'
import type { LiveOptions } from '../../downstream/pages/live.ts'
import { needsCount, needsKinds, needsPage, needsVersion } from '../../downstream/pages/needs-page.ts'
import type { PageUser } from '../../downstream/pages/page-users.ts'
import type { Overview } from '../../downstream/pages/timeline.ts'
import { stateOf } from '../front-page.ts'
import { serversPages, serversVersion } from '../../downstream/pages/servers-page.ts'
import { tryPage } from '../../downstream/pages/try-page.ts'
import type { RequestStateCodec } from '../../protocol/request-state.ts'
import { callPages, type CallParts, callTopics } from './calls.ts'
import { type ConsoleGateway, ConsoleNeeds } from './needs.ts'
import type { ToolLists } from './tool-lists.ts'
import { ConsoleCalls } from './try.ts'

interface ConsoleParts extends ConsoleGateway, CallParts {
  readonly handle: Handler
  readonly toolLists: ToolLists
  codec(): RequestStateCodec
}

/** The console. */
export interface Console {
  readonly pages: readonly ConsolePage[]
  readonly topics: LiveOptions['topics']
  /** How many things need a page user; undefined if that is not known in time. */
  needs(user: PageUser): Promise<number | undefined>
}

/** How long a page waits for the number of things that need its reader, in milliseconds: longer than each of them is waited for. */
const COUNT_TIMEOUT_MS = 2000

/** Creates the console of a gateway. */
export function createConsole(parts: ConsoleParts): Console {
  const needs = new ConsoleNeeds(parts)
  const { servers } = parts.owner
  const kinds = async (user: PageUser): Promise<Overview['needs']> => {
    const found = await ifAnswered(needs.needs(user), COUNT_TIMEOUT_MS)
    return found && needsKinds(found)
  }
  const states = (): Overview['servers'] =>
    [...parts.runtime().upstreams].map(([name, { status }]) => {
      return { name, state: stateOf(status), problem: status.problem }
    })
  const [timeline, ...others] = callPages(parts, { needs: kinds, servers: states })
  return {
    pages: [
      ...(timeline ? [timeline] : []),
      needsPage(needs),
      ...serversPages(servers),
      tryPage(new ConsoleCalls(parts)),
      ...others,
    ],
    topics: {
      ...callTopics(parts.owner, states),
      needs: async () =>
        needsVersion({ ...(await needs.common()), approvals: await parts.pendingApprovals() }),
      servers: () => serversVersion(servers.list()),
    },
    needs: async (user) => needsCount(await kinds(user)),
  }
}
