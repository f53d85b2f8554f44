/** Creates the features that are on, and combines their contributions. */
import type { Middleware, Target } from '../core/call.ts'
import type { Descriptor, ToolFacts } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import type { Settings } from '../core/settings.ts'
import {
  type ArrivingHook,
  type HookAnswer,
  type DescribedEventType,
  type CallerValue,
  type EventTrial,
  type Feature,
  type FeatureInstance,
  type Reserved,
  settingsFor,
  type SettingsOf,
  type Services,
} from '../features/feature.ts'
import { features } from '../features/index.ts'

/** A feature that is on for at least one server. */
export interface ActiveFeature {
  readonly name: string
  readonly instance: FeatureInstance
  /** Whether it is on for a server or, without a name, at all. */
  isOn(upstream?: string): boolean
}

/** Creates the features that are on, in the order of the middleware chain. */
export function activeFeatures(settings: Settings, services: Services): readonly ActiveFeature[] {
  return features.flatMap((feature) =>
    settings.features[feature.name] ? [activate(feature, settings, services)] : [],
  )
}

function activate<Own>(feature: Feature<Own>, settings: Settings, services: Services): ActiveFeature {
  const settingsOf = (upstream?: string) => settingsFor(feature, settings, upstream)
  // The middleware of a feature whose settings cannot be `false` is skipped for servers where it is off.
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

/** The combined facts of all features about a tool, prompt or resource. */
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

/** The types of events of a server, or those of none, that no tool has. */
export function eventTypesOf(
  active: readonly ActiveFeature[],
  upstream: string | undefined,
): readonly DescribedEventType[] {
  return active.flatMap(({ instance, isOn }) =>
    isOn(upstream) ? (instance.eventTypes?.(upstream) ?? []) : [],
  )
}

/** The values for features that models may add to the arguments of a server's tools. */
export function reservedOf(active: readonly ActiveFeature[], upstream: string): readonly Reserved[] {
  return active.flatMap(({ instance, isOn }) => (isOn(upstream) ? (instance.reserved?.(upstream) ?? []) : []))
}

/** The values for features that callers send next to the arguments of a server's tools. */
export function callerValuesOf(active: readonly ActiveFeature[], upstream: string): readonly CallerValue[] {
  return active.flatMap(({ instance, isOn }) => (isOn(upstream) ? (instance.values ?? []) : []))
}

/** Accepts a webhook. @throws GatewayError if it is refused */
export async function receiveHook(active: readonly ActiveFeature[], hook: ArrivingHook): Promise<HookAnswer> {
  const receiver = active.find(({ instance }) => instance.receiveHook)
  if (!receiver) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  return receiver.instance.receiveHook?.(hook)
}

/** Looks once for the events that the configuration declares, and says what it found. */
export async function tryEvents(active: readonly ActiveFeature[]): Promise<readonly EventTrial[]> {
  const trials = await Promise.all(active.map(async ({ instance }) => (await instance.tryEvents?.()) ?? []))
  return trials.flat()
}
