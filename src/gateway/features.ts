import type { Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import type { ToolFacts } from '../core/descriptor.ts'
import { featureSettings, type Settings } from '../core/settings.ts'
import type { Target } from '../core/call.ts'
import type { CallerValue, FeatureInstance, Deps, Reserved, SettingsOf } from '../features/feature.ts'
import { features } from '../features/index.ts'

/** A feature that is on, for some server or all. */
export interface Active {
  readonly name: string
  readonly contribution: FeatureInstance
  /** Whether it is on for a server, or at all. */
  isOn(upstream?: string): boolean
}

/** Makes the features that are on, in the order in which calls pass them. */
export function activeFeatures(settings: Settings, deps: Deps): readonly Active[] {
  return features.flatMap((feature) => {
    if (!settings.features[feature.name]) return []
    const settingsOf = (upstream?: string): unknown => featureSettings(settings, feature.name, upstream)
    // Checked against the feature's own schema when the configuration was read.
    const contribution = feature.create(settingsOf as SettingsOf<never>, deps)
    return [{ name: feature.name, contribution, isOn: (upstream) => settingsOf(upstream) !== false }]
  })
}

/** The policies of a target, the outermost first. */
export function policiesOf(active: readonly Active[], target: Target): readonly (Middleware | undefined)[] {
  return active.map(({ contribution, isOn }) =>
    isOn(target.upstream) ? contribution.middleware?.(target) : undefined,
  )
}

/** What they know of a tool, prompt or resource, together. */
export function factsOf(active: readonly Active[], entry: Descriptor, all: readonly Descriptor[]): ToolFacts {
  const known = active.map(({ contribution, isOn }) =>
    isOn(entry.upstream) ? contribution.logFields?.(entry, all) : undefined,
  )
  return Object.assign({}, ...known)
}

/** The values for them that models may write among the arguments of a server's tools. */
export function reservedOf(active: readonly Active[], upstream: string): readonly Reserved[] {
  return active.flatMap(({ contribution, isOn }) =>
    isOn(upstream) ? (contribution.reserved?.(upstream) ?? []) : [],
  )
}

/** The values for them that callers send beside the arguments of a server's tools. */
export function callerValuesOf(active: readonly Active[], upstream: string): readonly CallerValue[] {
  return active.flatMap(({ contribution, isOn }) => (isOn(upstream) ? (contribution.values ?? []) : []))
}
