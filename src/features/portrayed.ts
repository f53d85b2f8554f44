import type { Call } from '../core/call.ts'
import { portraitOfAll } from '../documents/draw.ts'
import type { ServerDescription } from '../documents/portrait.ts'
import type { Deps } from './feature.ts'

/** Portraits of several servers without some of them, by which ones are left. */
const fewer = new WeakMap<ServerDescription, Map<string, ServerDescription>>()

/** What the documents of a feature are made of: of several servers, those alone that the feature is on for. */
export function portrayed(
  feature: string,
  call: Call,
  deps: Deps,
): ServerDescription | Promise<ServerDescription> {
  const found = deps.portrait(call.target.upstream, call)
  return found instanceof Promise
    ? found.then((portrait) => partsWith(feature, portrait, deps))
    : partsWith(feature, found, deps)
}

function partsWith(feature: string, portrait: ServerDescription, deps: Deps): ServerDescription {
  const parts = portrait.parts.filter(({ name }) => deps.isOn(feature, name))
  if (parts.length === portrait.parts.length) return portrait
  const known = fewer.get(portrait) ?? new Map<string, ServerDescription>()
  fewer.set(portrait, known)
  const key = parts.map(({ name }) => name).join()
  const drawn = known.get(key) ?? portraitOfAll(parts, portrait.front)
  known.set(key, drawn)
  return drawn
}
