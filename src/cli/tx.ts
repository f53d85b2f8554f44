/**
 * `gatehouse tx`: lists transactions, rolls one back, acknowledges what is left. Works on the store; a running
 * gateway does the calls.
 */
import { escapeHidden } from '../core/text/escape.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../gateway/gateway.ts'
import { audited, openSharedStore } from '../gateway/offline.ts'
import { type Action, Actions } from '../records/actions.ts'
import { acknowledged, rollingBack } from '../records/transitions.ts'
import {
  type Found,
  isOver,
  type Transaction,
  type Transactions,
  urgentFirst,
} from '../records/transactions.ts'
import { didYouMean, parseWords, readSource, UsageError, userName } from './options.ts'
import { finishRollbacks, mustRollBack, transactionsIn } from './rollbacks.ts'
import { rollbackText, transactionList, transactionText, transactionView } from './format/transactions.ts'

/** What the command can be told. */
const known = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
  reason: { type: 'string' },
  principal: { type: 'string' },
} as const

/** `gatehouse tx list | show | rollback | ack`: shows transactions, undoes them, and acknowledges what is left. */
export async function tx(args: readonly string[]): Promise<number> {
  const told = read(args)
  const { settings } = readSource({ ...told, isForStore: true })
  const log = openLog('warn', process.stderr.isTTY)
  const store = await openSharedStore(settings, log)
  try {
    const repository = transactionsIn(store, settings)
    return await act(told, { repository, deeds: new Actions(store), settings, log })
  } finally {
    await store.close()
  }
}

interface Around {
  readonly repository: Transactions
  readonly deeds: Actions
  readonly settings: Settings
  readonly log: Log
}

async function act(told: Told, around: Around): Promise<number> {
  const { repository, deeds } = around
  const { isJson, principal } = told
  const all = (await repository.list(principal)).toSorted((one, other) =>
    urgentFirst(one.transaction, other.transaction),
  )
  if (told.action === 'list') {
    const transactions = all.map(({ transaction }) => transaction)
    if (isJson) {
      const views = transactions.map((transaction) => transactionView({ transaction, deeds: new Map() }))
      return print(JSON.stringify({ transactions: views }, null, 2))
    }
    return print(all.length === 0 ? 'There are no transactions.' : transactionList(transactions))
  }
  const found = named(all, told.id)
  if (told.action === 'rollback') return rollBack(found, told, around)
  const transaction = told.action === 'ack' ? await acknowledge(found, around) : found.transaction
  const whole = { transaction, deeds: await deedsOf(transaction, deeds) }
  return print(isJson ? JSON.stringify(transactionView(whole), null, 2) : transactionText(whole))
}

function acknowledge({ key }: Found, { repository, settings, log }: Around): Promise<Transaction> {
  return audited(settings, log, async (audit) => {
    const by = userName()
    const after = await repository.change(key, acknowledged(by, Date.now()))
    audit?.ordered({ order: 'ack', by, transaction: after.id, caller: after.principal.id })
    return after
  })
}

async function rollBack({ key, transaction }: Found, told: Told, around: Around): Promise<number> {
  mustRollBack(around.settings)
  if (transaction.status === 'committed' || isOver(transaction))
    throw new Error(
      `${escapeHidden(transaction.id)} is over: it is ${transaction.status.replaceAll('_', ' ')}`,
    )
  const { config, envFile } = told
  const by = userName()
  const reason = ['operator', by].join(' ') + (told.reason === undefined ? '' : `: ${told.reason}`)
  const begin = rollingBack(reason)
  const { id, principal } = transaction
  const [ended] = await audited(around.settings, around.log, async (audit) => {
    await around.repository.change(key, (each) => (each.status === 'rolling_back' ? each : begin(each)))
    audit?.ordered({ order: 'rollback', by, transaction: id, caller: principal.id })
    return finishRollbacks([async () => key], {
      ...around,
      whole: () => readSource({ config, envFile }).settings,
      audit,
    })
  })
  if (!ended || !isOver(ended)) throw new Error('it is not rolled back yet: see gatehouse tx show')
  const deeds = await deedsOf(ended, around.deeds)
  print(
    told.isJson
      ? JSON.stringify(transactionView({ transaction: ended, deeds }), null, 2)
      : rollbackText(ended),
  )
  return ended.status === 'rolled_back' ? 0 : 1
}

/** The transaction of an id. Callers choose ids, so several may have chosen the same. @throws Error */
function named(all: readonly Found[], id: string): Found {
  const found = all.filter(({ transaction }) => transaction.id === id)
  const [first] = found
  if (first && found.length === 1) return first
  if (!first)
    throw new Error(`there is no transaction ${escapeHidden(JSON.stringify(id))}. See gatehouse tx list`)
  const whose = found.map(({ transaction }) => transaction.principal.id).join(', ')
  throw new Error(
    `several callers have a transaction ${escapeHidden(`${id}; name one with --principal: ${whose}`)}`,
  )
}

function deedsOf({ steps }: Transaction, deeds: Actions): Promise<ReadonlyMap<string, Action>> {
  return deeds.findAll(steps.map(({ deed }) => deed))
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

interface Told {
  readonly action: 'list' | 'show' | 'rollback' | 'ack'
  readonly id: string
  readonly principal: string | undefined
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly isJson: boolean
  readonly reason: string | undefined
}

function read(args: readonly string[]): Told {
  const { values, positionals } = parseWords(args, known)
  const [word, id, ...more] = positionals
  const actions = ['list', 'show', 'rollback', 'ack'] as const
  const action = actions.find((each) => each === word)
  if (!action)
    throw new UsageError(`write gatehouse tx list, show, rollback or ack${didYouMean(word ?? '', actions)}`)
  if (action !== 'list' && id === undefined) throw new UsageError(`name what to ${action}: an id`)
  if (more.length > 0 || (action === 'list' && id !== undefined))
    throw new UsageError('name one transaction at a time')
  const { config, 'env-file': envFile, json = false, reason, principal } = values
  if (reason !== undefined && action !== 'rollback') throw new UsageError('--reason has no meaning here')
  return {
    action,
    id: id ?? '',
    principal,
    config,
    envFile,
    isJson: json,
    reason,
  }
}
