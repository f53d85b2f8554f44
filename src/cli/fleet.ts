/** `gatehouse fleet`: lists the gateways that share a store, and has one of them end. */
import { pause } from '../core/time/waiting.ts'
import { createMembership, type Fleet, type Member } from '../durable/members.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { type ConfigOptions, readStored, userName, withAudit, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { type Output, quoted, tableLines, timeText } from './output.ts'
import { idBeginning } from './short-ids.ts'

type Commands = typeof commands

/** How long a gateway has to learn of the order, and to finish what it has, in milliseconds. */
const DRAIN_TIMEOUT_MS = 45_000
const POLL_INTERVAL_MS = 200

/** `gatehouse fleet list`. */
export function list(given: Given<Commands['fleet list']>, io: Io): Promise<Output> {
  return withFleet(given, io, async (fleet) => {
    const members = await fleet.list()
    const text = members.length === 0 ? NONE : tableLines([titles, ...members.map(rowOf)]).join('\n')
    return { json: { gateways: members.map(memberView) }, text }
  })
}

const NONE = 'No gateway with this store serves clients over HTTP.'

/** `gatehouse fleet drain ID`. */
export function drain(given: Given<Commands['fleet drain']>, io: Io): Promise<Output> {
  return withFleet(given, io, async (fleet) => {
    const members = await fleet.list()
    const ids = members.map(({ id }) => id)
    const id = idBeginning(ids, given.id, 'gateways')
    const member = members.find((each) => each.id === id)
    if (!member) throw new Error(`no such gateway: ${quoted(given.id)}. See gatehouse fleet list`)
    await withAudit(readStored(given, io), io, async (audit) => {
      await fleet.drain(member.id)
      audit?.ordered({ order: 'drain', by: userName(), gateway: member.id })
    })
    const end = performance.now() + DRAIN_TIMEOUT_MS
    while (await fleet.find(member.id)) {
      if (performance.now() > end) throw new Error(`the gateway ${shortId(member)} has not ended yet`)
      await pause(POLL_INTERVAL_MS)
    }
    return { json: memberView(member), text: `The gateway ${shortId(member)} has ended.` }
  })
}

function withFleet(given: ConfigOptions, io: Io, act: (fleet: Fleet) => Promise<Output>): Promise<Output> {
  return withStore(readStored(given, io), io, async (store) => {
    const fleet = createMembership(() => store)
    try {
      return await act(fleet)
    } finally {
      await fleet.close()
    }
  })
}

const titles = ['ID', 'HOST', 'PID', 'VERSION', 'STATE', 'SINCE', 'ADDRESS']

function rowOf(member: Member): string[] {
  const { host, pid, version, state, since, address = 'not reachable' } = member
  return [shortId(member), host, String(pid), version, state, timeText(since), address]
}

/** The first part is random, and enough for commands. */
function shortId({ id }: Member): string {
  return id.split('.', 1)[0] ?? id
}

function memberView({ id, host, pid, version, state, since, address }: Member): object {
  return { id, host, pid, version, state, since: timeText(since), address }
}
