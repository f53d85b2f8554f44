import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call, Handler } from '../../core/call.ts'
import { method as known } from '../../wire/methods.ts'
import type { Deps, Feature } from '../feature.ts'
import type { Answered } from '../own-tool.ts'
import { createListeners, introduced } from './listeners.ts'
import { announcing, standingIn } from './retired.ts'
import { createWatch, NAME, type Watch } from './watch.ts'

/** Versions what each server offers, keeps what of it changed, and announces what will go. */
export const contract: Feature<Record<never, never>> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description:
      'A version of what each server offers, which rises with what changes; clients are told, and `gatehouse changelog` prints it.',
    properties: {},
  },
  create: (_settings, deps) => {
    const listeners = createListeners(deps)
    const watch = createWatch(deps, listeners.tell)
    return {
      middleware: (target) => {
        const { upstream, method, isBuiltin } = target
        if (upstream === undefined || isBuiltin) return undefined
        if (method === 'tools/call') return standingIn(target, deps)
        if (method === 'subscriptions/listen') return listeners.listening(upstream)
        if (method === 'server/discover')
          return (next) => (call) =>
            next(call).then((outcome) => introduced(outcome, watch.version(upstream)))
        if (known(method).list === undefined) return undefined
        const announce = method === 'tools/list' ? announcing(deps.server(upstream)?.tools ?? {}) : undefined
        return (next) => heeding(announce ? announce(next) : next, upstream, { watch, deps })
      },
      start: async () => watch.start(),
    }
  },
}

interface Heard {
  readonly watch: Watch
  readonly deps: Deps
}

/** Of how many callers the last list is known. */
const MAX_CALLERS = 1000

/** Lists that clients get tell of changes too: a list that is another than the one before says that there is one. */
function heeding(list: Handler, upstream: string, { watch, deps }: Heard): Handler {
  // Callers may be shown different lists, so each is compared with what the same caller got before.
  const known = new LRUCache<string, string>({ max: MAX_CALLERS })
  const heed = ({ result }: Answered, { principal }: Call): void => {
    const who = [principal.id, ...[...(principal.scopes ?? [])].toSorted()].join(' ')
    const last = known.get(who)
    const digest = hash('sha256', result.text)
    known.set(who, digest)
    if (last !== undefined && last !== digest) deps.records().renew(upstream)
    else watch.look(upstream)
  }
  return async (call) => {
    const outcome = await list(call)
    if (outcome.kind === 'result' && !call.internal && call.params.fields.cursor === undefined)
      heed(outcome, call)
    return outcome
  }
}
