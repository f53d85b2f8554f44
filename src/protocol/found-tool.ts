/** The list entry of the tool that a call names: looked up once, where the call enters, and taken along. */
import type { Call, Target } from '../core/call.ts'
import { Slot } from '../core/slot.ts'
import type { HeaderMirror } from './headers.ts'

/** What must be known of a tool before it is called. */
export interface ListedTool {
  /** The entry of the server's list. */
  readonly definition: Readonly<Record<string, unknown>>
  /** Set if the server does not list its tools, so that only the name is known. */
  readonly isUnlisted?: true
  /** The entries of the whole list that it is in; the same array while the list is the same. */
  list?(): readonly Readonly<Record<string, unknown>>[]
  /** The arguments mirrored in headers. */
  readonly mirror?: HeaderMirror
  /** It runs only as a task of 2025-11-25, or can. */
  readonly taskSupport?: 'optional' | 'required'
}

interface FoundTool {
  readonly upstream: string | undefined
  /** The name or alias that it was found by. */
  readonly name: string | undefined
  readonly tool: ListedTool
}

const slot = new Slot<FoundTool>('found tool')

/** The tool that a call names, if it was found before. */
export function foundTool(call: Call): ListedTool | undefined {
  const found = slot.of(call)
  if (!found) return undefined
  const { upstream, name } = call.target
  const isSame = found.upstream === upstream && (found.name === name || found.tool.definition.name === name)
  return isSame ? found.tool : undefined
}

/** The call with the tool that was found for a target. One that is not listed is looked up again. */
export function withFoundTool(call: Call, { upstream, name }: Target, tool: ListedTool | undefined): Call {
  const isKnown = !tool || tool.isUnlisted || slot.of(call)?.tool === tool
  return isKnown ? call : slot.set(call, { upstream, name, tool })
}

/** The call without what was found: its list may have changed. */
export function withoutFoundTool(call: Call): Call {
  return slot.of(call) ? slot.set(call, undefined) : call
}
