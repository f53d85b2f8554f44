import { LRUCache } from 'lru-cache'
import { type Call, compose, type Handler, type Policy } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Target } from '../core/target.ts'
import { type Aggregate, aggregate } from './aggregate.ts'

interface Options {
  /** The handler of each server, by its name, in the order of the configuration. */
  readonly upstreams: ReadonlyMap<string, Handler>
  /** The policies of a target, outermost first. */
  policies(target: Target): readonly (Policy | undefined)[]
  /** The frame around every call of a client. */
  readonly observe: Policy
  /** Whether all servers are offered together where a call names none. */
  readonly isAggregate: boolean
}

/** Finds what does a call: the compiled chain of its target. */
export interface Catalog {
  readonly handle: Handler
  /** The call as its one server gets it, or nothing where it is for several. */
  resolve(call: Call): Call | Promise<Call | undefined>
  /** Names that would be the same once servers are offered together. */
  readonly collisions: Aggregate['collisions']
  /** Ends what lasts as long as this catalog. */
  close(): void
}

/** How many targets keep their compiled chain. */
const CHAINS = 10_000

/** Compiles the chains of all servers, each when it is first needed. */
export function createCatalog({ upstreams, policies, observe, isAggregate }: Options): Catalog {
  const chains = new LRUCache<string, Handler>({ max: CHAINS })
  const ended = new AbortController()

  const one: Handler = (call) => {
    const { upstream, method, name } = call.target
    const key = name === undefined ? `${upstream} ${method}` : `${upstream} ${method} ${name}`
    let chain = chains.get(key)
    if (!chain) {
      const end = upstream === undefined ? undefined : upstreams.get(upstream)
      if (!end) return Promise.reject(unknownUpstream(upstream))
      chain = compose(policies(call.target), end)
      chains.set(key, chain)
    }
    return chain(call)
  }

  const names = [...upstreams.keys()]
  const [only, ...others] = names
  const single = only !== undefined && others.length === 0 ? only : undefined
  const all = aggregate({ names, handle: one, ended: ended.signal })

  /** A call that names no server is for the only one, or for all. */
  const addressed = (call: Call): Call => {
    if (call.target.upstream !== undefined || single === undefined) return call
    return { ...call, target: { ...call.target, upstream: single } }
  }
  const handle: Handler = observe((call) => {
    const found = addressed(call)
    if (found.target.upstream !== undefined) return one(found)
    if (!isAggregate) return Promise.reject(unknownUpstream(undefined))
    return all.handle(found)
  })

  return {
    handle,
    resolve: (call) => {
      const found = addressed(call)
      return found.target.upstream === undefined ? all.resolve(found) : found
    },
    collisions: all.collisions,
    close: () => ended.abort(),
  }
}

function unknownUpstream(name: string | undefined): GatewayError {
  const message = name === undefined ? 'Name a server: /mcp/<server>.' : `There is no server named ${name}.`
  return new GatewayError('UNSUPPORTED_OPERATION', message)
}
