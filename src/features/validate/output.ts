import { isAnswer } from '../../core/answer.ts'
import type { Outcome } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import type { Log } from '../../core/log.ts'
import type { Payload } from '../../core/payload.ts'
import type { Checks } from './checks.ts'

/** Looks at what a tool answers. */
export type OutputCheck = (answer: Promise<Outcome>, entry: Descriptor) => Promise<Outcome>

/** Makes the check of answers: each has content, and structured content that fits where the tool promises it. */
export function createOutputCheck(mode: 'off' | 'warn' | 'strict', checks: Checks, log: Log): OutputCheck {
  /** Tools whose answers were found not to fit. */
  const told = new WeakSet<object>()

  const look = (result: Payload, { definition, upstream, name }: Descriptor): void => {
    const { outputSchema } = definition
    if (!isObject(outputSchema) || (mode === 'warn' && told.has(definition))) return
    const structuredContent = result.member('structuredContent')
    const reason = (): string | undefined => {
      if (structuredContent === undefined) return 'it has no structured content'
      const schema = { upstream, tool: name, schema: 'output' }
      const problems = checks.of(outputSchema, schema)(structuredContent)
      const [first] = problems === 'unchecked' ? [] : problems
      return first && `${['structuredContent', ...first.path].join('.')} ${first.message}`
    }
    const why = reason()
    if (why === undefined) return
    if (!told.has(definition))
      log.warn('validate.output', { upstream, tool: name, reason: why.slice(0, 300) })
    told.add(definition)
    if (mode === 'warn') return
    throw new GatewayError(
      'UPSTREAM_ERROR',
      'The server answered with something its output schema forbids.',
      {
        suggestion: 'The call may have taken effect: check before making it again.',
        details: { classified_by: 'output_schema' },
      },
    )
  }

  return (answer, entry) => {
    const isWatched = mode !== 'off' && isObject(entry.definition.outputSchema)
    return answer.then((outcome) => {
      if (outcome.kind !== 'result' || !isAnswer(outcome.result)) return outcome
      const { result } = outcome
      if (isWatched) look(result, entry)
      if (result.member('content') !== undefined) return outcome
      if (result.member('structuredContent') !== undefined) return outcome
      return { kind: 'result', result: result.with({ content: [] }) }
    })
  }
}
