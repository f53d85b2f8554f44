/**
 * Refuses tool calls with a value for the gateway among the arguments, such as `transaction_id`, if the tool has no such
 * argument. The gateway reads these values only beside the arguments, so the call would silently run outside of its
 * transaction, without its key, or unconfirmed. Tools whose schema leaves the arguments open, and unlisted ones, are not
 * checked: such a value may be an argument of theirs.
 */
import { NS } from '../core/identity.ts'
import type { Call, Handler, Outcome } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { acceptsMember } from '../core/schema/argument-mismatches.ts'
import { namesArgument } from '../core/tool-call.ts'
import { type Feature, type Services, toolSetting } from './feature.ts'
import { type CallerValue, callerValues, reservedFor } from './offers.ts'
import { misplacedValuesSchema } from './settings/authorize.ts'

type Deps = Pick<Services, 'servers' | 'features'>

/** Refuses values for the gateway among the arguments of tools. */
export const misplacedValues: Feature<Record<never, never>> = {
  ...misplacedValuesSchema,
  create: (_settings, deps) => ({
    calls: {
      middleware: ({ method, upstream, isBuiltin }) => {
        if (method !== 'tools/call' || upstream === undefined || isBuiltin) return undefined
        const names = namesOf(deps.features.offered(callerValues, upstream).flat())
        if (names.size === 0) return undefined
        return (next) => (call) => {
          const found = call.internal ? [] : misplacedIn(call.params.fields.arguments, names)
          return found.length === 0 ? next(call) : refuseUnlessNamed(call, found, next, deps)
        }
      },
      dryRun: 'same',
    },
  }),
}

/** A value among the arguments. */
interface Misplaced {
  /** The argument that is the value, or contains it. */
  readonly argument: string
  /** The path of the value: the argument, or a member of one. */
  readonly path: string
  readonly value: CallerValue
}

/** Every spelling of a value's name, with the value. */
function namesOf(values: readonly CallerValue[]): ReadonlyMap<string, CallerValue> {
  return new Map(
    values.flatMap((value) =>
      [value.name, ...(value.aliases ?? [])].flatMap((name) =>
        [name, `_${name}`, `${NS}/${name}`].map((spelling) => [spelling, value] as const),
      ),
    ),
  )
}

/** The values among arguments; null and empty values are ignored, because models fill in optional arguments. */
function misplacedIn(given: unknown, names: ReadonlyMap<string, CallerValue>): readonly Misplaced[] {
  if (!isObject(given)) return []
  const found: Misplaced[] = []
  for (const argument of Object.keys(given)) {
    const value = names.get(argument)
    if (value) {
      if (isGiven(given[argument])) found.push({ argument, path: argument, value })
      continue
    }
    const inner = argument === '_meta' ? given[argument] : undefined
    if (!isObject(inner)) continue
    for (const name of Object.keys(inner)) {
      const within = names.get(name)
      if (within && isGiven(inner[name])) found.push({ argument, path: `_meta.${name}`, value: within })
    }
  }
  return found
}

function isGiven(value: unknown): boolean {
  return value !== null && value !== ''
}

/** @throws INVALID_INPUT */
async function refuseUnlessNamed(
  call: Call,
  found: readonly Misplaced[],
  next: Handler,
  deps: Deps,
): Promise<Outcome> {
  const entry = call.tool?.isUnlisted ? undefined : call.tool
  const first = entry && found.find(({ argument }) => !isOfTool(entry, argument, deps))
  if (first) throw refusal(first, entry, deps)
  return next(call)
}

/** Whether an argument belongs to the tool, by its schema or by the configuration. */
function isOfTool({ definition, upstream, name }: Descriptor, argument: string, deps: Deps): boolean {
  const { inputSchema } = definition
  if (!isObject(inputSchema) || acceptsMember(inputSchema, argument)) return true
  if (namesArgument(definition, argument)) return true
  return toolSetting(deps, upstream, name, 'keyArgument') === argument
}

function refusal({ path, value }: Misplaced, { upstream, name }: Descriptor, deps: Deps): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    `"${path}" is a value for the gateway, not an argument of ${name}: the call was not made.`,
    {
      isResult: true,
      field: path,
      reason: 'misplaced',
      suggestion: `Send it ${placesOf(value, upstream, deps).join(', or ')}.`,
    },
  )
}

/** Where a value can be sent. */
function placesOf({ name, header }: CallerValue, upstream: string, deps: Deps): readonly string[] {
  const injected = deps.features.isOn('inject_arguments', upstream)
    ? reservedFor(upstream, deps).find((each) => each.value === name)
    : undefined
  return [
    ...(injected ? [`as the argument "${injected.argument}"`] : []),
    `as "${NS}/${name}" in _meta of the params, beside the arguments`,
    ...(header === undefined ? [] : [`in the HTTP header ${header}`]),
  ]
}
