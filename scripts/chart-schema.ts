/**
 * The values of the Helm chart contain a configuration of Gatehouse, so the schema of the values contains its schema: a wrong
 * key is refused before anything is installed. The rest of the file, `deploy/helm/gatehouse/values.schema.json`, is written by
 * hand.
 */
import { asObject, isObject, readJson } from '../src/core/json/json.ts'

/** Where the schema of the values has that of the configuration. */
const NAME = 'gatehouse-config'

/** Definitions of the file that are written by hand. */
const OWN = ['container']

/** What the chart sets. */
const CHART_SETS = ['host', 'port']

/** The schema of the values with the schema of the configuration, given both as texts. */
export function withConfiguration(values: string, configuration: string): string {
  const [page, schema] = [asObject(readJson(values)), forHelm(asObject(readJson(configuration)))]
  const { $defs: definitions, ...file } = asObject(schema)
  const own = Object.entries(asObject(page['$defs'])).filter(([name]) => OWN.includes(name))
  return `${JSON.stringify(
    {
      ...page,
      $defs: {
        ...Object.fromEntries(own),
        [NAME]: configOf(file),
        ...asObject(definitions),
      },
    },
    null,
    2,
  )}\n`
}

/** The schema of `config`: the file without what the chart sets. That there are servers is checked by the chart. */
function configOf(file: Schema): Schema {
  const { version: _version, listen, upstreams, ...others } = asObject(file['properties'])
  const { minProperties: _least, ...servers } = asObject(upstreams)
  const addressless = asObject(listen)
  const remaining = Object.entries(asObject(addressless['properties'])).filter(
    ([key]) => !CHART_SETS.includes(key),
  )
  return {
    type: 'object',
    description:
      'The configuration of Gatehouse, as in gateway.config.yaml. It becomes a ConfigMap, so write secrets as ${NAME}, and say under `secretEnv` which Secret has them. The chart sets `version`, `listen.host`, `listen.port`, and `store` if it is not here.',
    properties: {
      ...others,
      listen: { ...addressless, properties: Object.fromEntries(remaining) },
      upstreams: servers,
    },
    additionalProperties: false,
  }
}

type Schema = Readonly<Record<string, unknown>>

/** Keywords that say something about a value itself, which is unknown where a variable has it. */
const OF_VALUES = new Set(['errorMessage', 'default', 'examples', '$schema', 'title'])

/**
 * A schema as Helm reads it: values may be variables that Gatehouse expands, patterns are those of Go, which cannot look
 * ahead, and what only Gatehouse understands is left out.
 */
function forHelm(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(forHelm)
  if (!isObject(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).flatMap(([key, value]): (readonly [string, unknown])[] => {
      if (key.startsWith('x-') || OF_VALUES.has(key)) return []
      if (key === 'properties' || key === '$defs') return [[key, mapped(value)]]
      if (key !== 'pattern' || typeof value !== 'string') return [[key, forHelm(value)]]
      return value.includes('(?!') ? [] : [[key, `\\$\\{|(?:${value})`]]
    }),
  )
}

/** The schemas of names that are not keywords. */
function mapped(schemas: unknown): Schema {
  return Object.fromEntries(Object.entries(asObject(schemas)).map(([name, each]) => [name, forHelm(each)]))
}
