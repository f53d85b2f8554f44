import type { Call } from './call.ts'
import type { Descriptor } from './entry.ts'
import { isObject } from './json.ts'
import { Payload } from './payload.ts'

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
