/**
 * Masks results, errors and input requests by the owner's rules. What cannot be masked for sure is refused.
 */
import { isUtf8 } from 'node:buffer'
import type { Call, Notification, Outcome, InputRequests } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, canonical, readJson } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type Check, type JsonSchema, type SchemaProblem, validator } from '../../core/schema/schema.ts'
import { NS } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import {
  createMasker,
  type Rules,
  rulesFor,
  type RuleSettings,
  type Masker,
  editJson,
  type Place,
} from './masking.ts'

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
  const masker = createMasker(rules)
  const result = maskResult(outcome.result, masker, asked)
  if (masker.count > 0) call.logFields.set('masked', masker.count)
  if (!result) throw unmaskable()
  return result === outcome.result ? outcome : { kind: 'result', result }
}

function maskNote(note: Notification, rules: Rules): Notification {
  const { method, params } = note
  if (!params) return note
  const masker = createMasker(rules)
  const { data, ...others } = params.fields
  const isLog = method === 'notifications/message'
  // Who listens to a resource knows its URI.
  const words = maskMessage(isLog ? others : params.fields, masker, others.uri)
  const edits = {
    ...(isObject(words) && words),
    ...(isLog && data !== undefined && { data: maskValue(data, masker) }),
  }
  return masker.count === 0 ? note : { method, params: Payload.of(edits) }
}

function maskQuestions(questions: InputRequests, rules: Rules): InputRequests {
  const masker = createMasker(rules)
  const masked = Object.fromEntries(
    Object.entries(questions).map(([key, { method, params }]) => [
      key,
      { method, ...(params && { params: Payload.of(maskMessage(params.value, masker)) }) },
    ]),
  )
  return masker.count === 0 ? questions : masked
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
  const masker = createMasker(rules)
  const message = masker.text(thrown.message)
  const { suggestion, details, data, relayed, body, ...extra } = thrown.extra
  const masked = (value: unknown): unknown => maskMessage(value, masker, uri)
  const words = {
    ...(suggestion !== undefined && { suggestion: masker.text(suggestion) }),
    ...(body !== undefined && { body: masker.text(body) }),
    ...(details !== undefined && { details: objectOf(masked(details)) }),
    ...(data !== undefined && { data: objectOf(masked(data)) }),
    ...(relayed && {
      relayed: relayed.with({
        message: masked(relayed.fields.message),
        ...(relayed.fields.data !== undefined && { data: masked(relayed.fields.data) }),
      }),
    }),
  }
  return masker.count === 0 ? thrown : new GatewayError(thrown.code, message, { ...extra, ...words })
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return isObject(value) ? value : {}
}

// Masks the parts of a result, so that it still fits the schema of its tool.

/** Members of messages that are no data: programs go by them, or they are no text. */
const kept = new Set(
  'type role mimeType data resultType taskId nextCursor progressToken requestId elicitationId url level status'.split(
    ' ',
  ),
)
const schemas = new Set(['requestedSchema', 'inputSchema', 'outputSchema'])

/** What is known of the call whose answer is masked. */
interface Asked {
  /** The URI the caller asked for, which may be told again. */
  readonly uri?: unknown
  /** The definition of the tool that was called. */
  readonly tool?: Readonly<Record<string, unknown>> | undefined
}

/** A result without what is masked, and with a word on how much that was; nothing where its schema forbids that. */
function maskResult(result: Payload, masker: Masker, { uri, tool }: Asked): Payload | undefined {
  const { structuredContent: _own, content, ...rest } = result.fields
  const structured = result.at('structuredContent')
  const places = structured ? masker.places(structured.value) : []
  // What a failed tool says is bound by no schema.
  const schema = result.fields.isError === true ? undefined : schemaOf(tool)
  const fitted = structured && places.length > 0 ? maskToFit(structured, places, schema) : structured
  if (structured && !fitted) return undefined

  const isChanged = structured && fitted && fitted !== structured
  const blocks = isChanged && Array.isArray(content) ? mirrored(content, structured, fitted) : content
  const edits = Object.entries({ content: blocks, ...rest }).flatMap(([key, value]) => {
    const masked = maskMember([key, value], masker, { uri, depth: 0 })
    return masked === result.fields[key] ? [] : [[key, masked] as const]
  })
  if (masker.count === 0) return result
  const masked = { ...Object.fromEntries(edits), ...(isChanged && { structuredContent: fitted }) }
  return result.with(masked).withMeta({ [`${NS}/masked`]: masker.count })
}

/** Blocks of which those that tell the structured content tell what became of it. */
function mirrored(blocks: readonly unknown[], before: Payload, after: Payload): unknown[] {
  const isSame = (text: string): boolean => {
    if (text === before.text) return true
    const value = readJson(text)
    return value !== undefined && canonical(value) === canonical(before.value)
  }
  return blocks.map((block) =>
    isObject(block) && typeof block.text === 'string' && isSame(block.text)
      ? { ...block, text: after.text }
      : block,
  )
}

/** What a message says, without what is masked; its structure stays. */
function maskMessage(value: unknown, masker: Masker, uri?: unknown): unknown {
  return maskPart(value, masker, { uri, depth: 0 })
}

interface Where {
  readonly uri: unknown
  readonly depth: number
}

/** How deep messages of the protocol are nested at most; what is deeper is data. */
const MAX_DEPTH = 100

function maskPart(value: unknown, masker: Masker, { uri, depth }: Where): unknown {
  if (depth > MAX_DEPTH) return maskValue(value, masker)
  const where = { uri, depth: depth + 1 }
  if (typeof value === 'string') return masker.text(value)
  if (Array.isArray(value)) {
    const masked = value.map((each: unknown) => maskPart(each, masker, where))
    return masked.some((each, index) => each !== value[index]) ? masked : value
  }
  if (!isObject(value)) return value
  const changed = Object.entries(value).flatMap(([key, member]) => {
    const masked = maskMember([key, member], masker, where)
    return masked === member ? [] : [[key, masked] as const]
  })
  return changed.length === 0 ? value : { ...value, ...Object.fromEntries(changed) }
}

function maskMember([key, value]: readonly [string, unknown], masker: Masker, where: Where): unknown {
  if (kept.has(key) || key.startsWith('io.modelcontextprotocol/')) return value
  if (key === 'uri' && value === where.uri) return value
  if (schemas.has(key)) return maskWords(value, masker, 0)
  if (typeof value !== 'string') return maskPart(value, masker, where)
  if (key === 'text') return masker.document(value)
  return key === 'blob' ? maskBlob(value, masker) : masker.text(value)
}

/** A schema without what is masked in its titles and descriptions: all else of it is to be answered to. */
function maskWords(value: unknown, masker: Masker, depth: number): unknown {
  if (depth > MAX_DEPTH) return maskValue(value, masker)
  if (Array.isArray(value)) return value.map((each) => maskWords(each, masker, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      const isWords = typeof member === 'string' && (key === 'title' || key === 'description')
      return [key, isWords ? masker.text(member) : maskWords(member, masker, depth + 1)]
    }),
  )
}

/** Binary data that is in truth a text. */
function maskBlob(blob: string, masker: Masker): string {
  const bytes = Buffer.from(blob, 'base64')
  if (!isUtf8(bytes)) return blob
  const text = bytes.toString()
  const masked = masker.document(text)
  return masked === text ? blob : Buffer.from(masked).toString('base64')
}

/** A JSON value without what is masked. */
function maskValue(value: unknown, masker: Masker): unknown {
  const places = masker.places(value)
  return places.length === 0 ? value : (maskToFit(Payload.of(value), places, undefined)?.value ?? null)
}

/** How often something else is tried where the schema forbids what stands in place of a value. */
const MAX_ROUNDS = 16

/**
 * Structured content with its places masked so that it fits the schema as before: by a text, by `null`, or by
 * leaving the member out. Nothing where no way fits.
 */
function maskToFit(
  content: Payload,
  places: readonly Place[],
  schema: JsonSchema | undefined,
): Payload | undefined {
  const check = schema && usable(schema)
  const known = new Set(check?.(content.value).map(nameOf))
  const groups = grouped(places)
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const edits = groups.flatMap(({ places: alike, tried }) =>
      alike.map(({ path, replacements }) => ({ path, to: replacements[tried] })),
    )
    const text = editJson(content.text, edits)
    if (text === undefined) return undefined
    const masked = Payload.text(text)
    const problems = check?.(masked.value).filter((problem) => !known.has(nameOf(problem))) ?? []
    if (problems.length === 0) return masked
    const blamed = new Set(problems.flatMap((problem) => blamedFor(problem, places)))
    const failing = groups.filter((group) => group.places.some((place) => blamed.has(place)))
    if (failing.length === 0) return undefined
    for (const group of failing) {
      group.tried += 1
      if (group.tried >= group.ways) return undefined
    }
  }
  return undefined
}

/** Places that are masked alike: the elements of an array, and the members of one name in them. */
interface Group {
  readonly places: Place[]
  /** How many ways each of them has. */
  readonly ways: number
  tried: number
}

function grouped(places: readonly Place[]): Group[] {
  const groups = new Map<string, Group>()
  for (const place of places) {
    const kind = JSON.stringify([place.path.map(stepOf), place.replacements.length])
    const group = groups.get(kind) ?? { places: [], ways: place.replacements.length, tried: 0 }
    group.places.push(place)
    groups.set(kind, group)
  }
  return [...groups.values()]
}

function stepOf(step: string | number): string | null {
  return typeof step === 'number' ? null : step
}

/** The check of a schema; undefined where it cannot be enforced. */
function usable(schema: JsonSchema): Check | undefined {
  const check = validator(schema)
  return (value) => {
    try {
      return check(value)
    } catch {
      return []
    }
  }
}

function nameOf({ path, schemaPath, params }: SchemaProblem): string {
  return JSON.stringify([path, schemaPath, params.missingProperty])
}

/** The places a problem comes from: those at it or around it, else those below it. */
function blamedFor({ path, params }: SchemaProblem, places: readonly Place[]): readonly Place[] {
  const { missingProperty: missing } = params
  const at = typeof missing === 'string' ? [...path, missing] : path
  const near = places.filter((place) => isWithin(at, place.path))
  return near.length > 0 ? near : places.filter((place) => isWithin(place.path, path))
}

/** Whether one path is the other, or leads on from it. */
function isWithin(path: Place['path'], start: Place['path']): boolean {
  return start.length <= path.length && start.every((step, index) => String(step) === String(path[index]))
}

/** The output schema of a tool, where it has one. */
function schemaOf(definition: Readonly<Record<string, unknown>> | undefined): JsonSchema | undefined {
  return isObject(definition?.outputSchema) ? definition.outputSchema : undefined
}
