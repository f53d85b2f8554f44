// A small MCP server whose tools have effects that outlive it: lines of a file, which nothing removes. Their ids are numbers
// that a double cannot hold, and differ in the last digits; keys are numbers or strings.
// What is to be added may be faulty, as the first word of its value says: `fail`, `ignored` and `lost` are not
// answered well, the last one though it is done; `fixed` cannot be removed, and that `sticky` is removed is not answered.
// `long` takes three times as long as the slowest of the others. A ping is answered once all that was begun is done.
// With --tasks its tools run as tasks of 2025-11-25 for clients that ask for one.
// Usage: effects-server.ts --log FILE [--port N [--host H]] [--slow MS] [--tasks]; over HTTP it prints the port it listens on.
import { createHash, randomInt, randomUUID } from 'node:crypto'
import { appendFileSync, closeSync, existsSync, openSync, readSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { isObject, numberOf, parseExact } from './server/json.ts'

const { values } = parseArgs({
  options: {
    log: { type: 'string' },
    port: { type: 'string' },
    host: { type: 'string', default: '127.0.0.1' },
    slow: { type: 'string', default: '5' },
    tasks: { type: 'boolean', default: false },
  },
})
const { log: file = '', port, host, tasks: hasTasks } = values
const slowest = Number(values.slow)
if (file === '') throw new Error('--log FILE is missing')

const text = { type: 'string' }
const id = { type: 'integer' }
const key = { type: ['integer', 'string'] }
const effect = schema({ id, key, value: text })
const tools = [
  tool('add_effect', { key, value: text }, effect),
  // The same again, for a configuration that says something else of it.
  tool('add_blind_effect', { key, value: text }, effect),
  tool('remove_effect', { id }, schema({ removed: { type: 'boolean' } })),
  {
    ...tool('list_effects', { key }, schema({ effects: { type: 'array', items: effect } })),
    annotations: { readOnlyHint: true },
  },
  // The same, as slowly as an effect.
  {
    ...tool('find_effects', { key, value: text }, schema({ key })),
    annotations: { readOnlyHint: true },
  },
]

// Each start leaves its mark, so that tests find the processes of gateways that were killed.
appendFileSync(`${file}.pids`, `${process.pid}\n`)
if (port === undefined) serveStdio()
else serveHttp(Number(port))

/** In place of an answer. */
const never = new Promise<object>(() => undefined)

/** Its id and key are as they were read: long numbers are raw JSON. */
interface Effect {
  readonly id: unknown
  readonly key: unknown
  readonly value: string
}

async function call(name: unknown, given: Readonly<Record<string, unknown>>): Promise<object> {
  const { key = '', value = '', id = '' } = given
  if (name === 'list_effects')
    return { effects: [...effects().values()].filter((each) => isSame(each.key, key)) }
  if (name === 'find_effects') {
    for (const delay of delays(JSON.stringify(key), value)) await pause(delay)
    return { key }
  }
  const fault = String(value).split(' ', 1)[0]
  if (fault === 'fail') throw new Error('it fails')
  if (fault === 'ignored') return never
  const acting = act(name, { id, key, value: String(value) })
  begun.add(acting)
  const { done, isSticky } = await acting.finally(() => begun.delete(acting))
  return fault === 'lost' || isSticky ? never : done
}

/** What is not done yet. */
const begun = new Set<Promise<object>>()

async function act(name: unknown, { id, key, value }: Effect): Promise<{ done: object; isSticky: boolean }> {
  const [before, after] = delays(JSON.stringify([key, id]), value)
  await pause(before)
  const there = effects().get(JSON.stringify(id))
  if (there?.value.startsWith('fixed')) throw new Error('it stays')
  const done = name === 'remove_effect' ? remove(id) : add(key, value)
  await pause(after)
  return { done, isSticky: there?.value.startsWith('sticky') === true }
}

function add(key: unknown, value: string): Effect {
  const added = { id: nextId(), key, value }
  write(added)
  return added
}

/** Of 18 digits; several servers may write to one file. */
function nextId(): object {
  const count = String(++made).padStart(4, '0')
  return numberOf(`7${String(process.pid).padStart(7, '0')}${begunWith}${count}`)
}

const begunWith = randomInt(100_000, 1_000_000)
let made = 0

/** Whether two ids or keys are the same, to the last digit. */
function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other)
}

function remove(id: unknown): object {
  const isThere = effects().has(JSON.stringify(id))
  if (isThere) write({ removed: id })
  return { removed: isThere }
}

/** One write of a whole line, at the end whoever else writes (O_APPEND). */
function write(line: object): void {
  appendFileSync(file, `${JSON.stringify(line)}\n`)
}

/** The effects that are there by what was read of the file, up to the end of a line. */
const found = new Map<string, Effect>()
let readUpTo = 0

function effects(): ReadonlyMap<string, Effect> {
  const text = newText()
  // The last line has no end while it is being written: a write over two pages becomes visible page by page.
  const end = text.lastIndexOf('\n') + 1
  readUpTo += Buffer.byteLength(text.slice(0, end))
  for (const line of text.slice(0, end).split('\n').slice(0, -1)) {
    const entry = parseExact(line, numberOf) as Effect & { readonly removed?: unknown }
    if (entry.removed === undefined) found.set(JSON.stringify(entry.id), entry)
    else found.delete(JSON.stringify(entry.removed))
  }
  return found
}

/** What was written since. */
function newText(): string {
  if (!existsSync(file)) return ''
  const bytes = Buffer.alloc(statSync(file).size - readUpTo)
  const opened = openSync(file, 'r')
  const read = readSync(opened, bytes, 0, bytes.length, readUpTo)
  closeSync(opened)
  return bytes.subarray(0, read).toString()
}

/** How long it takes before and after the effect, in milliseconds: the same each time for the same thing. */
function delays(seed: string, value: unknown): readonly [number, number] {
  const [first = 0, second = 0] = createHash('sha256').update(seed).digest()
  const least = String(value).startsWith('long ') ? 2 * slowest : 0
  return [least + (first / 255) * slowest, least + (second / 255) * slowest]
}

function tool(name: string, inputs: object, outputSchema: object): object {
  const execution = hasTasks ? { execution: { taskSupport: 'optional' } } : {}
  return { name, description: `Does ${name}.`, inputSchema: schema(inputs), outputSchema, ...execution }
}

function schema(properties: object): object {
  return { type: 'object', properties, required: Object.keys(properties) }
}

/** The answer to a message; nothing to a notification. */
async function answer(line: string): Promise<string | undefined> {
  const message = parseExact(line, numberOf)
  if (!isObject(message) || message['id'] === undefined) return undefined
  const reply = await replyTo(message).catch((error: unknown) => {
    return { error: { code: -32603, message: String(error) } }
  })
  return JSON.stringify({ jsonrpc: '2.0', id: message['id'], ...reply })
}

async function replyTo({ method, params }: Readonly<Record<string, unknown>>): Promise<object> {
  const given = isObject(params) ? params : {}
  if (method === 'initialize') {
    const serverInfo = { name: 'effects', version: '1.0.0' }
    const requests = { tools: { call: {} } }
    const capabilities = { tools: {}, ...(hasTasks && { tasks: { list: {}, cancel: {}, requests } }) }
    return { result: { protocolVersion: '2025-11-25', capabilities, serverInfo } }
  }
  if (method === 'tools/list') return { result: { tools } }
  if (method === 'ping') {
    await Promise.allSettled(begun)
    return { result: {} }
  }
  if (hasTasks && String(method).startsWith('tasks/')) return { result: await taskOf(String(method), given) }
  if (method !== 'tools/call') return { error: { code: -32601, message: 'Method not found' } }
  if (hasTasks && isObject(given['task'])) return { result: { task: begin(given) } }
  return { result: await callTool(given) }
}

async function callTool(given: Readonly<Record<string, unknown>>): Promise<object> {
  const structuredContent = await call(given['name'], isObject(given['arguments']) ? given['arguments'] : {})
  return { content: [{ type: 'text', text: JSON.stringify(structuredContent) }], structuredContent }
}

/** The tasks, by id: what comes of them, and where they stand. */
const running = new Map<
  string,
  { readonly result: Promise<object>; status: string; readonly began: string }
>()

function begin(given: Readonly<Record<string, unknown>>): object {
  const taskId = randomUUID()
  const task = { result: callTool(given), status: 'working', began: new Date().toISOString() }
  task.result.then(
    () => (task.status = 'completed'),
    () => (task.status = 'failed'),
  )
  running.set(taskId, task)
  return described(taskId, task)
}

async function taskOf(method: string, { taskId }: Readonly<Record<string, unknown>>): Promise<object> {
  const id = String(taskId)
  const task = running.get(id)
  if (!task) throw new Error('there is no such task')
  // What was begun cannot be stopped.
  return method === 'tasks/result' ? task.result : described(id, task)
}

function described(taskId: string, { status, began }: { readonly status: string; readonly began: string }) {
  return { taskId, status, createdAt: began, lastUpdatedAt: began, ttl: 600_000, pollInterval: 100 }
}

function serveStdio(): void {
  createInterface(process.stdin).on('line', (line) => {
    void answer(line).then((reply) => reply !== undefined && process.stdout.write(`${reply}\n`))
  })
  // Whoever started it may be gone; what was begun is still done.
  process.stdout.on('error', () => undefined)
}

function serveHttp(wanted: number): void {
  const http = createServer((request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end()
    let body = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk))
    request.on('end', () => {
      void answer(body).then((reply) => {
        if (reply === undefined) return response.writeHead(202).end()
        return response.writeHead(200, { 'content-type': 'application/json' }).end(reply)
      })
    })
  })
  http.listen(wanted, host, () => {
    const address = http.address()
    process.stdout.write(`${isObject(address) ? String(address['port']) : ''}\n`)
  })
}
