import type { ServerDescription } from './portrait.ts'

type Reached = Pick<ServerDescription, 'name' | 'front' | 'parts'>

/**
 * The URLs of the MCP endpoints a document is about, by the names clients are to know them by: one of all servers
 * together, or those of each. None where clients start the gateway.
 */
export function endpointsOf({ name, front, parts }: Reached): Readonly<Record<string, string>> {
  if (front.endpoint !== undefined) return { [name]: front.endpoint }
  return Object.fromEntries(parts.flatMap((part) => Object.entries(endpointsOf(part))))
}

/** Whether servers have endpoints of their own alone. */
export function isApart({ front, parts }: Pick<ServerDescription, 'front' | 'parts'>): boolean {
  return front.endpoint === undefined && parts.some((part) => part.front.endpoint !== undefined)
}
