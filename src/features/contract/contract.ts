import { method as known } from '../../wire/methods.ts'
import type { Feature } from '../feature.ts'
import { createListeners, introduced } from './listeners.ts'
import { announcing, standingIn } from './retired.ts'
import { createWatch, NAME } from './watch.ts'

/** Versions what each server offers, keeps what of it changed, and announces what will go. */
export const contract: Feature<Record<never, never>> = {
  name: NAME,
  place: 'features',
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
      policy: (target) => {
        const { upstream, method, isOwn } = target
        if (upstream === undefined || isOwn) return undefined
        if (method === 'tools/call') return standingIn(target, deps)
        if (method === 'subscriptions/listen') return listeners.listening(upstream)
        if (method === 'server/discover')
          return (next) => (call) =>
            next(call).then((outcome) => introduced(outcome, watch.version(upstream)))
        if (known(method).list === undefined) return undefined
        const announce = method === 'tools/list' ? announcing(deps.server(upstream)?.tools ?? {}) : undefined
        return (next) => {
          const list = announce ? announce(next) : next
          return (call) => {
            if (call.errand) return list(call)
            return list(call).finally(() => watch.look(upstream))
          }
        }
      },
      start: async () => watch.start(),
    }
  },
}
