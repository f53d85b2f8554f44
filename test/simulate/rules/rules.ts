/** All rules. */
import { noFaults } from '../faults.ts'
import { answersStay } from './answers.ts'
import { approvalOpensOne } from './approvals.ts'
import { effectsOnce } from './effects.ts'
import { exactNumbers } from './exact-numbers.ts'
import { knownWithoutFaults, noDefects, successHasEffect } from './results.ts'
import type { CreateRule } from './rule.ts'
import { acceptedOnce, idsUnique, oneOwner, sessionsReturn, sessionsStay, tasksEnd } from './sessions.ts'
import { transactionsEnd } from './transactions.ts'

/** The name of the rule that each client gets answers, and comes to its end. */
export const CLIENTS_END = 'clients-end'

/** Each rule holds in every simulation. */
export const rules: readonly CreateRule[] = [
  exactNumbers,
  effectsOnce,
  answersStay,
  successHasEffect,
  approvalOpensOne,
  transactionsEnd,
  knownWithoutFaults,
  noDefects,
  sessionsStay,
  sessionsReturn,
  oneOwner,
  idsUnique,
  acceptedOnce,
  tasksEnd,
]

/** The names of all rules. */
export const ruleNames: readonly string[] = [
  ...rules.map((create) => create(noFaults, { missedAt: () => undefined }).name),
  CLIENTS_END,
]
