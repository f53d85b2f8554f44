import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { asGatewayError } from '../../core/error.ts'
import { evaluate, type Expression, parseExpression, resultValue } from '../../core/expression.ts'
import type { Path } from '../../core/path.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import { validator } from '../../core/schema.ts'
import type { Deps } from '../feature.ts'
import { VERIFIED } from './answer.ts'

/** What a read found out about a call whose answer was lost. */
export type VerificationResult =
  | { readonly kind: 'found'; readonly value: unknown }
  | { readonly kind: 'absent' }
  | { readonly kind: 'failed'; readonly reason: string }

/** Reads, with the rights of the caller, whether a call took effect. Never throws. */
export async function verify(
  call: Call,
  upstream: string,
  written: string,
  deps: Deps,
): Promise<VerificationResult> {
  try {
    const expression = parseExpression(written)
    const { find } = expression
    if (!find) return failed('it does not say what to look for')
    const given = call.params.fields.arguments
    const outcome = await deps.call(
      snapshotCall(expression, { call, upstream, args: asArguments(given), deps }),
    )
    if (outcome.kind === 'input_required') return failed('the server asks something first')
    if (outcome.result.fields.isError === true) return failed('the read failed')
    return look(resultValue(outcome.result), find)
  } catch (error) {
    return failed(error instanceof Error ? error.message : asGatewayError(error).message)
  }
}

/** What a read found, in place of the answer that was lost. */
export function verifiedResult(value: unknown, entry: Descriptor | undefined): Payload {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const result = { content: [{ type: 'text', text }], _meta: { [VERIFIED]: true } }
  return Payload.of(fits(value, entry) ? { ...result, structuredContent: value } : result)
}

interface Around {
  readonly call: Call
  readonly upstream: string
  readonly args: Readonly<Record<string, unknown>>
  readonly deps: Deps
}

function snapshotCall(expression: Expression, { call, upstream, args, deps }: Around): Call {
  return deps.internal({
    purpose: 'read',
    principal: call.principal,
    upstream,
    tool: expression.tool,
    arguments: evaluate(expression, { args }),
    during: call,
  })
}

function asArguments(given: unknown): Readonly<Record<string, unknown>> {
  return isObject(given) ? given : {}
}

/**
 * Follows a path. It is absent where a list is too short, a value is null, or the last member is missing; where the
 * way there is another than the path says, the read says nothing about it.
 */
function look(result: unknown, { steps }: Path): VerificationResult {
  let at = result
  for (const [index, step] of steps.entries()) {
    if (step === null) return failed('it looks for several things')
    if (at === null) return { kind: 'absent' }
    if (typeof step === 'number') {
      if (!Array.isArray(at)) return failed(`there is no list before [${step}]`)
      at = at[step]
      if (at === undefined) return { kind: 'absent' }
      continue
    }
    if (!isObject(at)) return failed(`there is no object before .${step}`)
    const isLast = index === steps.length - 1
    if (!Object.hasOwn(at, step)) return isLast ? { kind: 'absent' } : failed(`there is no .${step}`)
    at = at[step]
  }
  if (at === undefined) return failed('the read has no result')
  const isEmpty = at === null || at === '' || (Array.isArray(at) && at.length === 0)
  return isEmpty ? { kind: 'absent' } : { kind: 'found', value: at }
}

function fits(value: unknown, entry: Descriptor | undefined): boolean {
  const schema = entry?.definition.outputSchema
  if (!isObject(value)) return false
  if (!isObject(schema)) return true
  try {
    return validator(schema)(value).length === 0
  } catch {
    return false
  }
}

function failed(reason: string): VerificationResult {
  return { kind: 'failed', reason: reason.slice(0, 300) }
}
