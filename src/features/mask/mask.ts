/**
 * Masks results, errors and input requests by the owner's rules. What cannot be masked for sure is refused.
 */
import type { Call, Notification, Outcome, InputRequests } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Feature } from '../feature.ts'
import { beginMasking, type Rules, rulesFor, type RuleSettings } from './masking.ts'
import { type Asked, maskMessage, maskResult, maskValue } from './shape.ts'

interface Settings {
  readonly rules: readonly RuleSettings[]
}

const globs = { type: ['string', 'array'], items: { type: 'string', minLength: 1 }, minLength: 1 } as const

/** Masks personal data in whatever servers say: results, errors, notifications and questions. */
export const mask: Feature<Settings> = {
  name: 'mask',
  place: 'features',
  schema: {
    type: 'object',
    default: 'off',
    properties: {
      rules: {
        type: 'array',
        default: [],
        errorMessage: 'must be a list of { path } or { pattern }',
        description:
          'What is masked in the answers of servers. The rules of a server stand in place of those for all. Lists of tools, prompts and resources are not masked.',
        items: {
          type: 'object',
          additionalProperties: false,
          errorMessage: 'must be a mapping with `path:` or `pattern:`',
          properties: {
            path: {
              type: 'string',
              minLength: 1,
              errorMessage: 'must be a path such as $.items[*].email',
              description:
                'Where in JSON: of structured content, and of texts that are JSON. It starts with $; then come .name, [0], [*] or .* steps.',
              examples: ['$.items[*].email'],
            },
            pattern: {
              type: 'string',
              minLength: 1,
              errorMessage: 'must be a regular expression',
              description: 'A regular expression: what it matches is masked wherever it stands.',
              examples: ['[\\w.+-]+@[\\w-]+\\.[\\w.]+'],
            },
            tools: {
              ...globs,
              'x-names': 'tool',
              errorMessage: 'must be the name of a tool, a glob, or a list of them',
              description: 'The tools whose answers it is for; all answers unless given.',
            },
            replace: {
              type: 'string',
              default: '***',
              errorMessage: 'must be a text',
              description: 'What is put in its place.',
            },
          },
        },
        examples: [
          [{ path: '$.items[*].email' }, { pattern: '\\b\\d{3}-\\d{2}-\\d{4}\\b', replace: '[SSN]' }],
        ],
      },
    },
  },
  create: (settings) => ({
    middleware: (target) => {
      const { upstream, method, isBuiltin } = target
      if (upstream === undefined || isBuiltin || method.startsWith('notifications/')) return undefined
      const rules = rulesFor(settings(upstream).rules, target)
      if (!rules) return undefined
      const isCatalogue = catalogue.has(method)
      return (next) => (call) => {
        const heard = { ...call, emit: (note: Notification) => call.emit(maskNote(note, rules)) }
        return next(heard).then(
          (outcome) => (isCatalogue ? outcome : masked(outcome, call, rules)),
          (thrown: unknown) => {
            throw maskFailure(thrown, rules, call.params.fields.uri)
          },
        )
      }
    },
  }),
}

/** What a server has: names by which it is called. */
const catalogue = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
])

/** @throws UPSTREAM_ERROR where nothing could stand in place of what is masked */
function masked(outcome: Outcome, call: Call, rules: Rules): Outcome {
  if (outcome.kind === 'input_required')
    return { ...outcome, inputRequests: maskQuestions(outcome.inputRequests, rules) }
  const { uri } = call.params.fields
  return finished(outcome, call, { rules, asked: { uri, tool: call.tool?.definition } })
}

type Result = Outcome & { readonly kind: 'result' }

function finished(
  outcome: Result,
  call: Call,
  { rules, asked }: { readonly rules: Rules; readonly asked: Asked },
): Outcome {
  const masking = beginMasking(rules)
  const result = maskResult(outcome.result, masking, asked)
  if (masking.count > 0) call.logFields.set('masked', masking.count)
  if (!result) throw unmaskable()
  return result === outcome.result ? outcome : { kind: 'result', result }
}

function maskNote(note: Notification, rules: Rules): Notification {
  const { method, params } = note
  if (!params) return note
  const masking = beginMasking(rules)
  const { data, ...others } = params.fields
  const isLog = method === 'notifications/message'
  // Who listens to a resource knows its URI.
  const words = maskMessage(isLog ? others : params.fields, masking, others.uri)
  const edits = {
    ...(isObject(words) && words),
    ...(isLog && data !== undefined && { data: maskValue(data, masking) }),
  }
  return masking.count === 0 ? note : { method, params: Payload.of(edits) }
}

function maskQuestions(questions: InputRequests, rules: Rules): InputRequests {
  const masking = beginMasking(rules)
  const masked = Object.fromEntries(
    Object.entries(questions).map(([key, { method, params }]) => [
      key,
      { method, ...(params && { params: Payload.of(maskMessage(params.value, masking)) }) },
    ]),
  )
  return masking.count === 0 ? questions : masked
}

function unmaskable(): GatewayError {
  return new GatewayError(
    'UPSTREAM_ERROR',
    'The answer of the server holds data that is masked here, and its output schema leaves no way to do so.',
    {
      suggestion: 'The call may have taken effect: check before making it again.',
      details: { classified_by: 'mask' },
    },
  )
}

/** A failure without what is masked in its texts, the server's own error included. */
function maskFailure(thrown: unknown, rules: Rules, uri: unknown): unknown {
  if (!(thrown instanceof GatewayError)) return thrown
  const masking = beginMasking(rules)
  const message = masking.text(thrown.message)
  const { suggestion, details, data, relayed, body, ...extra } = thrown.extra
  const masked = (value: unknown): unknown => maskMessage(value, masking, uri)
  const words = {
    ...(suggestion !== undefined && { suggestion: masking.text(suggestion) }),
    ...(body !== undefined && { body: masking.text(body) }),
    ...(details !== undefined && { details: objectOf(masked(details)) }),
    ...(data !== undefined && { data: objectOf(masked(data)) }),
    ...(relayed && {
      relayed: relayed.with({
        message: masked(relayed.fields.message),
        ...(relayed.fields.data !== undefined && { data: masked(relayed.fields.data) }),
      }),
    }),
  }
  return masking.count === 0 ? thrown : new GatewayError(thrown.code, message, { ...extra, ...words })
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}
