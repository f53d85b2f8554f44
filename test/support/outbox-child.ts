import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { enterWorld, world } from '../../src/core/world.ts'
import { createMembership } from '../../src/durable/members.ts'
import { systemClock } from '../../src/durable/dispatcher.ts'
import { openTestStore, outcomeOf, type TestStore, testOutbox } from './outbox-world.ts'

// A process that delivers queues, until it is killed: it writes down each attempt, and moves its clock as it is told.
const [, , place = '', file = ''] = process.argv
let offset = 0
enterWorld({ ...world, now: () => Date.now() + offset })
process.stdin.on('data', (milliseconds) => void (offset += Number(milliseconds)))

const store = await openTestStore(JSON.parse(place) as TestStore)
const { outbox } = testOutbox({
  store,
  membership: createMembership(() => store),
  clock: systemClock,
  schedule: { firstMs: 300, factor: 2, maxMs: 2000, giveUpMs: 86_400_000 },
  atOnce: 4,
  send: async (message, attempts) => {
    const outcome = outcomeOf(message, attempts)
    appendFileSync(file, `${JSON.stringify({ ...message, by: process.pid, outcome: outcome.kind })}\n`)
    await pause(Math.random() * 4)
    return outcome
  },
})
await outbox.start()
process.stdout.write('ready\n')
