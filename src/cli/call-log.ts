/** `gatehouse log`: the calls in the log of calls of a store, and the story of one of them. */
import { setTimeout as wait } from 'node:timers/promises'
import type { LoggedCall } from '../core/logged-call.ts'
import { isObject } from '../core/json/json.ts'
import { oneLine } from '../core/text/escape.ts'
import { CallLog, type CallContent } from '../records/call-log.ts'
import { type CallQuery, readQuery } from '../records/call-query.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { detailLines, type Output, printOutput, type Stream, timeText } from './output.ts'

type LogOptions = Given<typeof commands.log>

const DEFAULT_LIMIT = 50
/** How often the log is read again, in milliseconds, and how many calls are read at once. */
const POLL_INTERVAL_MS = 1000
const PAGE_CALLS = 500

/** `gatehouse log`: calls, oldest first, or one call. */
export async function log(given: LogOptions, io: Io): Promise<Output> {
  const { query: words, show, limit = DEFAULT_LIMIT, follow } = given
  const query = readQuery(words.join(' '), Date.now())
  if ('problem' in query) throw new UsageError(query.problem.replace(/\.$/, ''))
  const settings = readStored(given, io)
  return withStore(settings, io, async (store) => {
    const calls = new CallLog(store)
    if (show !== undefined) return story(calls, show)
    const entries = follow ? followed(calls, query, limit, io) : found(calls, query, limit)
    const stream: Stream = { entries, ...(!follow && { none: 'No calls.' }) }
    return printOutput(stream, given.json, io)
  })
}

interface Line {
  readonly json: unknown
  readonly text: string
}

function lineOf(call: LoggedCall): Line {
  return { json: call, text: callLine(call) }
}

async function* found(calls: CallLog, query: CallQuery, limit: number): AsyncGenerator<Line> {
  const page = await calls.search(query, limit)
  yield* page.calls.map(({ call }) => lineOf(call)).toReversed()
}

async function* followed(calls: CallLog, query: CallQuery, limit: number, io: Io): AsyncGenerator<Line> {
  const stopping = new AbortController()
  const stop = (): void => stopping.abort()
  // Such as `gatehouse log --follow | head`.
  io.stdout.once('error', stop)
  void io.untilStopped().then(stop)
  let cursor = await calls.end()
  yield* found(calls, query, limit)
  while (!stopping.signal.aborted) {
    const page = await calls.after(cursor, PAGE_CALLS)
    cursor = page.cursor
    yield* page.calls.filter((call) => query.matches(JSON.stringify(call))).map(lineOf)
    if (page.calls.length === 0)
      await wait(POLL_INTERVAL_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
  }
}

/** A call on one line: `2026-11-21T10:00:00Z  ok  12 ms  anna  files write_file  id`. */
function callLine(call: LoggedCall): string {
  const { at, ms, end, code, who, client, id } = call
  const why = code === undefined ? end : `${end} ${code}`
  const caller = client === undefined ? who : `${who} (${client})`
  return [timeText(at), why.padEnd(6), `${ms} ms`.padStart(9), caller, subjectOf(call), id]
    .map(oneLine)
    .join('  ')
}

function subjectOf({ server, name, method }: LoggedCall): string {
  const what = name === undefined ? method : method === 'tools/call' ? name : `${method} ${name}`
  return server === undefined ? what : `${server} ${what}`
}

async function story(calls: CallLog, id: string): Promise<Output> {
  const call = await calls.find(id)
  if (!call)
    throw new Error(`there is no call ${oneLine(id)} in the log: gatehouse log lists them with their ids`)
  const content = await calls.contentOf(id)
  return { json: { ...call, content }, text: storyText(call, content) }
}

function storyText(call: LoggedCall, content: CallContent): string {
  const { at, ms, end, code, reason, who, client, op, layer, spans = [], action, trace, facts } = call
  const noted = Object.entries(isObject(facts) ? facts : {}).map(
    ([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)] as const,
  )
  const lines = detailLines(subjectOf(call), [
    ['ended', `${timeText(at)}: ${[end, code].filter((each) => each !== undefined).join(' ')}`],
    ['reason', reason],
    ['took', `${ms} ms`],
    ...spans.map(([kind, start, length]) => [kind, `${length} ms, after ${start} ms`] as const),
    ['caller', who],
    ['client', client],
    ['kind', op],
    ['ended by', layer],
    ['size', `${call.in} bytes in${call.out === undefined ? '' : `, ${call.out} bytes out`}`],
    ['undo', action === undefined ? undefined : `action ${action}`],
    ['trace', trace],
    ...noted,
    ['arguments', content.arguments],
    ['result', content.result],
  ])
  return lines.join('\n')
}
