import type { Services, Feature } from '../../src/features/feature.ts'
import { type Call, compose, type Handler, type Outcome } from '../../src/core/call.ts'
import { parseJson } from '../../src/core/json/read.ts'
import { Payload } from '../../src/core/payload.ts'
import { featureDeps, resolvingTool, type ServiceStubs } from './feature-deps.ts'
import type { Json } from './server/json.ts'
import { toolCall } from './tool-call.ts'

/** A feature with its settings. */
export function on<Settings>(feature: Feature<Settings>, settings: NoInfer<Settings>): With {
  return (deps) => feature.create(() => settings, deps)
}

type With = (deps: Services) => ReturnType<Feature<never>['create']>

/** Some features around a server, the first one outermost; makes one call and resolves with its outcome. */
export function chain(
  parts: readonly With[],
  server: Handler,
  given: ServiceStubs = {},
): (call?: Partial<Call>, params?: Json) => Promise<Outcome> {
  const deps = featureDeps(given)
  const contributions = parts.map((part) => part(deps))
  return (call = {}, params = {}) => {
    const whole = toolCall({ params: Payload.of({ name: 't', arguments: {}, ...params }), ...call })
    const middlewares = contributions.map((each) => each.calls?.middleware(whole.target))
    return compose([resolvingTool(whole.target, deps), ...middlewares], server)(whole)
  }
}

/** A server that always answers the same. */
export function answering(result: Json): Handler {
  return async () => ({ kind: 'result', result: Payload.of(result) })
}

/** The members of the result a call ended with. */
export function fieldsOf(outcome: Outcome): Json {
  if (outcome.kind !== 'result') throw new TypeError('it asks')
  return parseJson(outcome.result.text) as Json
}
