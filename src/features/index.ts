import type { Feature } from './feature.ts'
import { breaker } from './breaker.ts'
import { concurrency } from './concurrency.ts'
import { confirm } from './confirm/confirm.ts'
import { errors } from './errors/errors.ts'
import { idempotency } from './idempotency/idempotency.ts'
import { limits } from './limits.ts'
import { mask } from './mask/mask.ts'
import { permissions } from './scopes/permissions.ts'
import { rateLimit } from './rate-limit.ts'
import { resultLimit } from './result-limit/result-limit.ts'
import { retry } from './retry.ts'
import { structuredText } from './structured-text.ts'
import { transactions } from './transactions/transactions.ts'
import { undo } from './undo/undo.ts'
import { validate } from './validate/validate.ts'

/** Every feature; the first one is outermost. */
export const features: readonly Feature<never>[] = [
  limits, // a deadline covers everything below
  errors, // every failure below is told in one form, refusals too
  concurrency, // and so does a place among the calls under way
  rateLimit, // cheap, before anything is looked into
  permissions, // what may not be done spends nothing more
  validate, // what the server would get, against its own schema
  idempotency, // what was done already is told again: nobody is asked, nothing is done
  transactions, // a step that may not be one is refused before anyone is asked
  confirm, // the last gate before the outside world
  resultLimit, // what the server sent, before anyone keeps it
  structuredText, // a text more, which counts toward the limit and repeats nothing that is masked
  mask, // what nobody above may see, while texts are whole: JSON that was shortened is none, and paths find nothing there
  undo, // what really came back says how it is undone
  retry, // each attempt is one for the breaker
  breaker, // next to the server
]
