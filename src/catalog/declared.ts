import { type Call, type Handler, type Outcome, resultOf } from '../core/call.ts'
import type { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import { method, unknownMethod } from '../wire/methods.ts'

type Capabilities = Readonly<Record<string, unknown>>

/** How long what a server declared is taken for what it still declares, in milliseconds. */
const CAPABILITIES_STALE_MS = 60_000

/** Refuses methods of capabilities that a server did not declare, without asking it. */
export function onlyDeclared(next: Handler, upstreams: ReadonlyMap<string, Handler>): Handler {
  const known = new Map<string, { readonly capabilities: Capabilities; readonly until: number }>()

  const ask = async (call: Call, upstream: string): Promise<Capabilities | undefined> => {
    const handle = upstreams.get(upstream)
    if (!handle) return undefined
    const { inputResponses: _answers, ...rest } = call
    const target = { method: 'server/discover', upstream }
    const params = Payload.of({}).withMeta(call.meta)
    const discover = { ...rest, method: 'server/discover', params, target, state: {}, emit: () => undefined }
    const { capabilities } = resultOf(await handle(discover)).fields
    if (!isObject(capabilities)) return undefined
    known.set(upstream, { capabilities, until: Date.now() + CAPABILITIES_STALE_MS })
    return capabilities
  }

  const checked = async (call: Call, upstream: string, capability: string): Promise<Outcome> => {
    // A server that can not be asked says so itself when it is called.
    const capabilities = await ask(call, upstream).catch(() => undefined)
    if (capabilities && !isObject(capabilities[capability])) throw absent(call)
    return next(call)
  }

  return (call) => {
    const { capability } = method(call.method)
    const { upstream } = call.target
    if (capability === undefined || upstream === undefined) return next(call)
    const found = known.get(upstream)
    if (found && found.until > Date.now()) {
      return isObject(found.capabilities[capability]) ? next(call) : Promise.reject(absent(call))
    }
    return checked(call, upstream, capability)
  }
}

function absent(call: Call): GatewayError {
  return unknownMethod(call.method)
}
