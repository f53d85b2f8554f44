import { isObject } from '../core/json.ts'
import type { Finding } from './problem.ts'

/** Checks the new names of the tools of one upstream: one tool has a new name, and a name is of one tool. */
export function renameProblems(tools: unknown, path: readonly string[]): Finding[] {
  if (!isObject(tools)) return []
  const renames = Object.entries(tools).flatMap(([name, settings]) =>
    isObject(settings) && typeof settings.rename === 'string' ? [[name, settings.rename] as const] : [],
  )
  return renames.flatMap(([name, rename], index): Finding[] => {
    const at = [...path, name, 'rename']
    const twin = renames.slice(0, index).find(([, other]) => other === rename)?.[0]
    if (name.includes('*')) return [{ path: at, message: 'a pattern stands for several tools: name one' }]
    if (rename === name) return [{ path: at, message: 'this is its name already: remove it' }]
    if (twin !== undefined) return [{ path: at, message: `this is the new name of ${twin} too` }]
    if (!Object.hasOwn(tools, rename) || renames.some(([other]) => other === rename)) return []
    const message = `there are settings for ${rename} of their own: write them here, beside the new name`
    return [{ path: at, message }]
  })
}
