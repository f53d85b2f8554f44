/**
 * What tools of a server are called here, and which are not offered. Everything outside of the server's own connection
 * knows a renamed tool by its new name alone: rules, judgement, logs, documents. Invariant: a name stands for one tool.
 * A new name goes before one the server lists itself, which is then left out, so no server takes a name by listing it.
 */
import type { Call, Handler } from '../core/call.ts'
import type { Log } from '../core/log.ts'
import { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { settingOf } from '../core/tool-settings.ts'
import { unknownTool } from '../core/unknown.ts'
import type { IndexedTool } from './tools.ts'

type FindTool = (call: Call) => IndexedTool | undefined | Promise<IndexedTool | undefined>

/** The server by the names tools have here. */
export interface ToolNames {
  /** Its calls and lists. With `isWhole` the tools that are not offered are there. */
  handle(next: Handler, isWhole?: boolean): Handler
  find(next: FindTool): FindTool
  /** Tools that have a new name which the server turned out to list itself, with that name. */
  readonly taken: ReadonlyMap<string, string>
}

/** What renames and hides the tools of a server; nothing where nothing is to be. */
export function toolNames({ renames, tools }: UpstreamSettings, log: Log): ToolNames | undefined {
  const given = new Map(Object.entries(renames))
  const isHiding = Object.values(tools).some(({ hide }) => hide === true)
  if (given.size === 0 && !isHiding) return undefined
  const original = new Map([...given].map(([name, renamed]) => [renamed, name]))
  const isHidden = (name: string): boolean => settingOf(tools, name, 'hide')?.value === true
  const definitions = new WeakMap<object, IndexedTool>()
  const taken = new Map<string, string>()

  /** The name the server knows a tool by; nothing where none has this name. */
  const nameAt = (name: string, isWhole: boolean): string | undefined => {
    if (!isWhole && isHidden(name)) return undefined
    return original.get(name) ?? (given.has(name) ? undefined : name)
  }
  /** What a listed tool is called; nothing where it is left out. */
  const nameOf = (listed: string, isWhole: boolean): string | undefined => {
    const name = given.get(listed) ?? listed
    if (!given.has(listed) && original.has(listed)) {
      reportTaken(listed)
      return undefined
    }
    return !isWhole && isHidden(name) ? undefined : name
  }
  const reportTaken = (name: string): void => {
    const renamed = original.get(name) ?? ''
    if (taken.has(renamed)) return
    taken.set(renamed, name)
    log.warn('upstream.name_taken', { name, reason: `it is the new name of ${renamed}` })
  }
  const listed = (result: Payload, isWhole: boolean): Payload => {
    const list = result.at('tools')
    if (!list || !Array.isArray(list.value)) return result
    const kept = list.items.flatMap((entry) => {
      const { name } = entry.fields
      if (typeof name !== 'string') return [entry]
      const shown = nameOf(name, isWhole)
      if (shown === undefined) return []
      return [shown === name ? entry : entry.with({ name: shown })]
    })
    return result.with({ tools: Payload.text(`[${kept.map(({ text }) => text).join(',')}]`) })
  }
  const called = (call: Call, isWhole: boolean): Call | undefined => {
    const { name } = call.params.fields
    if (typeof name !== 'string') return call
    const known = nameAt(name, isWhole)
    if (known === undefined || known === name) return known === undefined ? undefined : call
    return { ...call, params: call.params.with({ name: known }), target: { ...call.target, name: known } }
  }
  const shownTool = (tool: IndexedTool | undefined): IndexedTool | undefined => {
    const name = tool && nameOf(String(tool.definition.name), false)
    if (!tool || name === undefined || name === tool.definition.name)
      return name === undefined ? undefined : tool
    // The same definition for the same tool: what is known of it is kept by that.
    const made = definitions.get(tool.definition) ?? { ...tool, definition: { ...tool.definition, name } }
    definitions.set(tool.definition, made)
    return made
  }

  return {
    taken,
    handle:
      (next, isWhole = false) =>
      async (call) => {
        if (call.method === 'tools/list') {
          const outcome = await next(call)
          return outcome.kind === 'result' ? { ...outcome, result: listed(outcome.result, isWhole) } : outcome
        }
        if (call.method !== 'tools/call') return next(call)
        const known = called(call, isWhole)
        if (!known) throw unknownTool(String(call.params.fields.name))
        return next(known)
      },
    find: (next) => (call) => {
      const known = called(call, false)
      if (!known) return undefined
      const found = next(known)
      return found instanceof Promise ? found.then(shownTool) : shownTool(found)
    },
  }
}
