/** Bugs that are planted in the built gateway, for the simulation to find. */
import type { Mutation } from './mutation.ts'

/** A change of the built code that breaks a promise. */
export interface PlantedBug extends Mutation {
  readonly name: string
  /** The rule that does not hold any more, and the seed and the steps with which that showed last. */
  readonly rule: string
  readonly seed: number
  readonly steps: number
}

/** The bugs, each of which breaks one promise. */
export const plantedBugs: readonly PlantedBug[] = [
  {
    name: 'an approval is changed without a compare-and-swap',
    file: 'records/approvals.js',
    find: 'await this.#approvals.change(open.approval.id, (before)',
    replace: `await (async (id, decide) => {
      const [next, result] = decide(await this.#approvals.get(id));
      if (next !== 'keep') await this.#approvals.put(id, next);
      return result;
    })(open.approval.id, (before)`,
    rule: 'approval-opens-one',
    seed: 10,
    steps: 8000,
  },
  {
    name: 'an approval is used without being marked',
    file: 'records/approvals.js',
    find: "if (open.approval.status === 'approved')\n            return this.#markUsed(draft, open);",
    replace: "if (open.approval.status === 'approved') return open.approval;",
    rule: 'approval-opens-one',
    seed: 3,
    steps: 8000,
  },
  {
    name: 'an outcome is reported before it is durable',
    file: 'features/idempotency/ledger.js',
    find: 'const written = await within(writing, WRITE_TIMEOUT_MS, undefined);',
    replace: "const written = 'whole';",
    rule: 'answers-stay',
    seed: 11,
    steps: 8000,
  },
  {
    name: 'the owner of a call in flight is not respected',
    file: 'features/idempotency/executor.js',
    find: 'return !(await this.#deps.identity.membership.isAlive(owner));',
    replace: 'return true;',
    rule: 'answers-stay',
    seed: 1,
    steps: 8000,
  },
  {
    name: 'a compensation is skipped',
    file: 'features/transactions/rollback.js',
    find: "if (compensation.kind === 'nothing')",
    replace: 'if (compensation.kind)',
    rule: 'transactions-end',
    seed: 1,
    steps: 3000,
  },
  {
    name: 'a commit is answered before it is durable',
    file: 'features/transactions/transactions.js',
    find: 'const transaction = await repository.change(key, committed(world.now()));',
    replace: `const transaction = committed(world.now())(before);
            repository.change(key, committed(world.now())).catch(() => undefined);`,
    rule: 'transactions-end',
    seed: 3,
    steps: 3000,
  },
  {
    name: 'keys belong to all callers',
    file: 'records/calls.js',
    find: 'return `${callCollection(principal)}/${upstream}:${key}`;',
    replace: "return `${callCollection('everybody')}/${upstream}:${key}`;",
    rule: 'answers-stay',
    seed: 26,
    steps: 8000,
  },
  {
    name: 'the fingerprint of a recorded call is not compared',
    file: 'features/idempotency/executor.js',
    find: 'if (record.fingerprint !== keyed.fingerprint)',
    replace: 'if (false)',
    rule: 'answers-stay',
    seed: 1,
    steps: 8000,
  },
  {
    name: 'records expire a minute early',
    file: 'features/idempotency/executor.js',
    find: "record.state !== 'executing' && record.expiresAt <= world.now()",
    replace: "record.state !== 'executing' && record.expiresAt - 60_000 <= world.now()",
    rule: 'effects-once',
    seed: 2,
    steps: 8000,
  },
  {
    name: 'a lost response counts as a failure',
    file: 'features/idempotency/completion.js',
    find: "return isGatewayRefusal(thrown) && !isResumed ? 'released' : 'unknown';",
    replace: "return 'released';",
    rule: 'effects-once',
    seed: 1,
    steps: 8000,
  },
  {
    name: 'a response goes to another request',
    file: 'protocol/json-rpc-peer.js',
    find: 'return about === undefined || about === given || pending?.isElsewhere === true ? pending : undefined;',
    replace: 'return [...this.#pending.values()][0];',
    rule: 'success-has-effect',
    seed: 1,
    steps: 8000,
  },
  {
    name: 'an undo rounds the numbers that it names',
    file: 'features/undo/undo.js',
    find: 'arguments: given,',
    replace: 'arguments: JSON.parse(JSON.stringify(given)),',
    rule: 'exact-numbers',
    seed: 1,
    steps: 3000,
  },
  {
    name: 'a verifying read looks for a rounded number',
    file: 'features/idempotency/completion.js',
    find: 'arguments: evaluate(expression, { args }),',
    replace: 'arguments: JSON.parse(JSON.stringify(evaluate(expression, { args }))),',
    rule: 'exact-numbers',
    seed: 14,
    steps: 8000,
  },
  {
    name: 'a rule compares rounded numbers',
    file: 'features/permissions/gate.js',
    find: 'found.push(written(plainDigits(value)), ...(isDenial ? [String(value)] : []));',
    replace: 'found.push(String(Number(value)));',
    rule: 'exact-numbers',
    seed: 1,
    steps: 3000,
  },
  {
    name: 'a question names a rounded number',
    file: 'features/confirm/request.js',
    find: "given[key] !== undefined ? displayText(given[key]) : '?'",
    replace: "given[key] !== undefined ? displayText(JSON.parse(JSON.stringify(given[key]))) : '?'",
    rule: 'exact-numbers',
    seed: 1,
    steps: 3000,
  },
  {
    name: 'an event has rounded numbers',
    file: 'features/events/sources/writes.js',
    find: 'const data = { tool: name, arguments: kept,',
    replace: 'const data = { tool: name, arguments: JSON.parse(JSON.stringify(kept)),',
    rule: 'exact-numbers',
    seed: 9,
    steps: 8000,
  },
  {
    name: 'JSON is read with rounded numbers',
    file: 'core/json/read.js',
    find: 'return isWrittenAs(value, text) ? value : new Reader(text).read();',
    replace: 'return value;',
    rule: 'exact-numbers',
    seed: 1,
    steps: 3000,
  },
  {
    name: 'a call is identified by its rounded numbers',
    file: 'records/fingerprint.js',
    find: 'const digits = written === undefined ? [] : longNumbers(written.text);',
    replace: 'return {};',
    rule: 'answers-stay',
    seed: 1,
    steps: 8000,
  },
]
