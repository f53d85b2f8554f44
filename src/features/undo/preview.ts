/**
 * What a call would change, for the person who is asked about it: the state before it is read as an undo reads it, and compared
 * with what the call writes. Invariant: nothing here is a condition. A state that cannot be read in time is not shown.
 */
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import { maskedArguments } from '../../core/masked-arguments.ts'
import { differenceLines, firstLines, maskedDifference } from '../../core/text/difference.ts'
import { visibleLine } from '../../core/text/escape.ts'
import { MASK } from '../../core/text/redactor.ts'
import { within } from '../../core/time/waiting.ts'
import { evaluate, pathsOf, uses } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import { referencesSlot } from '../../core/used-reference.ts'
import { world } from '../../core/world.ts'
import { type Compensation, isKeepable, tooLarge } from '../../records/actions.ts'
import type { ShownChange } from '../../records/approvals.ts'
import type { Services } from '../feature.ts'
import { masked } from '../offers.ts'
import type { ReadSnapshot, SnapshotReader, States } from './states.ts'

/** How long the reads for a question may take together, in milliseconds: a person is asked in any case. */
const PREVIEW_TIMEOUT_MS = 2000

type Rule = Extract<UndoRule, { readonly kind: 'restore' }>
type Fields = Readonly<Record<string, unknown>>

interface PreviewOptions {
  readonly states: States
  readonly snapshots: SnapshotReader
  readonly deps: Pick<Services, 'features' | 'gateway' | 'servers'>
  /** The names of the arguments of the call, and of the one that undoes it, that are secrets by a schema. */
  secretsOf(call: Call, rule: Rule, tool: Descriptor): Promise<readonly string[]>
  /** What undoes a call, from the facts known before it. */
  compensationFor(
    rule: UndoRule,
    facts: { readonly args: Fields; readonly snapshot: ReadSnapshot },
  ): Compensation
  /** Why its server would reject that. */
  problemOf(call: Call, way: Compensation, tool: Descriptor): Promise<string | undefined>
}

/** What a call of a tool would change; undefined if that is not known. Never throws. */
export async function previewOf(
  call: Call,
  tool: Descriptor,
  options: PreviewOptions,
): Promise<ShownChange | undefined> {
  const at = world.now()
  const found = previewed(call, tool, options).catch(() => undefined)
  const preview = await within(found, PREVIEW_TIMEOUT_MS, undefined)
  if (!preview) return undefined
  const { lines, notUndone, ...rest } = preview
  const why = notUndone === undefined ? undefined : visibleLine(notUndone)
  return { ...rest, lines: lines.map(visibleLine), ...(why !== undefined && { notUndone: why }), at }
}

async function previewed(
  call: Call,
  tool: Descriptor,
  options: PreviewOptions,
): Promise<Omit<ShownChange, 'at'> | undefined> {
  const { states, deps } = options
  const { upstream } = tool
  const rule = await deps.servers.undoRule(upstream, tool.name)
  if (rule?.kind !== 'restore') return undefined
  const secrets = await options.secretsOf(call, rule, tool)
  const args = asObject(call.params.fields.arguments)
  const timeout = PREVIEW_TIMEOUT_MS
  const { snapshot } = await states.before(call, rule, { upstream, args, timeout })
  if (snapshot.kind === 'unreadable') return undefined
  const mask = (value: unknown, name = rule.snapshot.tool): unknown =>
    masked(deps, value, { upstream, method: 'tools/call', name })
  const shown = (value: unknown, name?: string): unknown => maskedArguments(mask(value, name), secrets)
  // Paths of what is masked are those of the result.
  const seen = snapshot.kind === 'found' ? { ...snapshot, value: mask(snapshot.value) } : snapshot
  const before = restoredBy(rule, args, seen)
  const undoing = before ? await undoProblem(call, tool, { rule, snapshot, options }) : {}
  if (rule.restore.tool === tool.name) {
    const written = new Comparison(deps.gateway)
    const of = (given: Fields): Fields =>
      Object.fromEntries(Object.entries(given).filter(([name]) => snapshotNames(rule).includes(name)))
    const after = shown(of(written.shown(args)))
    if (!before) return { kind: 'created', lines: differenceLines({}, after), ...undoing }
    const lines = maskedDifference(
      { real: restoredBy(rule, args, written.state(snapshot)), shown: shown(before) },
      { real: of(written.real(args)), shown: after, isWritten: true },
    )
    return { kind: 'difference', lines, ...undoing }
  }
  if (!before) return undefined
  const trial = await triedCall(call, tool, options)
  if (trial)
    return { kind: 'reported', lines: firstLines(textLines(shown(trial.value, tool.name))), ...undoing }
  if (tool.classification.op === 'delete')
    return { kind: 'lost', lines: differenceLines(shown(before), {}), ...undoing }
  return { kind: 'current', lines: firstLines(textLines(shown(before))), ...undoing }
}

/**
 * States and arguments as they are compared. In a state, a secret of the gateway is `***` already; a call may write that text itself.
 * So what stands for a secret is replaced by a text that no one knows.
 */
class Comparison {
  readonly #redactor: Services['gateway']['redactor']
  readonly #secret = world.randomUUID()
  readonly #literal = world.randomUUID()

  constructor({ redactor }: Pick<Services['gateway'], 'redactor'>) {
    this.#redactor = redactor
  }

  /** A state with its secrets replaced; in one with secrets, `***` counts as a secret everywhere. */
  state(snapshot: ReadSnapshot): ReadSnapshot {
    if (snapshot.kind !== 'found' || !snapshot.isRedacted) return snapshot
    const text = JSON.stringify(snapshot.value).replaceAll(MASK, this.#secret)
    return { ...snapshot, value: readJson(text) }
  }

  /** Arguments with their secrets replaced: where they have `***`, that is written. */
  real(args: Fields): Fields {
    const text = JSON.stringify(args).replaceAll(MASK, this.#literal)
    const marked = this.#redactor.json(text).replaceAll(MASK, this.#secret)
    return asObject(readJson(marked.replaceAll(this.#literal, MASK)))
  }

  /** Arguments without secrets. */
  shown(args: Fields): Fields {
    return asObject(readJson(this.#redactor.json(JSON.stringify(args))))
  }
}

/** Why the call could not be undone, as far as that is known before it. */
async function undoProblem(
  call: Call,
  tool: Descriptor,
  {
    rule,
    snapshot,
    options,
  }: { readonly rule: Rule; readonly snapshot: ReadSnapshot; readonly options: PreviewOptions },
): Promise<Pick<ShownChange, 'notUndone'>> {
  if (uses(rule.restore).has('result')) return {}
  const whole = options.compensationFor(rule, { args: asObject(call.params.fields.arguments), snapshot })
  // Data of references is kept beside the record.
  const way = isKeepable(whole) || referencesSlot.of(call) ? whole : tooLarge
  const problem =
    way.kind === 'none' ? way.reason : await options.problemOf(call, way, tool).catch(() => undefined)
  return problem === undefined ? {} : { notUndone: problem }
}

/** The arguments that the undo would restore from the state before the call; undefined if there was nothing. */
function restoredBy(rule: Rule, args: Fields, snapshot: ReadSnapshot): Fields | undefined {
  if (snapshot.kind !== 'found') return undefined
  const restored = evaluate(rule.restore, { args, snapshot: snapshot.value })
  return Object.fromEntries(snapshotNames(rule).map((name) => [name, restored[name]]))
}

/** The arguments of the restoring call that come from the state before. */
function snapshotNames({ restore }: Rule): readonly string[] {
  return [...restore.arguments].flatMap(([name, value]) => {
    const paths = pathsOf({ ...restore, arguments: new Map([[name, value]]) })
    return paths.some(({ root }) => root === 'snapshot') ? [name] : []
  })
}

/** The result of the call as its server only tries it, if the tool has an argument for that. */
async function triedCall(
  call: Call,
  { upstream, name, classification }: Descriptor,
  { snapshots }: PreviewOptions,
): Promise<Extract<ReadSnapshot, { readonly kind: 'found' }> | undefined> {
  const [trial, ...inner] = classification.varies?.dryRun ?? []
  if (trial === undefined || inner.length > 0) return undefined
  const tried = { ...asObject(call.params.fields.arguments), [trial]: true }
  const read = { upstream, tool: name, arguments: tried }
  const found = await snapshots.readWithin(call, read, 'during', PREVIEW_TIMEOUT_MS)
  return found.kind === 'found' ? found : undefined
}

/** A value by its lines: text, or the only text in it, as it is. */
function textLines(value: unknown): readonly string[] {
  const [only, ...others] = isObject(value) ? Object.values(value) : [value]
  const text = others.length === 0 && typeof only === 'string' ? only : JSON.stringify(value, null, 2)
  return text.trimEnd().split('\n')
}
