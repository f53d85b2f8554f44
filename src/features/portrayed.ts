import type { Call } from '../core/call.ts'
import { describeAllServers } from '../documents/draw.ts'
import type { ServerDescription } from '../documents/portrait.ts'
import type { Deps } from './feature.ts'

/** Portraits of several servers without some of them, by which ones are left. */
const fewer = new WeakMap<ServerDescription, Map<string, ServerDescription>>()

/** What the documents of a feature are made of: of several servers, those alone that the feature is on for. */
export function describedList(
  feature: string,
  call: Call,
  deps: Deps,
): ServerDescription | Promise<ServerDescription> {
  const found = deps.description(call.target.upstream, call)
  return found instanceof Promise
    ? found.then((description) => partsWith(feature, description, deps))
    : partsWith(feature, found, deps)
}

function partsWith(feature: string, description: ServerDescription, deps: Deps): ServerDescription {
  const parts = description.parts.filter(({ name }) => deps.isOn(feature, name))
  if (parts.length === description.parts.length) return description
  const known = fewer.get(description) ?? new Map<string, ServerDescription>()
  fewer.set(description, known)
  const key = parts.map(({ name }) => name).join()
  const drawn = known.get(key) ?? describeAllServers(parts, description.front)
  known.set(key, drawn)
  return drawn
}
