/** The order of the features, in five stages. This is the only place that decides it; see ARCHITECTURE.md. */
import type { Feature } from './feature.ts'
import { agentProfile, help } from './describing/guides.ts'
import { breaker } from './breaker.ts'
import { complete } from './complete.ts'
import { concurrency } from './concurrency.ts'
import { conformance } from './conformance/conformance.ts'
import { confirm } from './confirm/confirm.ts'
import { dashdash } from './describing/lists.ts'
import { context } from './state/context.ts'
import { contract } from './contract/contract.ts'
import { errors } from './errors/errors.ts'
import { discovery } from './discovery/discovery.ts'
import { dryRun } from './dry-run/dry-run.ts'
import { events } from './events/events.ts'
import { injectArguments } from './inject-arguments.ts'
import { intent } from './intent/intent.ts'
import { gatewayProof } from './gateway-proof.ts'
import { idempotency } from './idempotency/idempotency.ts'
import { argumentLimits } from './cost/argument-limits.ts'
import { cost } from './cost/cost.ts'
import { quota } from './cost/quota.ts'
import { usage } from './cost/usage.ts'
import { multimodal } from './multimodal.ts'
import { progress } from './progress/progress.ts'
import { provenance } from './provenance/provenance.ts'
import { receipts } from './provenance/receipts.ts'
import { limits } from './limits.ts'
import { manifest } from './describing/manifest.ts'
import { misplacedValues } from './misplaced-values.ts'
import { mask } from './mask/mask.ts'
import { pin } from './pin.ts'
import { pauseWrites } from './pause-writes.ts'
import { permissions } from './permissions/permissions.ts'
import { rateLimit } from './rate-limit.ts'
import { largeResults } from './references/keep.ts'
import { references } from './references/references.ts'
import { resultLimit } from './result-limit.ts'
import { retry } from './retry.ts'
import { skills } from './describing/skills.ts'
import { state } from './state/state.ts'
import { stream } from './stream/stream.ts'
import { structuredText } from './structured-text.ts'
import { transactions } from './transactions/transactions.ts'
import { undo } from './undo/undo.ts'
import { validate } from './validate/validate.ts'

type Stage = readonly Feature<never>[]

/** Answers and describes: lists are shown with everything that the stages below add to them. */
const describe: Stage = [
  quota, // what is left changes with each call, so what those below add is encoded once
  manifest,
  dashdash,
  help,
  skills,
  agentProfile,
  conformance, // has no part in calls
  gatewayProof,
]

/** Decides whether the gateway has time and capacity for a call, and gives every failure below one form. */
const admit: Stage = [
  dryRun, // leaves the chain here, above all that keeps something
  progress, // a call that outlives its request keeps everything below, deadlines too
  limits, // a deadline covers everything below
  errors, // every failure below gets one form, refusals too
  injectArguments, // from here on, values that models write for the gateway are no longer arguments
  contract, // a retired name is answered before anything is counted; its notices come first in lists
  concurrency, // a place among the calls in flight, before anything is spent
  receipts, // signs what the caller gets, with everything that those below add
  usage, // reads the rate limit below, and whether a call was replayed, which costs nothing
  stream, // every page is a call of its own from here on: counted, permitted, paid for and masked; those above see one
  rateLimit, // cheap, before anything is looked up
]

/** Decides whether the caller may make this call, and whether the call is well-formed. */
const authorize: Stage = [
  state, // rules and schemas apply to the arguments with the remembered ones; a call without its context goes no further
  references, // rules and schemas apply to the data that is sent, not to the names of it
  permissions, // a forbidden call spends nothing more
  pin, // only who may call a tool learns that it is held; nothing is spent on it, and no one is asked
  intent, // a redirected call was permitted, and need not fit; the server does not see the intent
  misplacedValues, // above a schema error that would not say where the value belongs
  validate, // the arguments as the server would get them, against its own schema
  multimodal, // too large media are refused before anything is kept of them
]

/** Makes the effect happen once, undoable, paid for and approved. */
const effect: Stage = [
  idempotency, // a completed call is replayed: nothing is asked, nothing is done
  pauseWrites, // a replay is no write; a refused call leaves no step, costs nothing, and asks no one
  transactions, // a step that is not allowed is refused before an approval is asked for
  cost, // a replay costs nothing, and no approval is asked for what the budget does not cover
  argumentLimits, // the same: a refused call asks no one, and a replay takes nothing
  context, // what relies on a context that is lost is refused before anyone is asked; a replay relies on none
  confirm, // the last gate before the outside world
  events, // what was refused or replayed did not happen
]

/** Works on what goes to the server and on what comes back, closest to the server last. */
const upstream: Stage = [
  provenance, // above whatever changes a result, to say so; below what keeps it, so that a replay says the same
  resultLimit, // what the server sent, before it is kept
  largeResults, // before they are shortened, and after they are masked
  structuredText, // an additional text counts toward the limit and repeats nothing that is masked
  mask, // while texts are whole: shortened JSON cannot be parsed, and paths find nothing in it
  undo, // the result as it came back says how to undo the call
  retry, // each attempt is one for the breaker
  complete, // a list is completed once, before entries are left out of it
  breaker, // next to the server
  discovery, // answers, and suggests the tool that an unknown name meant
]

/** Every feature, in the order that a call passes them. */
export const features: readonly Feature<never>[] = [
  ...describe,
  ...admit,
  ...authorize,
  ...effect,
  ...upstream,
]
