/** The experiments of a proof, one for each claim. Each begins with a state of its own and says what it saw. */
import { randomUUID } from 'node:crypto'
import { isObject } from '../../core/json/json.ts'
import type { Claim } from '../../core/proof.ts'
import { shortened } from '../../core/text/escape.ts'
import { evaluate, type Expression } from '../../core/undo/expression.ts'
import type { UndoRule } from '../../core/undo/rules.ts'
import { foundAt } from '../../core/undo/verification.ts'
import { differenceOf, readState, type State, steadyReads } from './state.ts'
import type { ToolAnswer, Json, ProofCall, ProofTarget, Wire } from './target.ts'
import type { Trial } from './trials.ts'

/** What an experiment found. */
export type Verdict = 'proved' | 'refuted' | 'no proof'

/** The result of an experiment, and the reason for people. */
export interface ClaimFinding {
  readonly claim: Claim
  readonly verdict: Verdict
  readonly reason: string
}

/** The tool of a proof, and how it is called. */
export interface ProofSubject {
  readonly tool: string
  readonly target: ProofTarget
  readonly wire: Wire
  /** A trial that no earlier one touched. */
  next(): Trial
  /** The reads that could show the effect of a call. */
  reads(args: Json): readonly ProofCall[]
  /** Another trial for the object of the first one, with other content; undefined if that cannot be made. */
  overwriting(first: Trial): Trial | undefined
  /** The gateway makes a call whose response was lost again. */
  readonly isIdempotent: boolean
}

/** An experiment cannot be carried out: the reason why there is no proof. */
class Obstacle extends Error {}

async function finding(claim: Claim, run: () => Promise<Omit<ClaimFinding, 'claim'>>): Promise<ClaimFinding> {
  try {
    return { claim, ...(await run()) }
  } catch (error) {
    if (!(error instanceof Obstacle)) throw error
    return { claim, verdict: 'no proof', reason: error.message }
  }
}

const proved = (reason: string) => ({ verdict: 'proved', reason }) as const
const refuted = (reason: string) => ({ verdict: 'refuted', reason }) as const
const noProof = (reason: string) => ({ verdict: 'no proof', reason }) as const

/** Makes the calls before a trial. @throws Obstacle */
async function prepare({ target }: ProofSubject, { before }: Trial): Promise<void> {
  for (const call of before) {
    const { failure } = await target.call(call)
    if (failure !== undefined) throw new Obstacle(`the call of ${call.tool} before it failed: ${failure}`)
  }
}

/** The state that the reads of a trial show, and how it is read again. */
interface Observed {
  readonly before: State
  now(): Promise<State>
}

async function observed({ target, reads }: ProofSubject, trial: Trial): Promise<Observed> {
  const steady = await steadyReads(target, reads(trial.arguments))
  const now = (): Promise<State> => readState(target, steady)
  return { before: await now(), now }
}

function callOf({ tool }: ProofSubject, { arguments: args }: Trial): ProofCall {
  return { tool, arguments: args }
}

/** @throws Obstacle if the call failed */
function succeeded(answer: ToolAnswer, what = 'the server refused the call'): void {
  if (answer.failure !== undefined) throw new Obstacle(`${what}: ${answer.failure}`)
}

const UNSEEN = 'no read shows the effect'

// UNDO

/** What happened in one situation: undefined if the situation cannot be brought about. */
type Case = 'equal' | 'unseen' | { readonly differs: string } | undefined

/** Whether the rule of a tool restores the state: where nothing was, over something, partly done, and done before. */
export function proveUndo(subject: ProofSubject, rule: UndoRule): Promise<ClaimFinding> {
  return finding('undo', async () => {
    const fresh = await freshCase(subject)
    const cases: readonly (readonly [string, Case])[] = [
      ['', fresh.first],
      ['where it had been done before, ', fresh.again],
      [
        'where something else was before, ',
        rule.kind === 'restore' ? await overwriteCase(subject) : undefined,
      ],
      ['where a part of it had been done before, ', await partialCase(subject)],
    ]
    const wrong = cases.find(([, found]) => typeof found === 'object')
    if (wrong && typeof wrong[1] === 'object')
      return refuted(`after the undo, ${wrong[0]}${wrong[1].differs}`)
    const seen = cases.filter(([, found]) => found === 'equal')
    if (seen.length === 0) {
      if (fresh.obstacle !== undefined && cases.every(([, found]) => found === undefined))
        return noProof(fresh.obstacle)
      return noProof(UNSEEN)
    }
    return proved(
      `the reads show the effect, and after the undo the state of before, in ${seen.length} ${seen.length === 1 ? 'situation' : 'situations'}`,
    )
  })
}

/** The call, the same call again with its undo, and then the undo of the first one. */
async function freshCase(
  subject: ProofSubject,
): Promise<{ readonly first: Case; readonly again: Case; readonly obstacle?: string }> {
  const trial = subject.next()
  await prepare(subject, trial)
  const { before, now } = await observed(subject, trial)
  const first = await step(subject, trial)
  if (first.answer.failure !== undefined) {
    // The gateway refuses steps without an undo, and the rule may have none where nothing was.
    if (first.answer.code === 'COMPENSATION_UNAVAILABLE')
      return { first: undefined, again: undefined, obstacle: first.answer.failure }
    throw new Obstacle(`the server refused the call: ${first.answer.failure}`)
  }
  const after = await now()
  const isSeen = differenceOf(before, after) !== undefined
  // Its undo must not take back the first one. It need not have an effect of its own.
  const again = await undoneStep(subject, trial, { before: after, now })
  return { first: await undone(subject, first.transaction, { before, now, isSeen }), again }
}

/** A step, and then its undo. */
async function undoneStep(subject: ProofSubject, trial: Trial, { before, now }: Observed): Promise<Case> {
  const made = await step(subject, trial)
  if (made.answer.failure !== undefined) return undefined
  const isSeen = differenceOf(before, await now()) !== undefined
  return undone(subject, made.transaction, { before, now, isSeen })
}

/** The call on an object that another call has written before. */
async function overwriteCase(subject: ProofSubject): Promise<Case> {
  const first = subject.next()
  const trial = subject.overwriting(first)
  return trial && caseAfter(subject, callOf(subject, first), trial)
}

/** The call after one with the first element of its list. */
async function partialCase(subject: ProofSubject): Promise<Case> {
  const trial = subject.next()
  const part = partOf(subject, trial)
  if (!part) return undefined
  await prepare(subject, trial)
  return caseAfter(subject, part.call, { ...trial, before: [] })
}

/** The call of a trial with only the first element of a list, and the name of that argument. */
function partOf({ tool }: ProofSubject, { arguments: args }: Trial) {
  for (const [name, value] of Object.entries(args))
    if (Array.isArray(value) && value.length > 1)
      return { name, call: { tool, arguments: { ...args, [name]: value.slice(0, 1) } } }
  return undefined
}

async function caseAfter(subject: ProofSubject, earlier: ProofCall, trial: Trial): Promise<Case> {
  const { failure } = await subject.target.call(earlier)
  if (failure !== undefined) return undefined
  return undoneStep(subject, trial, await observed(subject, trial))
}

async function step(
  subject: ProofSubject,
  trial: Trial,
): Promise<{ readonly answer: ToolAnswer; readonly transaction: string }> {
  const transaction = `prove-${randomUUID()}`
  await subject.target.begin(transaction)
  return { answer: await subject.target.call(callOf(subject, trial), { transaction }), transaction }
}

async function undone(
  { target }: ProofSubject,
  transaction: string,
  { before, now, isSeen }: Observed & { readonly isSeen: boolean },
): Promise<Case> {
  const problem = await target.rollback(transaction)
  const differs = differenceOf(before, await now())
  if (differs !== undefined) return { differs: problem === undefined ? differs : `${differs} (${problem})` }
  if (problem !== undefined) return { differs: problem }
  return isSeen ? 'equal' : 'unseen'
}

// ONCE

/** Whether calls with one key have one effect: repeated, and repeated after the response was lost. */
export function proveOnce(subject: ProofSubject): Promise<ClaimFinding> {
  return finding('once', async () => {
    const repeated = await keyedCase(subject, { isLost: false })
    if (repeated !== undefined) return repeated
    const lost = await keyedCase(subject, { isLost: true })
    return lost ?? proved('two calls with one key had one effect, also where the first response was lost')
  })
}

/** What is wrong; undefined if nothing is. @throws Obstacle */
async function keyedCase(
  subject: ProofSubject,
  { isLost }: { readonly isLost: boolean },
): Promise<Omit<ClaimFinding, 'claim'> | undefined> {
  const { target, wire, tool } = subject
  const trial = subject.next()
  await prepare(subject, trial)
  const { before, now } = await observed(subject, trial)
  const key = `${isLost ? 'lost' : 'twice'}-${tool.replaceAll(/[^\w-]/g, '-')}`.slice(0, 100)
  const sent = wire.count(tool)
  if (isLost) wire.dropNext(tool)
  const first = await target.call(callOf(subject, trial), { key })
  if (!isLost) succeeded(first)
  const after = await now()
  await target.call(callOf(subject, trial), { key })
  const differs = differenceOf(after, await now())
  const situation = isLost ? 'after a lost response, ' : ''
  if (differs !== undefined)
    return refuted(`${situation}the second call with the key had an effect: ${differs}`)
  const calls = wire.count(tool) - sent
  // A lost call of an idempotent tool is made again.
  if (calls > 1 && !(isLost && subject.isIdempotent))
    return refuted(`${situation}the server got ${calls} calls for one key`)
  return differenceOf(before, after) === undefined ? noProof(UNSEEN) : undefined
}

// IDEMPOTENT

/** Whether a repeated call without a key has no further effect. */
export function proveIdempotent(subject: ProofSubject, hint: unknown): Promise<ClaimFinding> {
  return finding('idempotent', async () => {
    const { target } = subject
    const trial = subject.next()
    await prepare(subject, trial)
    const { before, now } = await observed(subject, trial)
    succeeded(await target.call(callOf(subject, trial)))
    const after = await now()
    if (differenceOf(before, after) === undefined) return noProof(UNSEEN)
    const { failure } = await target.call(callOf(subject, trial))
    const differs = differenceOf(after, await now())
    if (differs !== undefined)
      return hint === true
        ? refuted(`its server says idempotentHint: true, but after the second call ${differs}`)
        : noProof(`it is not idempotent: after the second call ${differs}`)
    if (failure !== undefined) return noProof(`the second call failed: ${failure}`)
    // The reads may not show everything.
    if (hint === false)
      return noProof('the reads show no second effect, but its server says idempotentHint: false')
    return proved('the second call changed nothing that the reads show')
  })
}

// VERIFY

/** Whether a rule finds the effect of a call if it was made, and nothing if it was not. */
export function proveVerify(subject: ProofSubject, rule: Expression): Promise<ClaimFinding> {
  return finding('verify', async () => {
    // Another object, so that a rule that finds just any is refuted.
    const other = subject.next()
    await prepare(subject, other)
    succeeded(await subject.target.call(callOf(subject, other)))
    const trial = subject.next()
    await prepare(subject, trial)
    const early = await verifies(subject, rule, trial.arguments)
    if (early.finds) return refuted(`it finds ${early.what} before the call`)
    succeeded(await subject.target.call(callOf(subject, trial)))
    const late = await verifies(subject, rule, trial.arguments)
    if (!late.finds) return refuted(`it finds nothing after the call: ${late.what}`)
    const partly = await partlyVerified(subject, rule)
    if (partly !== undefined) return refuted(partly)
    return proved('it finds nothing before the call, and the result after it')
  })
}

/** What a rule finds of a call of which only a part was done. */
async function partlyVerified(subject: ProofSubject, rule: Expression): Promise<string | undefined> {
  const trial = subject.next()
  const part = partOf(subject, trial)
  if (!part) return undefined
  await prepare(subject, trial)
  const { failure } = await subject.target.call(part.call)
  if (failure !== undefined) return undefined
  const { finds, what } = await verifies(subject, rule, trial.arguments)
  return finds ? `it finds ${what} although only the first of ${part.name} was done` : undefined
}

async function verifies(
  { target }: ProofSubject,
  rule: Expression,
  args: Json,
): Promise<{ readonly finds: boolean; readonly what: string }> {
  const { find } = rule
  if (!find) throw new Obstacle('the rule does not name what to look for: add -> and a path')
  try {
    const { failure, value } = await target.call({ tool: rule.tool, arguments: evaluate(rule, { args }) })
    if (failure !== undefined) return { finds: false, what: `the read failed: ${failure}` }
    const found = foundAt(value, find)
    return found ? { finds: true, what: textOf(found.value) } : { finds: false, what: 'the place is empty' }
  } catch (error) {
    return { finds: false, what: error instanceof Error ? error.message : String(error) }
  }
}

const MAX_SHOWN = 80

function textOf(value: unknown): string {
  const isWhole = isObject(value) || Array.isArray(value)
  return shortened(JSON.stringify(isWhole ? value : String(value)), MAX_SHOWN)
}
