/** The chain of dry runs of a target: what decides about a call, and a report in the place of the server. */
import { compose, type Handler, type Middleware, type Target } from '../core/call.ts'
import { dryRun, refuseDryRuns } from '../features/dry-run/dry-run.ts'
import { reportDryRun } from '../features/dry-run/report.ts'
import { dryRunRoles } from '../features/dry-run/roles.ts'
import type { Services } from '../features/feature.ts'
import type { ActiveFeature } from './features.ts'

/** Composes the middleware of all features that take part, in the order of the chain, around the end of dry runs. */
export function dryRunChain(
  active: readonly ActiveFeature[],
  target: Target,
  services: Pick<Services, 'features'>,
): Handler {
  const end = reportDryRun(services)
  const taking = active.filter(({ isOn }) => isOn(target.upstream))
  return compose(
    taking.map((feature) => takingPart(feature, target, end)),
    end,
  )
}

/** Refuses dry runs of a target for which the feature is off. */
export function dryRunGuard(
  { method, upstream }: Target,
  { features }: Pick<Services, 'features'>,
): Middleware | undefined {
  if (method !== 'tools/call' || features.isOn(dryRun.name, upstream)) return undefined
  return refuseDryRuns
}

function takingPart({ name, instance }: ActiveFeature, target: Target, end: Handler): Middleware | undefined {
  switch (dryRunRoles[name]) {
    case 'same':
      return instance.middleware?.(target)
    case 'own':
      return instance.dryRun?.(target, end)
    default:
      return undefined
  }
}
