/** Reads what was there before a call, through the chain, with the caller's rights. */
import type { Call, Outcome } from '../../core/call.ts'
import { asGatewayError } from '../../core/error.ts'
import { evaluate, type Expression, resultValue } from '../../core/undo/expression.ts'
import { classify, firstWords } from '../../core/failure.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { ERROR_KEY } from '../../protocol/meta-keys.ts'
import type { Services } from '../services.ts'
import type { ReadSnapshot } from './compensation.ts'

type Deps = Pick<Services, 'invoker'>

/**
 * Reads what is there before a call. The caller sees masked and shortened results, but what is put back must be
 * what was there: so results are taken where they come from the server.
 */
export class SnapshotReader {
  readonly #deps: Deps
  /** What servers sent, by the facts of the calls that read. */
  readonly #raw = new WeakMap<Call['logFields'], Payload>()

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** Takes note of what a call that reads got from its server. */
  heard(call: Call, outcome: Outcome): void {
    if (outcome.kind === 'result') this.#raw.set(call.logFields, outcome.result)
  }

  /** Reads with the rights of the caller. Never throws. */
  async read(
    call: Call,
    snapshot: Expression,
    given: { readonly upstream: string; readonly args: Readonly<Record<string, unknown>> },
  ): Promise<ReadSnapshot> {
    try {
      const internal = this.#deps.invoker.internal({
        purpose: 'read',
        principal: call.principal,
        upstream: given.upstream,
        tool: snapshot.tool,
        arguments: evaluate(snapshot, { args: given.args }),
        during: call,
      })
      const outcome = await this.#deps.invoker.call(internal)
      if (outcome.kind === 'input_required') return unreadable('the server asks something first')
      return this.#read(outcome.result, this.#raw.get(internal.logFields))
    } catch (error) {
      if (error instanceof Error) return unreadable(error.message)
      return unreadable(asGatewayError(error).message)
    }
  }

  #read(told: Payload, raw: Payload | undefined): ReadSnapshot {
    if (told.fields.isError === true) return failed(told)
    if (!raw) return unreadable('it was not read from the server')
    return { kind: 'found', value: resultValue(raw) }
  }
}

/**
 * Only a server that says so says that there is nothing: what it merely failed to read may be there, and the way
 * back from writing it would remove it.
 */
function failed(told: Payload): ReadSnapshot {
  const { _meta: meta } = told.fields
  const error = isObject(meta) ? meta[ERROR_KEY] : undefined
  const { code, message } = isObject(error)
    ? error
    : { code: classify({ text: firstWords(told) }, []).code, message: firstWords(told) }
  if (code === 'RESOURCE_NOT_FOUND') return { kind: 'absent' }
  return unreadable(`${String(code)}: ${String(message)}`)
}

function unreadable(reason: string): ReadSnapshot {
  return { kind: 'unreadable', reason: reason.slice(0, 500) }
}
