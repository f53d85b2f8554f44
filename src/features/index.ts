import type { Feature } from './feature.ts'
import { agentProfile } from './agent-profile.ts'
import { breaker } from './breaker.ts'
import { complete } from './complete.ts'
import { concurrency } from './concurrency.ts'
import { confirm } from './confirm/confirm.ts'
import { dashdash } from './dashdash.ts'
import { contract } from './contract/contract.ts'
import { errors } from './errors/errors.ts'
import { discovery } from './discovery/discovery.ts'
import { inject } from './inject-arguments.ts'
import { intent } from './intent/intent.ts'
import { gatewayProof } from './gateway-proof.ts'
import { help } from './help.ts'
import { idempotency } from './idempotency/idempotency.ts'
import { cost } from './cost/cost.ts'
import { quota } from './cost/quota.ts'
import { usage } from './cost/usage.ts'
import { multimodal } from './multimodal.ts'
import { provenance } from './provenance/provenance.ts'
import { receipts } from './provenance/receipts.ts'
import { limits } from './limits.ts'
import { manifest } from './manifest/manifest.ts'
import { misplaced } from './misplaced-values.ts'
import { mask } from './mask/mask.ts'
import { permissions } from './permissions/permissions.ts'
import { rateLimit } from './rate-limit.ts'
import { resultLimit } from './result-limit.ts'
import { retry } from './retry.ts'
import { skills } from './skills/skills.ts'
import { structuredText } from './structured-text.ts'
import { transactions } from './transactions/transactions.ts'
import { undo } from './undo/undo.ts'
import { validate } from './validate/validate.ts'

/** Every feature; the first one is outermost. */
export const features: readonly Feature<never>[] = [
  quota, // what is left changes with each call: what those below say is encoded once
  manifest, // these only answer and describe: lists are shown with what everything below says of them
  dashdash,
  help,
  skills,
  agentProfile,
  gatewayProof,
  limits, // a deadline covers everything below
  errors, // every failure below is told in one form, refusals too
  inject, // from here on what models write for the gateway is no argument any more
  contract, // a name that is gone is answered for before anything counts; what lists say of the end of a tool comes first
  concurrency, // and so does a place among the calls under way
  receipts, // what the caller gets is signed, whatever those below added to it
  usage, // hears of the limit below, and whether a call was told again, which costs nothing
  rateLimit, // cheap, before anything is looked into
  permissions, // what may not be done spends nothing more
  intent, // a call that is sent elsewhere was permitted, and need not fit; the server is not told why it is called
  misplaced, // above what a schema refuses without saying where the value belongs
  validate, // what the server would get, against its own schema
  multimodal, // what is too large is refused before anything is kept of it
  idempotency, // what was done already is told again: nobody is asked, nothing is done
  transactions, // a step that may not be one is refused before anyone is asked
  cost, // what is told again costs nothing, and nobody is asked about what can not be paid
  confirm, // the last gate before the outside world
  provenance, // above whatever changes a result, so that it can say so; below what keeps it, so that a replay says the same
  resultLimit, // what the server sent, before anyone keeps it
  structuredText, // a text more, which counts toward the limit and repeats nothing that is masked
  mask, // what nobody above may see, while texts are whole: JSON that was shortened is none, and paths find nothing there
  undo, // what really came back says how it is undone
  retry, // each attempt is one for the breaker
  complete, // what a server lists is completed once, before anything is taken out of it for somebody
  breaker, // next to the server
  discovery, // answers, and tells which tool was meant by a name nobody has
]
