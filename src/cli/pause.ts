/** `gatehouse pause` and `gatehouse resume`: stop all writes of the gateways that share a store, and end that. */
import { oneLine } from '../core/text/escape.ts'
import { pause as wait } from '../core/time/waiting.ts'
import { Pause, type PauseState, pauseView, PROPAGATION_MS } from '../records/pause.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type ConfigOptions, readStored, userName, withAudit, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { type Output, timeText } from './output.ts'

type Commands = typeof commands

/** The longest pause that has an end, in milliseconds. */
const MAX_PAUSE_MS = 365 * 86_400_000

/** `gatehouse pause`. */
export async function pause(given: Given<Commands['pause']>, io: Io): Promise<Output> {
  const { reason, for: lasting, status: isStatus } = given
  if (isStatus && (reason !== undefined || lasting !== undefined))
    throw new UsageError('--status changes nothing: leave out --reason and --for')
  if (isStatus) return status(given, io)
  if (lasting !== undefined && (lasting < 1 || lasting > MAX_PAUSE_MS))
    throw new UsageError('--for must be a duration of at most 365d; without it, the pause has no end')
  return changing(given, io, async (pauses) => {
    const until = lasting === undefined ? undefined : Date.now() + lasting
    const state = await pauses.pause({ by: userName(), reason, until })
    await untilKnown()
    const end = state.until === undefined ? 'They are paused until gatehouse resume.' : endText(state.until)
    const text = `${stateText(state)}\nAll gateways that can read the store refuse them now. ${end}`
    return { json: pauseView(state), text }
  })
}

/** `gatehouse resume`. */
export function resume(given: Given<Commands['resume']>, io: Io): Promise<Output> {
  return changing(given, io, async (pauses) => {
    const ended = await pauses.resume({ by: userName() })
    if (ended) await untilKnown()
    const text = ended
      ? 'Writes are resumed: all gateways that can read the store accept them again.'
      : NOT_PAUSED
    return { json: { ...pauseView(undefined), was_paused: ended !== undefined }, text }
  })
}

const NOT_PAUSED = 'Writes are not paused.'

function status(given: ConfigOptions, io: Io): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const state = await new Pause(store).state()
    return { json: pauseView(state), text: state ? `${stateText(state)}${untilText(state)}` : NOT_PAUSED }
  })
}

/** Makes a change, which is a step of the audit log. */
function changing<Result>(
  given: ConfigOptions,
  io: Io,
  change: (pauses: Pause) => Promise<Result>,
): Promise<Result> {
  const settings = readStored(given, io)
  return withStore(settings, io, (store) =>
    withAudit(settings, io, (audit) => change(new Pause(store, (step) => audit?.ordered(step), Date.now))),
  )
}

/** Waits until every gateway that the store answers has read a change. */
function untilKnown(): Promise<void> {
  return wait(PROPAGATION_MS)
}

function stateText({ by, since, reason }: PauseState): string {
  return oneLine(
    `Writes are paused since ${timeText(since)}, by ${by}${reason === undefined ? '.' : `: ${reason}`}`,
  )
}

function untilText({ until }: PauseState): string {
  return until === undefined ? '' : `\n${endText(until)}`
}

function endText(until: number): string {
  return `They resume at ${timeText(until)}, or with gatehouse resume.`
}
