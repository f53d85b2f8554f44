// What of a server's messages is let in. Members that are the gateway's own word are cut out here, for every transport
// and era, so that no code behind this place has to ask who wrote them. A server that is trusted as a peer of the
// gateway is let keep names by `mayKeep`; that is the one place where such an exception is made.
import type { Log } from '../core/log.ts'
import { type MayKeep, withoutReservedKeys } from '../wire/reserved-keys.ts'
import type { OpenTransport } from './link.ts'

interface Options {
  readonly mayKeep?: MayKeep
  readonly log: Log
}

/** How many names of a connection are logged, so that a server cannot fill the log. */
const MAX_LOGGED = 10

const HINT = 'if the server is a Gatehouse of yours, name its key with gateway_key (or --gateway-key)'

/** Opens connections whose messages arrive without what would speak in the gateway's name. */
export function admitting(connect: OpenTransport, { mayKeep, log }: Options): OpenTransport {
  return (receiver) => {
    const logged = new Set<string>()
    const note = (removed: readonly string[]): void => {
      const unseen = removed.filter((each) => !logged.has(each)).slice(0, MAX_LOGGED - logged.size)
      for (const each of unseen) logged.add(each)
      if (unseen.length > 0) log.warn('upstream.reserved_members', { members: unseen, hint: HINT })
    }
    return connect({
      ...receiver,
      receive: (arrived, about) => {
        const { text, removed } = withoutReservedKeys(arrived, mayKeep)
        if (removed.length > 0) note(removed)
        receiver.receive(text, about)
      },
    })
  }
}
