/** Creates the features that are on, and answers questions about all of them together. */
import type { Middleware, Target } from '../core/call.ts'
import type { Descriptor, ToolFacts } from '../core/descriptor.ts'
import type { Settings } from '../core/settings.ts'
import {
  type CallerValue,
  type Feature,
  type FeatureInstance,
  type Reserved,
  settingsFor,
  type SettingsOf,
} from '../features/feature.ts'
import type { Services } from '../features/feature.ts'
import { features } from '../features/index.ts'

/** A feature that is on, for some server or all. */
export interface ActiveFeature {
  readonly name: string
  readonly instance: FeatureInstance
  /** Whether it is on for a server, or at all. */
  isOn(upstream?: string): boolean
}

/** Makes the features that are on, in the order in which calls pass them. */
export function activeFeatures(settings: Settings, services: Services): readonly ActiveFeature[] {
  return features.flatMap((feature) =>
    settings.features[feature.name] ? [activate(feature, settings, services)] : [],
  )
}

function activate<Own>(feature: Feature<Own>, settings: Settings, services: Services): ActiveFeature {
  const settingsOf = (upstream?: string) => settingsFor(feature, settings, upstream)
  // A feature whose settings cannot be `false` is passed by where it is off for a server.
  const instance = feature.create(settingsOf as SettingsOf<Own>, services)
  return { name: feature.name, instance, isOn: (upstream) => settingsOf(upstream) !== false }
}

/** The middleware of a target, the outermost first. */
export function middlewaresOf(
  active: readonly ActiveFeature[],
  target: Target,
): readonly (Middleware | undefined)[] {
  return active.map(({ instance, isOn }) =>
    isOn(target.upstream) ? instance.middleware?.(target) : undefined,
  )
}

/** What they know of a tool, prompt or resource, together. */
export function factsOf(
  active: readonly ActiveFeature[],
  entry: Descriptor,
  all: readonly Descriptor[],
): ToolFacts {
  const known = active.map(({ instance, isOn }) =>
    isOn(entry.upstream) ? instance.toolFacts?.(entry, all) : undefined,
  )
  return Object.assign({}, ...known)
}

/** The values for them that models may write among the arguments of a server's tools. */
export function reservedOf(active: readonly ActiveFeature[], upstream: string): readonly Reserved[] {
  return active.flatMap(({ instance, isOn }) => (isOn(upstream) ? (instance.reserved?.(upstream) ?? []) : []))
}

/** The values for them that callers send beside the arguments of a server's tools. */
export function callerValuesOf(active: readonly ActiveFeature[], upstream: string): readonly CallerValue[] {
  return active.flatMap(({ instance, isOn }) => (isOn(upstream) ? (instance.values ?? []) : []))
}
