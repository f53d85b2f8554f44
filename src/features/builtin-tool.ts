/** Help for features with tools and methods of their own: one answer in both forms. */
import type { Call, Handler, Outcome } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { ERROR_KEY } from '../protocol/meta-keys.ts'
import type { BuiltinTool, Page } from './feature.ts'

/** A method of the gateway as a tool: what it is asked are the arguments, and failures are results. */
export function asTool(definition: BuiltinTool['definition'], answer: Handler): BuiltinTool {
  return {
    definition,
    handle: async (call) => {
      const args = call.params.at('arguments') ?? Payload.of({})
      try {
        if (!isObject(args.value)) throw new GatewayError('INVALID_INPUT', 'Arguments must be an object.')
        const outcome = await answer({ ...call, params: args })
        if (outcome.kind === 'input_required') return outcome
        const { text, value } = outcome.result
        return answered({ content: [{ type: 'text', text }], structuredContent: value })
      } catch (thrown) {
        return answered(failed(asGatewayError(thrown), call))
      }
    },
  }
}

function failed(error: GatewayError, { requestId }: Call): Record<string, unknown> {
  const { suggestion } = error.extra
  const object = { ...error.data, requestId }
  const text = suggestion === undefined ? error.message : `${error.message} ${suggestion}`
  return {
    content: [{ type: 'text', text }],
    isError: true,
    error: object,
    _meta: { [ERROR_KEY]: object },
  }
}

/** What the gateway answers itself. */
export function answered(result: Readonly<Record<string, unknown>>): Answered {
  return { kind: 'result', result: Payload.of(result) }
}

/** The same for a page, whose members are checked. */
export function pageOf(page: Page): Answered {
  return answered({ ...page })
}

/** How a request ends that the gateway has answered. */
export type Answered = Extract<Outcome, { readonly kind: 'result' }>
