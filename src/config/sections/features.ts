/** The settings of features: switches, defaults, and overrides for servers. */
import { isObject } from '../../core/json/json.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { FeatureSchema, FeatureSettings } from '../../core/settings.ts'
import { complete, withSwitches } from '../complete.ts'
import type { FeatureDefaults } from './profile.ts'
import { isPersonal } from './upstream-oauth.ts'

type Values = Readonly<Record<string, unknown>>

/** The values of a file, and the defaults of a feature for a server, or for all. */
interface Source {
  readonly file: Values
  defaults(feature: string, server?: string): FeatureDefaults
}

/** The settings of every feature that is on for at least one server, from the expanded values of a file. */
export function featureSettings(
  features: readonly FeatureSchema[],
  source: Source,
): Readonly<Record<string, FeatureSettings>> {
  const entries = features.map((feature) => [feature.name, settingsOf(feature, source)] as const)
  return Object.fromEntries(
    entries.filter((entry): entry is [string, FeatureSettings] => entry[1] !== undefined),
  )
}

function settingsOf(feature: FeatureSchema, { file, defaults }: Source): FeatureSettings | undefined {
  const schema = withSwitches(feature.schema)
  const common = written(feature, file)
  const settledFor = (own: unknown, { isOn, values = {} }: FeatureDefaults): unknown => {
    const shared = common ?? (isOn ? 'on' : schema.default)
    if (own === undefined) return settled(shared, values, schema)
    return settled(own, isObject(shared) ? merged(values, shared) : values, schema)
  }
  const overrides = Object.entries(isObject(file.upstreams) ? file.upstreams : {}).flatMap(
    ([name, upstream]) => {
      if (!isObject(upstream)) return []
      const isLeft =
        (feature.isLeftToGateway === true && upstream.gateway_key !== undefined) ||
        (feature.isLeftToPersonal === true && common === undefined && isPersonal(upstream))
      const own = written(feature, upstream) ?? (isLeft ? 'off' : undefined)
      const isSame = own === undefined && upstream.compat === undefined
      return isSame ? [] : [[name, settledFor(own, defaults(feature.name, name))] as const]
    },
  )
  const settings = {
    common: settledFor(undefined, defaults(feature.name)),
    upstreams: Object.fromEntries(overrides),
  }
  const isOn = [settings.common, ...Object.values(settings.upstreams)].some((value) => value !== false)
  return isOn ? settings : undefined
}

function written({ name, place, schema }: FeatureSchema, values: Values): unknown {
  if (place === 'limits') return isObject(values.limits) ? only(values.limits, schema.properties) : undefined
  if (place === 'top') return values[name]
  if (values.features === 'none') return 'off'
  return isObject(values.features) ? values.features[name] : undefined
}

/** The values of some properties, or undefined if none has a value. */
function only(values: Values, properties: unknown): Values | undefined {
  const known = isObject(properties) ? properties : {}
  const own = Object.entries(values).filter(([key]) => Object.hasOwn(known, key))
  return own.length > 0 ? Object.fromEntries(own) : undefined
}

function settled(value: unknown, below: unknown, schema: JsonSchema): unknown {
  if (value === 'off' || value === false) return false
  return complete(merged(isObject(below) ? below : {}, isObject(value) ? value : {}), schema)
}

function merged(below: Values, above: Values): Values {
  const entries = Object.entries(above).map(([key, value]) => {
    const other = Object.hasOwn(below, key) ? below[key] : undefined
    return [key, isObject(other) && isObject(value) ? merged(other, value) : value]
  })
  return { ...below, ...Object.fromEntries(entries) }
}
