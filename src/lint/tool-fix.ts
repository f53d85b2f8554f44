/**
 * What the owner of a server should change in the entry of a tool, so that every client and every provider of models takes it:
 * the problems, and a JSON Patch (RFC 6902) from the entry of the server to the one that is listed.
 */
import { isDeepStrictEqual } from 'node:util'
import { asObject, isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { repairedTool } from '../protocol/schema-repair.ts'
import { checkedPage } from '../protocol/server-shapes.ts'

/** A change of a JSON document. */
interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace'
  readonly path: string
  readonly value?: unknown
}

/** What to change in the entry of a tool; without a patch, only its owner can say how it should be. */
export interface ToolFix {
  /** The name of the tool, or the place of its entry. */
  readonly tool: string
  readonly problems: readonly string[]
  /** Where in the entry the reason is that it cannot be listed, as a JSON pointer. */
  readonly pointer?: string
  readonly patch?: readonly PatchOperation[]
}

/** The fix for an entry of `tools/list`; undefined if nothing is wrong. */
export function toolFix(entry: unknown, index: number): ToolFix | undefined {
  const page = Payload.of({ tools: [entry] })
  const { payload, found } = checkedPage(page, 'tools', { isForProviders: true })
  if (found.length === 0) return undefined
  const { name } = asObject(entry)
  const [kept] = payload.at('tools')?.items ?? []
  const pointer = found.find((each) => each.pointer !== undefined)?.pointer
  return {
    tool: typeof name === 'string' && name !== '' ? name : `entry ${index + 1}`,
    problems: found.map(({ problem }) => problem),
    ...(pointer !== undefined && { pointer }),
    ...(kept && { patch: patchFrom(entry, repairedTool(kept).tool.value) }),
  }
}

/** The operations that make one JSON value the other; a list that differs is replaced as a whole. */
function patchFrom(before: unknown, after: unknown, path = ''): readonly PatchOperation[] {
  if (isDeepStrictEqual(before, after)) return []
  if (!isObject(before) || !isObject(after)) return [{ op: 'replace', path, value: after }]
  const removed = Object.keys(before).filter((key) => !Object.hasOwn(after, key))
  return [
    ...removed.map((key) => ({ op: 'remove', path: `${path}/${escaped(key)}` }) as const),
    ...Object.entries(after).flatMap(([key, value]): readonly PatchOperation[] => {
      const at = `${path}/${escaped(key)}`
      return Object.hasOwn(before, key) ? patchFrom(before[key], value, at) : [{ op: 'add', path: at, value }]
    }),
  ]
}

function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}
