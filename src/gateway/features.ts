/** Creates the features that are on, and combines their contributions. */
import type { Middleware, Target } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { trailSlot } from '../core/slot.ts'
import type { Settings } from '../core/settings.ts'
import {
  type ExtensionPoint,
  type Feature,
  type FeatureInstance,
  settingsFor,
  type SettingsOf,
  type Services,
} from '../features/feature.ts'
import type { ArrivingHook, HookAnswer } from '../core/http-paths.ts'
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

/** The middleware of a target, the outermost first; calls note which features they reach if `areNoted`. */
export function middlewaresOf(
  active: readonly ActiveFeature[],
  target: Target,
  areNoted = false,
): readonly (Middleware | undefined)[] {
  return active.map(({ name, instance, isOn }) => {
    const middleware = isOn(target.upstream) ? instance.calls?.middleware(target) : undefined
    return middleware && areNoted ? noted(name, middleware) : middleware
  })
}

/** The middleware of a feature, which notes that a call has reached it. */
function noted(feature: string, middleware: Middleware): Middleware {
  return (next) => {
    const handle = middleware(next)
    return (call) => {
      const trail = trailSlot.of(call)
      if (trail) {
        trail.layer = feature
        trail.tool ??= call.tool
      }
      return handle(call)
    }
  }
}

/** What features offer at a point, in their order. */
export function offered<Offered>(
  active: readonly ActiveFeature[],
  point: ExtensionPoint<Offered>,
): readonly Offered[] {
  return active.flatMap(({ instance }) => point.of(instance.offers ?? []))
}

/** Accepts a webhook. @throws GatewayError if it is refused */
export async function receiveHook(active: readonly ActiveFeature[], hook: ArrivingHook): Promise<HookAnswer> {
  const receiver = active.find(({ instance }) => instance.http?.receiveHook)
  if (!receiver) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
  return receiver.instance.http?.receiveHook?.(hook)
}
