import { isObject } from './json.ts'

type Fields = Readonly<Record<string, unknown>>

/** How much of a schema is looked at: it is a server's own. */
const MAX_SCHEMA_NODES = 10_000

const known = new WeakMap<object, ReadonlySet<string>>()

/** Whether the schema of a tool's arguments names one of that name, at whatever place in it. */
export function namesArgument({ inputSchema }: Fields, argument: string): boolean {
  if (!isObject(inputSchema)) return false
  let names = known.get(inputSchema)
  if (!names) known.set(inputSchema, (names = namesIn(inputSchema)))
  return names.has(argument)
}

function namesIn(schema: Fields): ReadonlySet<string> {
  const names = new Set<string>()
  const waiting: unknown[] = [schema]
  for (let looked = 0; waiting.length > 0 && looked < MAX_SCHEMA_NODES; looked++) {
    const part = waiting.pop()
    if (!isObject(part) && !Array.isArray(part)) continue
    if (isObject(part)) {
      const { properties, required } = part
      for (const name of isObject(properties) ? Object.keys(properties) : []) names.add(name)
      for (const name of Array.isArray(required) ? required : []) names.add(String(name))
    }
    for (const inner of Object.values(part)) waiting.push(inner)
  }
  return names
}
