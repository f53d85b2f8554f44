/**
 * Remembered arguments: values of earlier calls in a session that later calls may leave out. For destructive tools only
 * if the configuration names the tool itself, because such a value is in no argument that a person or model wrote for
 * the call.
 */
import { type Call, listedTool } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { fitting } from '../../core/text/pattern.ts'
import { recordServerArguments, rememberedSlot } from '../../core/tool-call.ts'
import type { Remembered, SessionState } from './session.ts'
import type { RememberSetting } from '../settings/authorize.ts'
import { isNumber } from '../../core/json/exact-number.ts'

/** The arguments of one server's tools that are remembered; undefined if there are none. */
export function rememberedNames(
  setting: RememberSetting,
): ((tool: Pick<Descriptor, 'name' | 'classification' | 'definition'>) => readonly string[]) | undefined {
  const byTool: Readonly<Record<string, readonly string[]>> = isList(setting) ? { '*': setting } : setting
  const globs = Object.keys(byTool)
  if (Object.values(byTool).every((names) => names.length === 0)) return undefined
  return ({ name, classification, definition }) => {
    const [glob] = fitting(globs, name)
    if (glob === undefined || (classification.risk === 'destructive' && glob !== name)) return []
    return (byTool[glob] ?? []).filter((argument) => declares(definition, argument))
  }
}

function isList(setting: RememberSetting): setting is readonly string[] {
  return Array.isArray(setting)
}

type NamesOf = NonNullable<ReturnType<typeof rememberedNames>>

function declares({ inputSchema }: Descriptor['definition'], argument: string): boolean {
  const properties = isObject(inputSchema) ? inputSchema.properties : undefined
  return isObject(properties) && Object.hasOwn(properties, argument)
}

/** The call with the remembered values of the arguments that it leaves out. */
export function withRemembered(call: Call, namesOf: NamesOf, { remembered = {} }: SessionState): Call {
  const tool = listedTool(call)
  if (!tool) return call
  const given = call.params.at('arguments') ?? Payload.of({})
  const missing = namesOf(tool).filter(
    (name) => !Object.hasOwn(given.fields, name) && Object.hasOwn(remembered, name),
  )
  if (missing.length === 0) return call
  const values = Object.fromEntries(missing.map((name) => [name, remembered[name]]))
  const params = call.params.with({ arguments: given.with(values) })
  call.logFields.set('remembered', missing)
  const complete = { ...call, params, slots: rememberedSlot.put(missing, call.slots) }
  recordServerArguments(complete)
  return complete
}

/** The longest remembered text, in characters. */
const MAX_TEXT_LENGTH = 256

/** The values to remember after a call, together with those before it; undefined if nothing changed. */
export function rememberedAfter(
  { tool, params }: Call,
  namesOf: NamesOf,
  { remembered = {} }: SessionState,
): SessionState['remembered'] {
  const { arguments: given } = params.fields
  if (!tool || !isObject(given)) return undefined
  const values = namesOf(tool).flatMap((name): [string, Remembered][] => {
    const value = Object.hasOwn(given, name) ? given[name] : undefined
    return isRememberable(value) && !isSame(remembered[name], value) ? [[name, value]] : []
  })
  return values.length === 0 ? undefined : { ...remembered, ...Object.fromEntries(values) }
}

function isRememberable(value: unknown): value is Remembered {
  if (typeof value === 'string') return value.length <= MAX_TEXT_LENGTH
  return isNumber(value) || typeof value === 'boolean'
}

const NOTE = 'If omitted, its last value in this session applies.'

/** The list entry of a tool, with remembered arguments as optional ones. */
export function withOptional(entry: Payload, tool: Descriptor, namesOf: NamesOf): Payload {
  const schema = entry.at('inputSchema')
  const required = schema?.fields.required
  const names = namesOf(tool)
  const properties = schema?.at('properties')
  if (!schema || !properties || !Array.isArray(required) || names.length === 0) return entry
  const described = names.flatMap((name) => {
    const property = properties.at(name)
    if (!required.includes(name) || !property || !isObject(property.value)) return []
    const { description } = property.fields
    const text = typeof description === 'string' ? `${description} ${NOTE}` : NOTE
    return [[name, property.with({ description: text })] as const]
  })
  if (described.length === 0) return entry
  const left = required.filter((name) => !names.includes(String(name)))
  return entry.with({
    inputSchema: schema.with({
      required: left.length === 0 ? undefined : left,
      properties: properties.with(Object.fromEntries(described)),
    }),
  })
}
