/**
 * The tools of servers, for pages that do not wait for them: a server that does not answer `tools/list` is shown with what it
 * listed last, and how long it has been silent. Each server is asked by one request at a time, whoever opens a page.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import { asGatewayError, isUnanswered } from '../../core/error.ts'
import { ifAnswered, within } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { Services } from '../../features/feature.ts'
import type { Runtime } from '../runtime.ts'

/** How long a page waits for a list that was just requested, and for one that is kept, in milliseconds. */
const GRACE_MS = 300
const KEPT_TIMEOUT_MS = 300

/** The servers, and what they list. */
interface Servers {
  readonly upstreams: ReadonlyMap<string, object>
  readonly services: { readonly servers: Pick<Services['servers'], 'tools'> }
  readonly lastTools: Runtime['lastTools']
}

/** The tools of a server, or why they are not known. */
export type ShownTools =
  | { readonly tools: readonly Descriptor[]; readonly note?: string }
  | { readonly problem: string }

/** A request for a list. */
interface Asked {
  readonly answer: Promise<ShownTools>
  /** Since when the server has not answered, on the monotonic clock: also requests before this one. */
  readonly silentSince: number
  /** When the request was made. */
  readonly at: number
}

/** Lists the tools of the servers of the present configuration. */
export class ToolLists {
  readonly #runtime: () => Servers
  readonly #asked = new WeakMap<object, Asked>()
  readonly #silentSince = new WeakMap<object, number>()

  constructor(runtime: () => Servers) {
    this.#runtime = runtime
  }

  async of(server: string): Promise<ShownTools> {
    const runtime = this.#runtime()
    const upstream = runtime.upstreams.get(server)
    if (!upstream) return { problem: 'There is no such server.' }
    const { answer, silentSince, at } = this.#asked.get(upstream) ?? this.#ask(server, upstream, runtime)
    const left = at + GRACE_MS - world.monotonic()
    const found = await within(answer, Math.max(0, left), undefined)
    if (found) return found
    const seconds = Math.max(1, Math.round((world.monotonic() - silentSince) / 1000))
    const problem = `This server has not answered tools/list for ${seconds} s.`
    const tools = await ifAnswered(runtime.lastTools(server), KEPT_TIMEOUT_MS)
    return tools ? { tools, note: `${problem} These are the tools that it listed last.` } : { problem }
  }

  #ask(server: string, upstream: object, runtime: Servers): Asked {
    const at = world.monotonic()
    const silentSince = this.#silentSince.get(upstream) ?? at
    const ended = (shown: ShownTools, isSilent = false): ShownTools => {
      this.#asked.delete(upstream)
      if (isSilent) this.#silentSince.set(upstream, silentSince)
      else this.#silentSince.delete(upstream)
      return shown
    }
    const answer = runtime.services.servers.tools(server).then(
      (tools) => ended({ tools }),
      (error: unknown) => ended({ problem: asGatewayError(error).message }, isUnanswered(error)),
    )
    const asked = { answer, silentSince, at }
    this.#asked.set(upstream, asked)
    return asked
  }
}
