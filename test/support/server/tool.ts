import type { Call } from './call.ts'
import type { Json } from './json.ts'
import type { Traits } from './revisions.ts'
import type { World } from './world.ts'

/** A tool of the fake server. */
export interface Tool {
  readonly description: string
  /** The properties of its arguments; none are required unless named in `required`. */
  readonly properties?: Json
  readonly required?: readonly string[]
  readonly annotations?: Json
  readonly outputSchema?: Json
  /** Further members of its entry in the list. */
  readonly extra?: Json
  /** Whether a revision can have this tool; all can by default. */
  fits?(traits: Traits): boolean
  /** The members of the result besides the era's own; throws to fail. */
  run(call: Call, args: Json): Json | Promise<Json>
}

/** The entry of a tool in a list, with the fields the revision knows. */
export function toolEntry(world: World, name: string, tool: Tool): Json {
  const { traits } = world
  const { description, properties = {}, required, annotations, outputSchema, extra } = tool
  return {
    name,
    ...(traits.titles && { title: `The ${name} tool` }),
    description,
    inputSchema: { type: 'object', properties, ...(required && { required }) },
    ...(traits.structured && outputSchema && { outputSchema }),
    ...(traits.toolAnnotations && annotations && { annotations }),
    ...(traits.icons && { icons: [{ src: 'https://example.com/icon.png', mimeType: 'image/png' }] }),
    ...extra,
  }
}

/** A result with one text block. */
export function textResult(text: string): Json {
  return { content: [{ type: 'text', text }] }
}

/** A number among the arguments of a call. */
export function numberIn(args: Json, name: string, fallback: number): number {
  const value = args[name]
  return typeof value === 'number' ? value : fallback
}

/** A string among the arguments of a call. */
export function stringIn(args: Json, name: string, fallback: string): string {
  const value = args[name]
  return typeof value === 'string' ? value : fallback
}
