import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { hasSchema, schemaText } from './published-schemas.ts'
import { isObject, type Json, objectAt } from './server/json.ts'
import { type Revision, revisions } from './server/revisions.ts'

/** Whether the published schemas of all revisions are there to hold messages against. */
export const hasMessageSchemas = revisions.every((revision) => hasSchema(fileOf(revision)))

/** Holds messages of one revision against its published schema. */
export class MessageSchemas {
  readonly #ajv: Ajv | Ajv2020
  readonly #prefix: string
  readonly #definitions: Json
  readonly #checks = new Map<string, ValidateFunction>()

  constructor(revision: Revision) {
    const schema: Json = JSON.parse(schemaText(fileOf(revision)))
    const isOld = String(schema['$schema']).includes('draft-07')
    const options = { allErrors: true, strict: false, formats }
    this.#ajv = isOld ? new Ajv(options) : new Ajv2020(options)
    const member = isOld ? 'definitions' : '$defs'
    this.#ajv.addSchema(schema, revision)
    this.#prefix = `${revision}#/${member}/`
    this.#definitions = objectAt(schema, member)
  }

  /** What is wrong with a message to a client; `asked` is the method a reply answers. */
  faults(message: Json, asked?: string): string[] {
    const { method, result, error } = message
    if (method !== undefined) return this.#toldFaults(message, String(method))
    if (isObject(error)) return this.#errorFaults(message, error)
    return this.#resultFaults(message, result, asked)
  }

  /** A request or a notification: its definition is the one that names its method. */
  #toldFaults(message: Json, method: string): string[] {
    const suffix = message['id'] === undefined ? 'Notification' : 'Request'
    const name = this.#named(method, suffix)
    // What only vendors know has the shape of every message.
    const isForeign = name === undefined && publishedMethods.has(method)
    return [
      ...this.#against('JSONRPCMessage', message),
      ...(name === undefined ? [] : this.#against(name, message)),
      ...(isForeign ? [`this revision has no ${method}`] : []),
    ]
  }

  #errorFaults(message: Json, error: Json): string[] {
    const [whole = ''] = ['JSONRPCErrorResponse', 'JSONRPCError'].filter((name) => this.#has(name))
    const own = Object.keys(this.#definitions).find(
      (name) => name.endsWith('Error') && constantsIn(this.#definitions[name]).includes(error['code']),
    )
    const isWhole = own !== undefined && objectAt(this.#definitions[own], 'properties')['error'] !== undefined
    return [
      ...this.#against(whole, message),
      ...(own === undefined ? [] : this.#against(own, isWhole ? message : error)),
    ]
  }

  #resultFaults(message: Json, result: unknown, asked: string | undefined): string[] {
    const base = asked === undefined ? undefined : this.#named(asked, 'Request')?.replace(/Request$/, '')
    const response = `${base}ResultResponse`
    if (this.#has(response)) return this.#against(response, message)
    const name = [`${base}Result`, base === undefined ? 'Result' : 'EmptyResult'].find((each) =>
      this.#has(each),
    )
    return [...this.#against('JSONRPCMessage', message), ...this.#against(name ?? 'Result', result)]
  }

  #named(method: string, suffix: string): string | undefined {
    return Object.keys(this.#definitions).find(
      (name) => name.endsWith(suffix) && methodOf(this.#definitions[name]) === method,
    )
  }

  #has(name: string): boolean {
    return this.#definitions[name] !== undefined
  }

  #against(name: string, value: unknown): string[] {
    const check = this.#checks.get(name) ?? this.#ajv.compile({ $ref: `${this.#prefix}${name}` })
    this.#checks.set(name, check)
    return check(value) ? [] : (check.errors ?? []).map((each) => `${name}: ${sentenceOf(each)}`)
  }
}

function fileOf(revision: Revision): string {
  return `mcp/${revision}/schema.json`
}

const formats = {
  byte: /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
  uri: (text: string) => /^[a-z][a-z0-9+.-]*:\S*$/i.test(text),
  'uri-template': (text: string) => /^[^\s{}]*(?:\{[^\s{}]+\}[^\s{}]*)*$/.test(text),
}

/** The notifications and questions that any revision has. */
const publishedMethods: ReadonlySet<unknown> = new Set(
  hasMessageSchemas
    ? revisions.flatMap((revision) => {
        const schema: Json = JSON.parse(schemaText(fileOf(revision)))
        const definitions = { ...objectAt(schema, 'definitions'), ...objectAt(schema, '$defs') }
        return Object.values(definitions).map(methodOf)
      })
    : [],
)

function methodOf(definition: unknown): unknown {
  return objectAt(objectAt(definition, 'properties'), 'method')['const']
}

/** Every constant in a schema: of an error, its code. */
function constantsIn(schema: unknown): unknown[] {
  if (Array.isArray(schema)) return schema.flatMap(constantsIn)
  if (!isObject(schema)) return []
  return Object.entries(schema).flatMap(([key, part]) => (key === 'const' ? [part] : constantsIn(part)))
}

function sentenceOf({ instancePath, message, params }: ErrorObject): string {
  return `${instancePath || 'it'} ${message ?? 'is wrong'} ${JSON.stringify(params)}`
}
