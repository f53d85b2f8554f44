/** Helpers for tool calls: arguments, idempotency keys, dry runs, and display. */
import type { Call } from './call.ts'
import type { Descriptor } from './descriptor.ts'
import { isObject } from './json/json.ts'
import { Payload } from './payload.ts'
import { Slot } from './slot.ts'
import type { ArgumentSource } from './undo/argument-mapping.ts'
import type { Expression } from './undo/expression.ts'
import { isAuxiliary, isTrial, isWidening } from './undo/selectors.ts'
import type { Field, ToolShape } from './undo/tool-shape.ts'

// Limits the scope of a compensating call: switches that widen it are passed as `false`, and every omitted argument
// that may select something is reported.

/** Whether an argument is a switch that widens the scope, or makes the call a dry run. */
export function isScopeOrDryRunSwitch(field: Field): boolean {
  return isWidening(field) || isTrial(field)
}

/** Passes switches that widen the scope or make a dry run as `false`. */
export const switchesOff: ArgumentSource = (wanted) =>
  isScopeOrDryRunSwitch(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** Passes dry-run switches as `false`; other switches belong to the restored content. */
export const dryRunOff: ArgumentSource = (wanted) =>
  isTrial(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** Caveats about omitted arguments, whose defaults may select other things. */
export function omittedArguments(
  { name, inputs = [] }: ToolShape,
  { arguments: given }: Expression,
): string[] {
  return inputs
    .filter((field) => !given.has(field.name) && !isAuxiliary(field))
    .map((field) => `${name} is called without ${field.name}, which may change what it affects`)
}

/** Arguments in which tools accept an idempotency key. */
const names = ['idempotency_key', 'idempotencyKey', 'client_token', 'request_id']

/** The call with its key in the argument for it, unless the caller has set that argument. */
export function withKeyArgument(
  call: Call,
  key: string,
  setting: string | false | undefined,
  entry: Descriptor | undefined,
): Call {
  const name = setting ?? (entry && keyArgumentOf(entry))
  if (name === undefined || name === false) return call
  const given = call.params.at('arguments') ?? Payload.of({})
  if (Object.hasOwn(given.fields, name)) return call
  return { ...call, params: call.params.with({ arguments: given.with({ [name]: key }) }) }
}

const keyArguments = new WeakMap<Descriptor, string | false>()

/** The argument of a tool that takes a key, by its schema; false if it has none. */
function keyArgumentOf(entry: Descriptor): string | false {
  let found = keyArguments.get(entry)
  if (found === undefined) keyArguments.set(entry, (found = derived(entry) ?? false))
  return found
}

function derived(entry: Descriptor): string | undefined {
  const schema = entry.definition.inputSchema
  const properties = isObject(schema) ? schema.properties : undefined
  if (!isObject(properties)) return undefined
  return names.find((name) => {
    const property = Object.hasOwn(properties, name) ? properties[name] : undefined
    return isObject(property) && [property.type].flat().includes('string')
  })
}

const strippedArguments = new WeakMap<Call['logFields'], unknown>()

/** Records the arguments of a call after the gateway's own arguments were removed. */
export function recordServerArguments({ logFields, params }: Call): void {
  strippedArguments.set(logFields, params.fields.arguments)
}

/**
 * The arguments of a call as its server receives them, for code that runs before the gateway's own arguments are
 * removed.
 */
export function serverArguments({ logFields, params }: Call): unknown {
  return strippedArguments.get(logFields) ?? params.fields.arguments
}

type Fields = Readonly<Record<string, unknown>>

/** The maximum number of examined schema nodes: schemas are untrusted. */
const MAX_SCHEMA_NODES = 10_000

const known = new WeakMap<object, ReadonlySet<string>>()

/** Whether the input schema of a tool declares an argument of this name, at any depth. */
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

/** The call its caller would make of another tool; its arguments are unknown yet. */
export function callOf(call: Call, { upstream, name }: Pick<Descriptor, 'upstream' | 'name'>): Call {
  const method = 'tools/call'
  return { ...call, method, target: { upstream, method, name }, params: Payload.of({ name }) }
}

/** The stated intent of the caller; unverified. */
export const intentSlot = new Slot<string>('intent')

/** The arguments that the caller left out, and the gateway filled in from earlier calls. */
export const rememberedSlot = new Slot<readonly string[]>('remembered arguments')

/** The idempotency key for the server, if it accepts one. */
export const idempotencyKeySlot = new Slot<string>('idempotency key')
