/**
 * The servers of one configuration whose tools are compared with what was accepted, which the feature `pin` does: what of their tools
 * the gateway offers to clients, and to its own features.
 *
 * Invariant: nothing outside of the chain of a call finds a tool that is held, so its name is free for tools of others.
 */
import type { Handler } from '../core/call.ts'
import { type Pinning, pinning } from '../features/offers.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { type ActiveFeature, offered } from './features.ts'

type Found<Tool> = Tool | undefined | Promise<Tool | undefined>

/** A tool as its server lists it. */
interface Listed {
  /** Its server, where that is not known otherwise. */
  readonly upstream?: string
  readonly definition: Readonly<Record<string, unknown>>
}

/** How the tools of each server are compared. */
export class Pinnings {
  readonly #pinned: ReadonlyMap<string, Pinning>
  readonly #handlers = new Map<string, Handler>()

  /** The servers that are pinned, by what the features that are on for each of them offer. */
  constructor(servers: Iterable<string>, active: readonly ActiveFeature[]) {
    const found = [...servers].flatMap((name) => {
      const on = active.filter(({ isOn }) => isOn(name))
      return offered(on, pinning).flatMap((of) => {
        const pinned = of(name)
        return pinned ? [[name, pinned] as const] : []
      })
    })
    this.#pinned = new Map(found)
  }

  /** How the tools of a server are compared; undefined if they are not. */
  of(upstream: string): Pinning | undefined {
    return this.#pinned.get(upstream)
  }

  /** Whether any server is pinned. */
  get areThere(): boolean {
    return this.#pinned.size > 0
  }

  /** Runs the calls of a server, without what is held. */
  handlerOf({ name, handle, tool }: Upstream): Handler {
    const pinned = this.#pinned.get(name)
    if (!pinned) return handle
    const handler = this.#handlers.get(name) ?? pinned.atServer(tool)(handle)
    this.#handlers.set(name, handler)
    return handler
  }

  /** Whether a tool of a server is held. */
  isHeld(upstream: string | undefined, tool: Listed | undefined): boolean {
    const pinned = this.#pinned.get(upstream ?? '')
    return pinned?.isHolding === true && tool !== undefined && pinned.changeOf(tool.definition) !== undefined
  }

  /** A tool that was found, unless it is held. */
  offered<Tool extends Listed>(found: Found<Tool>, upstream?: string): Found<Tool> {
    if (!this.areThere) return found
    const unlessHeld = (tool: Tool | undefined) =>
      this.isHeld(upstream ?? tool?.upstream, tool) ? undefined : tool
    return found instanceof Promise ? found.then(unlessHeld) : unlessHeld(found)
  }
}
