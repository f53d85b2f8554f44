/** The promises of the gateway: what each one says, where it ends, what shows it, and the code that keeps it. */

/** A test that shows a promise, one with a seed with all its repetitions; or rules of `npm run simulate`. */
export type Proof =
  | { readonly kind: 'test'; readonly file: string; readonly seed?: number }
  | { readonly kind: 'simulation'; readonly rules: readonly string[] }

/** One promise. */
export interface PromiseOfGateway {
  readonly id: string
  readonly sentence: string
  /** What the sentence does not cover. */
  readonly limits: string
  readonly proofs: readonly Proof[]
  /** The files and folders of `src` whose change makes the figures old. */
  readonly code: readonly string[]
}

/** How the simulation runs for the promises. */
export const SIMULATION = { seed: 1, steps: 1_000_000 }

const keyed: Proof = { kind: 'test', file: 'test/integration/crash/keyed.long.test.ts', seed: 20_261 }

/** All promises, in the order of the page. */
export const promises: readonly PromiseOfGateway[] = [
  {
    id: 'once',
    sentence: 'A call with an idempotency key takes effect at most once.',
    limits:
      'For as long as the key is remembered (`features.idempotency.ttl`), and with a store that keeps what it acknowledged. A server that does its work twice for one request is outside.',
    proofs: [keyed, { kind: 'simulation', rules: ['effects-once', 'exact-numbers'] }],
    code: ['features/idempotency', 'records/calls.ts', 'core/json'],
  },
  {
    id: 'answered',
    sentence:
      'A call that was answered keeps its answer: the same call with its key gets the same result again.',
    limits:
      'A result that could not be recorded says so, and one that is larger than the quota of the caller is not kept.',
    proofs: [keyed, { kind: 'simulation', rules: ['answers-stay'] }],
    code: ['features/idempotency', 'records/calls.ts'],
  },
  {
    id: 'conflict',
    sentence: 'Another call with the same key is refused, and does not run.',
    limits:
      'Calls are the same if tool and arguments are. Keys of different callers have nothing to do with each other.',
    proofs: [{ kind: 'simulation', rules: ['answers-stay', 'effects-once'] }],
    code: ['features/idempotency', 'records/calls.ts'],
  },
  {
    id: 'unknown',
    sentence: 'If the outcome of a call is not known, the answer is `OUTCOME_UNKNOWN`, and never a guess.',
    limits: 'A configured `verify` rule is believed: if it reports what is not true, so does the gateway.',
    proofs: [
      { kind: 'test', file: 'test/integration/crash/unanswered.long.test.ts' },
      { kind: 'simulation', rules: ['success-has-effect', 'known-without-faults'] },
    ],
    code: ['features/idempotency', 'core/failure.ts'],
  },
  {
    id: 'expiry',
    sentence:
      'Nothing runs again because time passes or an answer is lost: neither a call in flight nor a remembered key expires early, and a call without a key that repeats one whose answer was lost gets its outcome.',
    limits:
      'Once a key is forgotten, a call with it is a new call. Clocks of gateways may differ by some seconds. Without a key: for tools that change something and are not idempotent, within `features.idempotency.lost_answers`, in one process, and for losses that the gateway sees before the repetition arrives.',
    proofs: [
      { kind: 'simulation', rules: ['effects-once', 'answers-stay'] },
      { kind: 'test', file: 'test/integration/idempotency/retry-storm.long.test.ts' },
    ],
    code: ['features/idempotency', 'records/calls.ts'],
  },
  {
    id: 'transactions',
    sentence:
      'Each transaction ends: committed with all its effects, or rolled back with none left, or it asks for attention.',
    limits:
      'An undo that a server reports as done is believed. A step that cannot be undone is refused before it runs, unless it is a pivot or `features.transactions.uncompensable` allows it.',
    proofs: [
      { kind: 'test', file: 'test/integration/sagas/killed.long.test.ts', seed: 20_262 },
      { kind: 'simulation', rules: ['transactions-end', 'exact-numbers'] },
    ],
    code: [
      'core/json',
      'features/transactions',
      'records/transactions.ts',
      'records/transitions.ts',
      'records/actions.ts',
    ],
  },
  {
    id: 'approval',
    sentence: 'One approval opens one call, and exactly the call that was shown.',
    limits:
      'A person may choose to be asked no more about a tool in a session, where the configuration offers that.',
    proofs: [{ kind: 'simulation', rules: ['approval-opens-one', 'exact-numbers'] }],
    code: ['features/confirm', 'records/approvals.ts', 'core/json'],
  },
  {
    id: 'durable',
    sentence: 'What a client received is in the store: a crash right after the response takes nothing back.',
    limits: 'With `store: memory` it ends with the process. Redis keeps what its own persistence keeps.',
    proofs: [
      { kind: 'test', file: 'test/integration/crash/operations.long.test.ts', seed: 20_263 },
      { kind: 'simulation', rules: ['answers-stay', 'transactions-end'] },
    ],
    code: ['features/progress', 'features/idempotency', 'records/operations.ts', 'store/lmdb', 'store/redis'],
  },
  {
    id: 'apart',
    sentence: 'Each response, question and result reaches the call and the caller that it belongs to.',
    limits: 'What a server itself mixes up is outside.',
    proofs: [
      { kind: 'test', file: 'test/integration/lifecycle/attribution.long.test.ts' },
      { kind: 'simulation', rules: ['success-has-effect', 'answers-stay'] },
    ],
    code: ['protocol/json-rpc-peer.ts', 'upstream/protocol', 'downstream/session', 'records/principal.ts'],
  },
  {
    id: 'audit',
    sentence: 'Each call and each refusal has one line in the audit log, and no line can be edited unseen.',
    limits:
      'Lines are written within 20 ms after the call, so the last ones before a kill can be missing. Lines cut off at the end are found by the anchors (see the guard document).',
    proofs: [{ kind: 'test', file: 'test/integration/observe/audit-complete.long.test.ts', seed: 20_264 }],
    code: ['observability/audit', 'observability/observe.ts'],
  },
]
