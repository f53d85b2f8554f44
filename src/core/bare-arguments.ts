import type { Call } from './call.ts'

const bare = new WeakMap<Call['logFields'], unknown>()

/** Notes what is left of the arguments of a call once what is for the gateway was taken out of them. */
export function noteBareArguments({ logFields, params }: Call): void {
  bare.set(logFields, params.fields.arguments)
}

/** The arguments of a call as its server would get them, for who sees the call before anything was taken out of them. */
export function bareArguments({ logFields, params }: Call): unknown {
  return bare.get(logFields) ?? params.fields.arguments
}
