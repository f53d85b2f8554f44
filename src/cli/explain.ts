/**
 * `gatehouse explain`: shows how the gateway would handle calls of a tool, and why. It does not call the tool.
 */
import { riskWords } from '../core/descriptor.ts'
import { proofText } from '../core/pack.ts'
import { isStoreShared } from '../core/settings.ts'
import { joinCommand } from '../core/text/command-line.ts'
import { oneLine } from '../core/text/escape.ts'
import {
  confirmationText,
  eventText,
  longCallsText,
  pagesText,
  reachText,
  undoExpressions,
  undoText,
} from '../gateway/explained.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import type { Io } from './io.ts'
import { type Output, tableLines } from './output.ts'
import { readableLog, readOnlySettings, readServer, withGateway } from './source.ts'

/** `gatehouse explain SERVER [TOOL]`: prints how a call is handled, and where each value comes from. */
export async function explain(given: Given<typeof commands.explain>, io: Io): Promise<Output> {
  const { source, server: settings } = readServer(given, io)
  const { name: upstream, isolation, trust } = settings
  const { tool } = given
  const method = tool === undefined ? 'tools/list' : 'tools/call'
  const only = readOnlySettings(source.settings, [settings])
  const log = readableLog(io, given.logLevel)
  const { status, inspected, chain, name, unaccepted } = await withGateway(
    only,
    { io, log },
    async (gateway) => {
      await gateway.start()
      const found = await gateway.explore(upstream)
      const every = await inspectAll(gateway, upstream, tool).catch(() => [])
      const all = isStoreShared(source.settings) ? every : every.map(askedAlways)
      const listed = tool === undefined ? undefined : (all[0]?.entry.name ?? tool)
      const passed = gateway.chain({ upstream, method, ...(listed !== undefined && { name: listed }) })
      const pinned = gateway.unaccepted(upstream)
      return { status: found, inspected: all, chain: passed, name: listed, unaccepted: pinned }
    },
  )
  const { revision, olderRevision, problem, stderr } = status ?? {}
  const isKnown = tool === undefined || inspected.length > 0
  const lines = [
    `${upstream}${name === undefined ? '' : ` ${name}`}`,
    `  reached by   ${reachText(settings)}`,
    `  revision     ${describeRevision(revision, settings.revision)}`,
    ...(olderRevision === undefined
      ? []
      : [`  older        ${olderRevision} for older clients, on separate connections (revision: follow)`]),
    ...(problem === undefined ? [] : [`  problem      ${problem}`]),
    ...(stderr ?? []).map((line) => `  stderr       ${line}`),
    `  isolation    ${isolation}`,
    ...(settings.isPlacedOnce ? [PLACED] : []),
    `  trusted      ${trust ? 'yes' : 'no'} (trust: whether its tool annotations are believed)`,
    ...(tool === undefined ? toolTable(inspected) : toolLines(inspected[0])),
    ...pinLines(unaccepted, upstream, name),
    `  a ${method} request passes through`,
    '    observe      one log line',
    ...chain.map(({ feature, settings: own }) => `    ${feature.padEnd(12)} ${JSON.stringify(own)}`),
    `    ${upstream.padEnd(12)} the server`,
  ]
  return {
    json: {
      server: upstream,
      reached_by: reachText(settings),
      revision,
      older_revision: olderRevision,
      problem,
      stderr,
      isolation,
      ...(settings.isPlacedOnce && { placement: 'one' }),
      trust,
      tools: inspected.map(toolObject),
      ...(unaccepted && {
        pin: {
          mode: unaccepted.isHolding ? 'hold' : 'warn',
          unaccepted: Object.fromEntries(name === undefined ? unaccepted.tools : pinned(unaccepted, name)),
        },
      }),
      passes: { method, features: chain.map(({ feature, settings: own }) => ({ feature, settings: own })) },
    },
    text: lines.map(oneLine).join('\n'),
    code: problem === undefined && isKnown ? 0 : 1,
  }
}

const PLACED = '  placement    one: it runs in one of the gateways that share the store'

type Unaccepted = NonNullable<ReturnType<Gateway['unaccepted']>>

/** The entry of a tool among those that are not as they were accepted. */
function pinned({ tools }: Unaccepted, name: string): readonly (readonly [string, string])[] {
  return [...tools].filter(([each]) => each === name)
}

/** What is not as it was accepted: of one tool, or of the whole server. */
function pinLines(unaccepted: Unaccepted | undefined, upstream: string, name: string | undefined): string[] {
  if (!unaccepted) return []
  const found = name === undefined ? [...unaccepted.tools] : pinned(unaccepted, name)
  const what = unaccepted.isHolding ? 'held' : 'not accepted'
  return found.map(
    ([tool, change]) =>
      `  ${what.padEnd(12)} ${name === undefined ? `${tool}: ` : ''}${change === 'new' ? 'it is not in gatehouse.lock' : 'its definition is not as in gatehouse.lock'} (gatehouse accept ${joinCommand([upstream, tool])})`,
  )
}

/** The same for a gateway whose store is in memory, so that nothing can be undone after a crash. */
function askedAlways({ confirmation: { unless: _unless, ...confirmation }, ...rest }: Inspected): Inspected {
  return { ...rest, confirmation }
}

async function inspectAll(
  gateway: Gateway,
  upstream: string,
  tool: string | undefined,
): Promise<readonly Inspected[]> {
  const names = tool === undefined ? (await gateway.entries(upstream)).map(({ name }) => name) : [tool]
  const found: Inspected[] = []
  for (const name of names) {
    const inspected = await gateway.inspect(upstream, name)
    if (inspected) found.push(inspected)
  }
  return found
}

function describeRevision(revision: string | undefined, pinned: string): string {
  if (revision === undefined) return 'unknown: the server was not reached'
  if (pinned === 'auto' || pinned === 'follow') return `${revision} (negotiated)`
  return `${revision} (${revision === pinned ? 'as configured' : `negotiated; ${pinned} is configured`})`
}

// Tools in the output of `gatehouse explain`: as lines, a table, or JSON.

/** A tool, and how the gateway handles it. */
type Inspected = NonNullable<Awaited<ReturnType<Gateway['inspect']>>>

type Confirmation = Inspected['confirmation']
type Undoing = Inspected['undoing']

/** The text about one tool, with reasons. */
export function toolLines(inspected: Inspected | undefined): string[] {
  if (!inspected) return ['  the server lists no tool with this name']
  const { entry, confirmation, undoing, pages, remembered = [] } = inspected
  const { op, risk, idempotent, evidence } = entry.classification
  const scopes = inspected.scopes.map((group) => group.join(' or ')).join(', ')
  const { stop } = confirmation
  const message = confirmation.message === undefined ? [] : [`message: ${confirmation.message}`]
  return [
    `  op           ${op}`,
    `  risk         ${riskWords[risk]}`,
    `  idempotent   ${idempotent ? 'yes' : 'no'}`,
    ...reasons(evidence),
    `  confirmation ${confirmationText(confirmation)}`,
    ...reasons([...message, ...confirmation.why]),
    ...(stop ? [`  to stop      write ${oneLine(stop.write)} under ${oneLine(stop.under)}`] : []),
    `  undo         ${undoText(undoing)}`,
    ...undoExpressions(undoing.undo).map((line) => `               ${oneLine(line)}`),
    ...reasons([...undoing.why, ...undoing.caveats.map((caveat) => `but: ${caveat}`)]),
    ...proofLines(inspected),
    ...(pages ? [`  pages        ${pagesText(pages)}`] : []),
    ...(remembered.length === 0
      ? []
      : [`  remembered   ${remembered.join(', ')} (optional with a session_state: features.state.remember)`]),
    `  scopes       ${scopes === '' ? 'none' : scopes} (required if callers authenticate)`,
    `  long calls   ${longCallsText(inspected.longCalls)}`,
    ...(inspected.event ? [`  event        ${eventText(inspected.event)}`] : []),
  ]
}

/** What was proved, unless the reasons for the undo say it. */
function proofLines({ entry: { proved }, undoing }: Inspected): string[] {
  const text = proved && proofText(proved.proof)
  return text === undefined || undoing.why.includes(text) ? [] : [`  proof        ${oneLine(text)}`]
}

/** One tool as JSON. */
function toolObject({
  entry,
  scopes,
  confirmation,
  undoing,
  longCalls,
  pages,
  event,
  remembered = [],
}: Inspected): Readonly<Record<string, unknown>> {
  const { op, risk, idempotent, evidence } = entry.classification
  const { when, unless, isOutOfBand, fallback, message, stop, why } = confirmation
  return {
    name: entry.name,
    op,
    risk,
    idempotent,
    evidence,
    confirmation: { when, unless, is_out_of_band: isOutOfBand, fallback, message, stop, why },
    undo: undoing,
    proof: entry.proved?.proof,
    pages,
    remembered: remembered.length > 0 ? remembered : undefined,
    event,
    scopes,
    long_calls: longCalls && {
      task_after_ms: longCalls.taskAfter,
      answer_within_ms: longCalls.answerWithin,
      keep_ms: longCalls.keep,
    },
  }
}

/** A table of all tools of a server. */
export function toolTable(tools: readonly Inspected[]): string[] {
  if (tools.length === 0) return []
  const rows = tools.map(({ entry, confirmation, undoing }) => {
    const { risk, idempotent } = entry.classification
    return [
      entry.name,
      riskWords[risk],
      idempotent ? 'yes' : 'no',
      confirmationSummary(confirmation),
      undoneShortly(undoing),
    ]
  })
  return tableLines([['tool', 'risk', 'idempotent', 'confirmation', 'undo'], ...rows]).map(
    (line) => `  ${line}`,
  )
}

function reasons(lines: readonly string[]): string[] {
  return lines.map((each, index) => `${index === 0 ? '  because     ' : '              '} ${oneLine(each)}`)
}

function confirmationSummary({ when, unless, isOutOfBand }: Confirmation): string {
  if (when === 'never') return 'no'
  if (unless) return 'unless undoable'
  return `${isOutOfBand ? 'out of band' : 'inline'}${when === 'always' ? '' : when === 'by_arguments' ? ', by arguments' : ', in transactions'}`
}

function undoneShortly({ from, how, undo }: Undoing): string {
  if (how === 'unneeded') return ''
  if (from === 'nowhere') return 'none'
  const text = undoExpressions(undo).at(-1) ?? ''
  const tool = /^(?:\w+: )?([^(]+)\(/.exec(text)?.[1] ?? ''
  if (how === 'unsure') return `none; uncertain: by ${tool}`
  const about = how === 'exact' ? '' : how === 'approximate' ? ', approximately' : ', which is not possible'
  return from === 'proposal' ? `proposed: by ${tool}${about}` : `by ${tool}${about}`
}
