/**
 * Masks results, errors and input requests by configured rules. What cannot be masked reliably is refused.
 */
import { isUtf8 } from 'node:buffer'
import type { Call, Notification, Outcome, InputRequests, Target } from '../../core/call.ts'
import { spoolSlot } from '../../core/spool.ts'
import { GatewayError } from '../../core/error.ts'
import { asObject, isObject, exactly, readJson, elements, members } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { type Check, type JsonSchema, type SchemaProblem, validator } from '../../core/schema/schema.ts'
import { MASKED_KEY } from '../../protocol/meta-keys.ts'
import type { Feature } from '../feature.ts'
import { masking } from '../offers.ts'
import { type MaskSettings, type RuleSettings, maskSchema } from '../settings/upstream.ts'
import { type Step, parseSteps } from '../../core/json/path.ts'
import { fits, compilePattern, type Pattern } from '../../core/text/pattern.ts'
import { isNumber, plainDigits } from '../../core/json/exact-number.ts'
import { parseJson } from '../../core/json/read.ts'

/** Masks personal data in everything that servers send: results, errors, notifications and input requests. */
export const mask: Feature<MaskSettings> = {
  ...maskSchema,
  create: (settings) => ({
    calls: {
      middleware: (target) => {
        const { upstream, method, isBuiltin } = target
        if (upstream === undefined || isBuiltin || method.startsWith('notifications/')) return undefined
        const rules = rulesFor(settings(upstream).rules, target)
        if (!rules) return undefined
        const isCatalogue = catalogue.has(method)
        // What is kept before the result is there could not be masked.
        return (next) => (call) => {
          const maskedCall = {
            ...call,
            slots: spoolSlot.put(undefined, call.slots),
            emit: (notification: Notification) => call.emit(maskNotification(notification, rules)),
          }
          return next(maskedCall).then(
            (outcome) => (isCatalogue ? outcome : masked(outcome, call, rules)),
            (thrown: unknown) => {
              throw maskFailure(thrown, rules, call.params.fields.uri)
            },
          )
        }
      },
      dryRun: 'absent', // the report masks the arguments
    },
    offers: [
      masking.offer((value, target) => {
        const rules =
          target.upstream === undefined ? undefined : rulesFor(settings(target.upstream).rules, target)
        return rules ? maskValue(value, createMasker(rules)) : value
      }),
    ],
  }),
}

/** Masks copies of messages that are kept outside of calls. */
interface CopyMask {
  /** The configured replacement texts. */
  readonly marks: readonly string[]
  /** A part of a message; a result that its schema does not allow to mask is empty. */
  mask(value: Readonly<Record<string, unknown>>, of: CopiedPart): unknown
}

interface CopiedPart {
  readonly part: 'result' | 'error' | 'params'
  readonly target: Target
  /** The requested URI. */
  readonly uri: unknown
}

/** The mask of copies, by the settings of a server. Unlike in calls, it also applies to arguments. */
export function copyMask(settings: unknown): CopyMask {
  const given = isObject(settings) && Array.isArray(settings.rules) ? settings.rules.filter(isRule) : []
  return {
    marks: given.map(({ replace }) => replace).filter((replace) => replace !== ''),
    mask: (value, { part, target, uri }) => {
      // Of messages outside a request for something named, the tool is unknown: then every rule applies.
      const applicable = target.name === undefined ? given.map(({ tools: _tools, ...rule }) => rule) : given
      const rules = rulesFor(applicable, target)
      if (!rules || catalogue.has(target.method)) return value
      const masker = createMasker(rules)
      if (part === 'result') return maskResult(Payload.of(value), masker, { uri })?.value ?? {}
      const { arguments: sent, ...rest } = value
      const others = asObject(maskMessage(rest, masker, uri))
      return {
        ...others,
        // Names are what entries are called by.
        ...(rest.name !== undefined && { name: rest.name }),
        ...(sent !== undefined && { arguments: maskValue(sent, masker) }),
      }
    },
  }
}

function isRule(rule: unknown): rule is RuleSettings {
  return isObject(rule) && typeof rule.replace === 'string'
}

/** Methods that list names, by which entries are called. */
const catalogue = new Set([
  'initialize',
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
])

/** @throws UPSTREAM_ERROR if a value can neither be masked nor removed */
function masked(outcome: Outcome, call: Call, rules: Rules): Outcome {
  if (outcome.kind === 'input_required')
    return { ...outcome, inputRequests: maskInputRequests(outcome.inputRequests, rules) }
  // What the server says of its work is not needed, and may contain what is masked.
  if (outcome.kind === 'task') return { ...outcome, task: { ...outcome.task, statusMessage: undefined } }
  const { uri } = call.params.fields
  return maskOutcome(outcome, call, rules, { uri, tool: call.tool?.definition })
}

type Result = Outcome & { readonly kind: 'result' }

function maskOutcome(outcome: Result, call: Call, rules: Rules, context: MaskContext): Outcome {
  const masker = createMasker(rules)
  const result = maskResult(outcome.result, masker, context)
  if (masker.count > 0) call.logFields.set('masked', masker.count)
  if (!result) throw unmaskable()
  return result === outcome.result ? outcome : { kind: 'result', result }
}

function maskNotification(notification: Notification, rules: Rules): Notification {
  const { method, params } = notification
  if (!params) return notification
  const masker = createMasker(rules)
  const { data, ...rest } = params.fields
  const isLog = method === 'notifications/message'
  // Subscribers of a resource know its URI.
  const maskedParts = maskMessage(isLog ? rest : params.fields, masker, rest.uri)
  const edits = {
    ...(isObject(maskedParts) && maskedParts),
    ...(isLog && data !== undefined && { data: maskValue(data, masker) }),
  }
  return masker.count === 0 ? notification : { method, params: Payload.of(edits) }
}

function maskInputRequests(inputRequests: InputRequests, rules: Rules): InputRequests {
  const masker = createMasker(rules)
  const masked = Object.fromEntries(
    Object.entries(inputRequests).map(([key, { method, params }]) => [
      key,
      { method, ...(params && { params: Payload.of(maskMessage(params.value, masker)) }) },
    ]),
  )
  return masker.count === 0 ? inputRequests : masked
}

function unmaskable(): GatewayError {
  return new GatewayError(
    'UPSTREAM_ERROR',
    'The response of the server contains data that is masked, and its output schema leaves no way to mask it.',
    {
      suggestion: 'The call may have taken effect: check before repeating it.',
      details: { classified_by: 'mask' },
    },
  )
}

/** A failure with masked texts, including the server's own error. */
function maskFailure(thrown: unknown, rules: Rules, uri: unknown): unknown {
  if (!(thrown instanceof GatewayError)) return thrown
  const masker = createMasker(rules)
  const message = masker.text(thrown.message)
  const { suggestion, details, data, relayed, body, ...extra } = thrown.extra
  const masked = (value: unknown): unknown => maskMessage(value, masker, uri)
  const maskedParts = {
    ...(suggestion !== undefined && { suggestion: masker.text(suggestion) }),
    ...(body !== undefined && { body: masker.text(body) }),
    ...(details !== undefined && { details: asObject(masked(details)) }),
    ...(data !== undefined && { data: asObject(masked(data)) }),
    ...(relayed && {
      relayed: relayed.with({
        message: masked(relayed.fields.message),
        ...(relayed.fields.data !== undefined && { data: masked(relayed.fields.data) }),
      }),
    }),
  }
  return masker.count === 0 ? thrown : new GatewayError(thrown.code, message, { ...extra, ...maskedParts })
}

// Masks the parts of a result so that it still matches the tool's output schema.

/** Members of messages that are not data: protocol values, or not text. */
const protocolMembers = new Set(
  'type role mimeType data resultType taskId nextCursor progressToken requestId elicitationId url level status'.split(
    ' ',
  ),
)
const schemas = new Set(['requestedSchema', 'inputSchema', 'outputSchema'])

/** The call whose response is masked. */
interface MaskContext {
  /** The requested URI, which may be repeated. */
  readonly uri?: unknown
  /** The definition of the called tool. */
  readonly tool?: Readonly<Record<string, unknown>> | undefined
}

/** A masked result with the number of masked values; undefined if its schema does not allow masking. */
function maskResult(result: Payload, masker: Masker, { uri, tool }: MaskContext): Payload | undefined {
  const { structuredContent: _own, content, ...rest } = result.fields
  const structured = result.at('structuredContent')
  const places = structured ? masker.places(structured.value) : []
  // The output schema does not apply to a failed tool.
  const schema = result.fields.isError === true ? undefined : schemaOf(tool)
  const maskedContent = structured && places.length > 0 ? maskToFit(structured, places, schema) : structured
  if (structured && !maskedContent) return undefined

  const isChanged = structured && maskedContent && maskedContent !== structured
  const blocks =
    isChanged && Array.isArray(content) ? replaceCopies(content, structured, maskedContent) : content
  const edits = Object.entries({ content: blocks, ...rest }).flatMap(([key, value]) => {
    const masked = maskMember([key, value], masker, { uri, depth: 0 })
    return masked === result.fields[key] ? [] : [[key, masked] as const]
  })
  if (masker.count === 0) return result
  const masked = { ...Object.fromEntries(edits), ...(isChanged && { structuredContent: maskedContent }) }
  return result.with(masked).withMeta({ [MASKED_KEY]: masker.count })
}

/** Blocks in which text copies of the structured content are replaced by the masked content. */
function replaceCopies(blocks: readonly unknown[], before: Payload, after: Payload): unknown[] {
  const isSame = (text: string): boolean => {
    if (text === before.text) return true
    const value = readJson(text)
    return value !== undefined && exactly(value) === exactly(before.value)
  }
  return blocks.map((block) =>
    isObject(block) && typeof block.text === 'string' && isSame(block.text)
      ? { ...block, text: after.text }
      : block,
  )
}

/** A message with masked texts and unchanged structure. */
function maskMessage(value: unknown, masker: Masker, uri?: unknown): unknown {
  return maskPart(value, masker, { uri, depth: 0 })
}

interface MessagePosition {
  readonly uri: unknown
  readonly depth: number
}

/** The maximum nesting of protocol messages; deeper values are data. */
const MAX_DEPTH = 100

function maskPart(value: unknown, masker: Masker, { uri, depth }: MessagePosition): unknown {
  if (depth > MAX_DEPTH) return maskValue(value, masker)
  const position = { uri, depth: depth + 1 }
  if (typeof value === 'string') return masker.text(value)
  if (Array.isArray(value)) {
    const masked = value.map((each: unknown) => maskPart(each, masker, position))
    return masked.some((each, index) => each !== value[index]) ? masked : value
  }
  if (!isObject(value)) return value
  const changed = Object.entries(value).flatMap(([key, member]) => {
    const masked = maskMember([key, member], masker, position)
    return masked === member ? [] : [[key, masked] as const]
  })
  return changed.length === 0 ? value : { ...value, ...Object.fromEntries(changed) }
}

function maskMember(
  [key, value]: readonly [string, unknown],
  masker: Masker,
  position: MessagePosition,
): unknown {
  if (protocolMembers.has(key) || key.startsWith('io.modelcontextprotocol/')) return value
  if (key === 'uri' && value === position.uri) return value
  if (schemas.has(key)) return maskSchemaTexts(value, masker, 0)
  if (typeof value !== 'string') return maskPart(value, masker, position)
  if (key === 'text') return masker.document(value)
  return key === 'blob' ? maskBlob(value, masker) : masker.text(value)
}

/** A schema with masked titles and descriptions; the rest defines the response and stays. */
function maskSchemaTexts(value: unknown, masker: Masker, depth: number): unknown {
  if (depth > MAX_DEPTH) return maskValue(value, masker)
  if (Array.isArray(value)) return value.map((each) => maskSchemaTexts(each, masker, depth + 1))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => {
      const isText = typeof member === 'string' && (key === 'title' || key === 'description')
      return [key, isText ? masker.text(member) : maskSchemaTexts(member, masker, depth + 1)]
    }),
  )
}

/** Masks binary data that decodes to text; other binary data stays as it is. */
function maskBlob(blob: string, masker: Masker): string {
  const bytes = Buffer.from(blob, 'base64')
  if (!isUtf8(bytes)) return blob
  const text = bytes.toString()
  const masked = masker.document(text)
  return masked === text ? blob : Buffer.from(masked).toString('base64')
}

/** A masked JSON value. */
function maskValue(value: unknown, masker: Masker): unknown {
  const places = masker.places(value)
  return places.length === 0 ? value : (maskToFit(Payload.of(value), places, undefined)?.value ?? null)
}

/** How often other replacements are tried if the schema rejects one. */
const MAX_ROUNDS = 16

/**
 * Structured content, masked so that it matches the schema as before: by a text, by `null`, or by removing the member.
 * Undefined if no replacement is valid.
 */
function maskToFit(
  content: Payload,
  places: readonly Place[],
  schema: JsonSchema | undefined,
): Payload | undefined {
  const check = schema && checkOrAccept(schema)
  const known = new Set(check?.(content.value).map(nameOf))
  const groups = grouped(places)
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const edits = groups.flatMap(({ places: sameKind, tried }) =>
      sameKind.map(({ path, replacements }) => ({ path, to: replacements[tried] })),
    )
    const text = editJson(content.text, edits)
    if (text === undefined) return undefined
    const masked = Payload.text(text)
    const problems = check?.(masked.value).filter((problem) => !known.has(nameOf(problem))) ?? []
    if (problems.length === 0) return masked
    const causes = new Set(problems.flatMap((problem) => placesCausing(problem, places)))
    const failing = groups.filter((group) => group.places.some((place) => causes.has(place)))
    if (failing.length === 0) return undefined
    for (const group of failing) {
      group.tried += 1
      if (group.tried >= group.replacementCount) return undefined
    }
  }
  return undefined
}

/** Places that are masked in the same way: array elements, and their members of the same name. */
interface Group {
  readonly places: Place[]
  /** How many replacements each of them has. */
  readonly replacementCount: number
  tried: number
}

function grouped(places: readonly Place[]): Group[] {
  const groups = new Map<string, Group>()
  for (const place of places) {
    const kind = JSON.stringify([place.path.map(stepOf), place.replacements.length])
    const group = groups.get(kind) ?? { places: [], replacementCount: place.replacements.length, tried: 0 }
    group.places.push(place)
    groups.set(kind, group)
  }
  return [...groups.values()]
}

function stepOf(step: string | number): string | null {
  return typeof step === 'number' ? null : step
}

/** The check of a schema; a schema that cannot be enforced accepts everything. */
function checkOrAccept(schema: JsonSchema): Check {
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

/** The places that cause a problem: those at or around it, otherwise those below it. */
function placesCausing({ path, params }: SchemaProblem, places: readonly Place[]): readonly Place[] {
  const { missingProperty: missing } = params
  const at = typeof missing === 'string' ? [...path, missing] : path
  const exact = places.filter((place) => isWithin(at, place.path))
  return exact.length > 0 ? exact : places.filter((place) => isWithin(place.path, path))
}

/** Whether one path equals the other or continues it. */
function isWithin(path: Place['path'], start: Place['path']): boolean {
  return start.length <= path.length && start.every((step, index) => String(step) === String(path[index]))
}

/** The output schema of a tool, if any. */
function schemaOf(definition: Readonly<Record<string, unknown>> | undefined): JsonSchema | undefined {
  return isObject(definition?.outputSchema) ? definition.outputSchema : undefined
}

/** A place whose value must be masked, and its possible replacements, the best first. */
interface Place {
  readonly path: readonly (string | number)[]
  readonly replacements: readonly unknown[]
}

/** Masks the parts of one response, and counts what it masked. */
interface Masker {
  readonly count: number
  /** A text with the matches of patterns replaced. */
  text(text: string): string
  /** The same for a text that may be JSON, to which paths apply too. */
  document(text: string): string
  /** The places in a JSON value that must be masked. */
  places(value: unknown): readonly Place[]
}

/** How much of one response is examined, in characters: texts beyond that are replaced completely. */
const MAX_CHARACTERS = 2_000_000
/** How deep a value is examined; deeper values are replaced completely. */
const MAX_TEXT_DEPTH = 200
/** How often patterns are applied to a text, because a replacement can form a new match with its surroundings. */
const MAX_TEXT_ROUNDS = 4

type PathRule = Rules['paths'][number]

/** Creates the masker of one response. */
function createMasker(rules: Rules): Masker {
  return new RuleMasker(rules)
}

class RuleMasker implements Masker {
  readonly #paths: Rules['paths']
  readonly #patterns: Rules['patterns']
  /** Replaces a text that is masked as a whole. */
  readonly #fallback: string
  readonly #maskedNames = new Map<string, string>()
  #remainingCharacters = MAX_CHARACTERS
  #count = 0

  constructor({ paths, patterns }: Rules) {
    this.#paths = paths
    this.#patterns = patterns
    this.#fallback = patterns[0]?.replace ?? paths[0]?.replace ?? ''
  }

  get count(): number {
    return this.#count
  }

  text(original: string): string {
    if (original === '' || this.#patterns.length === 0) return original
    this.#remainingCharacters -= original.length
    if (this.#remainingCharacters < 0) {
      this.#count += 1
      return this.#fallback
    }
    let masked = original
    for (let round = 0; round < MAX_TEXT_ROUNDS; round++) {
      const before = masked
      for (const { pattern, replace } of this.#patterns) {
        const replaced = pattern.replaceAll(masked, replace)
        masked = replaced.text
        this.#count += replaced.count
      }
      if (masked === before) return masked
    }
    return this.#fallback
  }

  document(original: string): string {
    const edits = this.places(readContainer(original)).map(firstEdit)
    // Once more as text: a pattern may match across names and values.
    return this.text(edits.length === 0 ? original : (editJson(original, edits) ?? this.#fallback))
  }

  places(value: unknown): readonly Place[] {
    return this.#placesIn(value, [], this.#paths)
  }

  #placesIn(value: unknown, path: Place['path'], rules: readonly PathRule[]): Place[] {
    const rule = rules.find(({ steps }) => steps.length === 0)
    if (rule || path.length > MAX_TEXT_DEPTH) {
      if (value === null) return []
      this.#count += 1
      return [{ path, replacements: [rule?.replace ?? this.#fallback, null, REMOVED] }]
    }
    if (typeof value === 'string' || isNumber(value)) {
      // Patterns match the digits of a number, however it is written.
      const texts = isNumber(value) ? new Set([plainDigits(value), String(value)]) : [value]
      for (const text of texts) {
        const masked = this.text(text)
        if (masked !== text) return [{ path, replacements: [masked, null, REMOVED] }]
      }
      return []
    }
    if (Array.isArray(value)) {
      return value.flatMap((element: unknown, index) =>
        this.#placesIn(element, [...path, index], rulesBelow(rules, index)),
      )
    }
    return isObject(value) ? this.#placesInObject(value, path, rules) : []
  }

  #placesInObject(
    object: Readonly<Record<string, unknown>>,
    path: Place['path'],
    rules: readonly PathRule[],
  ): Place[] {
    const copies = new Map<string, number>()
    return Object.entries(object).flatMap(([key, value]) => {
      const maskedName = this.#maskName(key)
      const memberRules = rulesBelow(rules, key)
      if (maskedName === key) return this.#placesIn(value, [...path, key], memberRules)
      const edits = this.#placesIn(value, [], memberRules).map(firstEdit)
      const masked = editJson(JSON.stringify(value), edits)
      const copy = (copies.get(maskedName) ?? 0) + 1
      copies.set(maskedName, copy)
      const newName = copy === 1 ? maskedName : `${maskedName} ${copy}`
      const removal = { path: [...path, key], replacements: [REMOVED] }
      // The member cannot be kept under a name that another member has, or that would be masked again.
      if (masked === undefined || Object.hasOwn(object, newName) || this.#maskName(newName) !== newName)
        return [removal]
      return [removal, { path: [...path, newName], replacements: [parseJson(masked), null, REMOVED] }]
    })
  }

  #maskName(name: string): string {
    const masked = this.#maskedNames.get(name) ?? this.text(name)
    this.#maskedNames.set(name, masked)
    return masked
  }
}

function firstEdit({ path, replacements: [to] }: Place): Edit {
  return { path, to }
}

/** The path rules that continue through a member or element, from there on. */
function rulesBelow(rules: readonly PathRule[], key: Exclude<Step, null>): readonly PathRule[] {
  return rules.flatMap(({ steps: [first, ...steps], replace }) =>
    first === null || first === key ? [{ steps, replace }] : [],
  )
}

/** The object or array that a text contains; undefined if it is neither. */
function readContainer(text: string): unknown {
  return /^\s*[[{]/.test(text) ? readJson(text) : undefined
}

/** The compiled rules of a target. */
interface Rules {
  readonly paths: readonly { readonly steps: readonly Step[]; readonly replace: string }[]
  readonly patterns: readonly { readonly pattern: Pattern; readonly replace: string }[]
}

/** The rules for the responses of a target; undefined if there are none. @throws TypeError */
function rulesFor(rules: readonly RuleSettings[], target: Target): Rules | undefined {
  const applicable = rules.filter((rule) => isFor(rule, target))
  if (applicable.length === 0) return undefined
  return {
    paths: applicable.flatMap(({ path, replace }) =>
      path === undefined ? [] : { steps: stepsOf(path), replace },
    ),
    patterns: applicable.flatMap(({ pattern, replace }) =>
      pattern === undefined ? [] : { pattern: patternOf(pattern), replace },
    ),
  }
}

// The tool of a task, or of a message between calls, is unknown: then every rule applies.
function isFor({ tools }: RuleSettings, { method, name }: Target): boolean {
  if (tools === undefined || method.startsWith('tasks/') || method === 'subscriptions/listen') return true
  return method === 'tools/call' && (name === undefined || [tools].flat().some((glob) => fits(glob, name)))
}

function stepsOf(path: string): readonly Step[] {
  const steps = parseSteps(path)
  if (!steps) throw new TypeError(`${path} is not a valid path`)
  return steps
}

function patternOf(source: string): Pattern {
  const pattern = compilePattern(source)
  if (!pattern) throw new TypeError(`${source} cannot be matched in linear time`)
  return pattern
}

/** Marks a value that is removed. */
const REMOVED = Symbol('removed')

/** A place in a JSON value, and its new value. */
interface Edit {
  readonly path: readonly (string | number)[]
  readonly to: unknown
}

interface Branch {
  /** The new value; absent if only something below changes. */
  to?: unknown
  readonly children: Map<string, Branch>
}

/** JSON text with some places changed; everything else keeps its text. Undefined if the whole value is removed. */
function editJson(text: string, edits: readonly Edit[]): string | undefined {
  const root: Branch = { children: new Map() }
  for (const { path, to } of edits) {
    let branch = root
    for (const step of path) {
      const next: Branch = branch.children.get(String(step)) ?? { children: new Map() }
      branch.children.set(String(step), next)
      branch = next
    }
    branch.to = to
  }
  return applyBranch(text, root)
}

function applyBranch(text: string, branch: Branch): string | undefined {
  if ('to' in branch) return branch.to === REMOVED ? undefined : JSON.stringify(branch.to)
  if (branch.children.size === 0) return text
  return text.trimStart().startsWith('[') ? applyToArray(text, branch) : applyToObject(text, branch)
}

function applyToArray(text: string, { children }: Branch): string {
  const elementTexts = elements(text).map((element, index) => {
    const branch = children.get(String(index))
    return branch ? applyBranch(element, branch) : element
  })
  return `[${elementTexts.filter((each) => each !== undefined).join(',')}]`
}

function applyToObject(text: string, { children }: Branch): string {
  const found = members(text)
  // Of duplicate keys, the last member is the value, and the only one that was examined.
  const last = new Map(found.map((member) => [member.key, member]))
  const parts = found.flatMap((member) => {
    const branch = children.get(member.key)
    if (!branch) return [text.slice(member.start, member.end)]
    if (last.get(member.key) !== member) return []
    return pair(member.key, applyBranch(text.slice(member.valueStart, member.end), branch))
  })
  const added = [...children].flatMap(([key, branch]) =>
    last.has(key) ? [] : pair(key, applyBranch('', branch)),
  )
  return `{${[...parts, ...added].join(',')}}`
}

function pair(key: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${JSON.stringify(key)}:${value}`]
}
