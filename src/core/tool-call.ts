/** Small questions about calls of tools: their arguments, keys, trial runs, and how they are shown. */
import type { Call } from './call.ts'
import type { Descriptor } from './descriptor.ts'
import { isObject } from './json/json.ts'
import { Payload } from './payload.ts'
import type { ArgumentSource } from './undo/argument-mapping.ts'
import type { Expression } from './undo/expression.ts'
import { isAuxiliary, isTrial, isWidening } from './undo/selectors.ts'
import type { Field, ToolShape } from './undo/tool-shape.ts'

// Keeps a call that undoes another one as narrow as its tool allows: switches that hit more are given as `false`,
// and each argument that is left out and may choose what is hit is named.

/** Whether an argument is a switch that widens what is hit, or makes a call a trial. */
export function isNarrowed(field: Field): boolean {
  return isWidening(field) || isTrial(field)
}

/** Gives such switches as `false`. */
export const withoutWidening: ArgumentSource = (wanted) =>
  isNarrowed(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** Gives what would make a call a trial as `false`: there it is content that other switches may be. */
export const withoutTrial: ArgumentSource = (wanted) =>
  isTrial(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** The doubts about arguments a call leaves out: what they are by default may hit other things. */
export function omittedArguments(
  { name, inputs = [] }: ToolShape,
  { arguments: given }: Expression,
): string[] {
  return inputs
    .filter((field) => !given.has(field.name) && !isAuxiliary(field))
    .map((field) => `${name} is called without ${field.name}, which may change what it hits`)
}

/** A call of a tool as people read it: each value at most so many characters long. */
export function displayCall(tool: string, given: Readonly<Record<string, unknown>>, maxLength = 60): string {
  const displayed = Object.entries(given)
    .slice(0, MAX_DISPLAYED_ARGUMENTS)
    .map(([name, value]) => `${name}=${shortened(JSON.stringify(value) ?? 'null', maxLength)}`)
  const rest = Object.keys(given).length > MAX_DISPLAYED_ARGUMENTS ? ', …' : ''
  return `${tool}(${displayed.join(', ')}${rest})`
}

/** How many arguments are shown. */
const MAX_DISPLAYED_ARGUMENTS = 10

function shortened(text: string, maxLength: number): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1)}…`
}

/** Arguments by which tools take a key themselves. */
const names = ['idempotency_key', 'idempotencyKey', 'client_token', 'request_id']

/** The call with its key in the argument that takes it, unless the caller has filled that itself. */
export function withKeyArgument(
  call: Call,
  key: string,
  setting: string | false | undefined,
  entry: Descriptor | undefined,
): Call {
  const name = setting ?? derived(entry)
  if (name === undefined || name === false) return call
  const given = call.params.at('arguments') ?? Payload.of({})
  if (Object.hasOwn(given.fields, name)) return call
  return { ...call, params: call.params.with({ arguments: given.with({ [name]: key }) }) }
}

function derived(entry: Descriptor | undefined): string | undefined {
  const schema = entry?.definition.inputSchema
  const properties = isObject(schema) ? schema.properties : undefined
  if (!isObject(properties)) return undefined
  return names.find((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined
    return isObject(property) && [property.type].flat().includes('string')
  })
}

const strippedArguments = new WeakMap<Call['logFields'], unknown>()

/** Notes what is left of the arguments of a call once what is for the gateway was taken out of them. */
export function noteBareArguments({ logFields, params }: Call): void {
  strippedArguments.set(logFields, params.fields.arguments)
}

/** The arguments of a call as its server would get them, for who sees the call before anything was taken out of them. */
export function bareArguments({ logFields, params }: Call): unknown {
  return strippedArguments.get(logFields) ?? params.fields.arguments
}

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
  const pending: unknown[] = [schema]
  for (let visited = 0; pending.length > 0 && visited < MAX_SCHEMA_NODES; visited++) {
    const part = pending.pop()
    if (!isObject(part) && !Array.isArray(part)) continue
    if (isObject(part)) {
      const { properties, required } = part
      for (const name of isObject(properties) ? Object.keys(properties) : []) names.add(name)
      for (const name of Array.isArray(required) ? required : []) names.add(String(name))
    }
    for (const inner of Object.values(part)) pending.push(inner)
  }
  return names
}

/** The call its caller would make of another tool; with which arguments is not known yet. */
export function callOf(call: Call, { upstream, name }: Pick<Descriptor, 'upstream' | 'name'>): Call {
  const method = 'tools/call'
  return { ...call, method, target: { upstream, method, name }, params: Payload.of({ name }) }
}
