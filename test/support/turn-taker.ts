// Stands before a server on stdio that must not be asked two things at once, by whatever process: its calls take turns.
// Usage: turn-taker.ts --pids FILE [--port N] -- COMMAND…; who listens on the port has the turn.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { isObject } from './server/json.ts'

const { values, positionals } = parseArgs({
  options: { pids: { type: 'string', default: '' }, port: { type: 'string' } },
  allowPositionals: true,
})
const [command = '', ...args] = positionals
const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
appendFileSync(values.pids, `${child.pid}\n`)
child.once('exit', () => process.exit(1))
child.stdin.on('error', () => undefined)
process.stdout.on('error', () => undefined)

/** Who waits for the answer to a call, by its id. */
const waiting = new Map<string, () => void>()
createInterface(child.stdout).on('line', (line) => {
  process.stdout.write(`${line}\n`)
  waiting.get(idOf(line))?.()
})

let isOver = false
let last = Promise.resolve()
const input = createInterface(process.stdin)
input.on('line', (line) => void (last = last.then(() => pass(line))))
// Whoever started it may be gone: what was begun is still done, and nothing else.
input.on('close', () => {
  isOver = true
  void last.then(() => child.kill())
})

async function pass(line: string): Promise<void> {
  if (isOver) return
  if (values.port === undefined || !line.includes('"tools/call"')) return void child.stdin.write(`${line}\n`)
  const server = await turn(Number(values.port))
  const answered = new Promise<void>((resolve) => waiting.set(idOf(line), resolve))
  child.stdin.write(`${line}\n`)
  await answered
  waiting.delete(idOf(line))
  server.close()
  await once(server, 'close')
}

/** The turn is given back by the system where its holder dies. */
async function turn(port: number): Promise<Server> {
  for (;;) {
    const server = createServer().listen(port, '127.0.0.1')
    const isOurs = await once(server, 'listening').then(
      () => true,
      () => false,
    )
    if (isOurs) return server
    await pause(2)
  }
}

function idOf(line: string): string {
  const message: unknown = JSON.parse(line)
  return isObject(message) ? JSON.stringify(message['id']) : ''
}
