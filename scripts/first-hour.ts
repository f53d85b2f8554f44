/**
 * What a person does in the first hour, on a machine that has nothing of this project, with a stopwatch: `npm run first-hour`.
 * Installs the package of `npm run release`, puts the servers of a `.mcp.json` behind the gateway, approves a call on the page
 * while it waits, and undoes an overwritten file that somebody else has changed since. `--package FILE` installs that file.
 */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const MAX_DURATION_S = 300
/** How long a person reads the page. */
const READING_MS = 3000
const root = join(import.meta.dirname, '..')
const machine = mkdtempSync(join(tmpdir(), 'gatehouse-first-hour-'))
const project = join(machine, 'project')
const notes = join(project, 'notes')
const bin = join(machine, 'bin')
const env = { PATH: `${bin}:${join(process.execPath, '..')}:${process.env['PATH'] ?? ''}`, HOME: machine }
const began = performance.now()
const seconds = (): number => (performance.now() - began) / 1000

function step(text: string): void {
  console.log(`\n[${seconds().toFixed(1).padStart(6)} s] ${text}`)
}

function show(text: string): void {
  console.log(text.trimEnd().replaceAll(machine, '~').replaceAll(/^/gm, '    '))
}

/** Runs a command in the project, as it is typed, and shows it with what it prints. */
function type(
  program: string,
  ...words: string[]
): { readonly code: number | null; readonly output: string } {
  show(`$ ${[program, ...words].join(' ')}`)
  // The registry is in the settings of the real user.
  const { status, stdout, stderr, error } = spawnSync(program, words, {
    cwd: project,
    env: program === 'npm' ? process.env : env,
    encoding: 'utf8',
  })
  if (error) throw error
  show(stdout + stderr)
  return { code: status, output: stdout + stderr }
}

function packed(): string {
  const words = ['pack', '--silent', '--pack-destination', machine]
  const name = execFileSync('npm', words, { cwd: root, encoding: 'utf8' }).trim().split('\n').at(-1) ?? ''
  return join(machine, name)
}

/** Whether another program, such as a gateway, has the default port. */
async function isPortTaken(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  const isTaken = await once(server, 'listening').then(
    () => false,
    () => true,
  )
  server.close()
  return isTaken
}

/** Starts the gateway. Its output ends with the snippet for clients. */
async function startGateway(): Promise<{ readonly output: string; close(): void }> {
  show('$ gatehouse')
  const gateway = spawn(join(bin, 'gatehouse'), [], {
    cwd: project,
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let output = ''
  gateway.stdout.on('data', (chunk) => (output += String(chunk)))
  while (!output.includes('Add this to')) {
    if (gateway.exitCode !== null) throw new Error(`The gateway ended: ${output}`)
    await pause(100)
  }
  show(output.slice(0, output.indexOf('Add this to')))
  return { output, close: () => void gateway.kill() }
}

/** Decides as a person does in a browser: enters the code, opens the call that waits, and presses Approve. */
async function approveOnPage(base: string, code: string): Promise<void> {
  const form = (members: Readonly<Record<string, string>>) => ({
    method: 'POST',
    body: new URLSearchParams(members),
    redirect: 'manual' as const,
    headers: { origin: base },
  })
  const signedIn = await fetch(`${base}/confirm`, form({ code }))
  const cookie = signedIn.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ')
  const page = async (path: string): Promise<string> =>
    (await fetch(base + path, { headers: { cookie } })).text()
  let path: string | undefined
  while (path === undefined) {
    assert.ok(seconds() < MAX_DURATION_S, 'no call waits on the page')
    await pause(200)
    path = /(?<=href=")confirm\/[\w-]+/.exec(await page('/confirm'))?.[0]
  }
  const html = await page(`/${path}`)
  const [, title = '', question = ''] = /<h1[^>]*>(.*?)<\/h1>(.*?)<dl/s.exec(html) ?? []
  const text = question
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&#34;', '"')
    .trim()
  show(`The page asks: ${title} ${text}`)
  await pause(READING_MS)
  show('[Approve]')
  const [, token = ''] = /name="token" value="([^"]*)"/.exec(html) ?? []
  const { headers, ...request } = form({ token, verdict: 'approved' })
  const decided = await fetch(`${base}/${path}`, { ...request, headers: { ...headers, cookie } })
  assert.equal(decided.status, 200)
}

async function firstHour(file: string): Promise<void> {
  step('Install the package')
  type('npm', 'install', '--global', '--prefix', machine, '--no-audit', '--no-fund', '--silent', file)
  type('gatehouse', '--version')

  step('My servers, as Claude Code has them in .mcp.json')
  const server = (name: string): string => join(root, 'node_modules', '.bin', name)
  const mcpServers = {
    files: { command: server('mcp-server-filesystem'), args: [notes] },
    memory: { command: server('mcp-server-memory'), env: { MEMORY_FILE_PATH: join(project, 'memory.json') } },
  }
  writeFileSync(join(project, '.mcp.json'), JSON.stringify({ mcpServers }, null, 2))
  writeFileSync(join(notes, 'plan.txt'), 'Monday: write the report\n')
  show(readFileSync(join(project, '.mcp.json'), 'utf8').replaceAll(root, '…'))

  step('Put them behind the gateway')
  assert.equal(type('gatehouse', 'connect', 'claude-code', '--yes').code, 0)
  show(readFileSync(join(project, 'gateway.config.yaml'), 'utf8').replaceAll(root, '…'))

  step('Start it')
  const gateway = await startGateway()
  try {
    const [, code = ''] = /enter the code (\S+)/.exec(gateway.output) ?? []
    const { mcpServers: own } = JSON.parse(readFileSync(join(project, '.mcp.json'), 'utf8')) as {
      readonly mcpServers: { readonly gatehouse: { readonly url: string } }
    }
    const url = new URL(own.gatehouse.url)
    const client = new Client({ name: 'claude-code', version: '2.0.0' })
    await client.connect(new StreamableHTTPClientTransport(url))
    const call = async (name: string, args: Record<string, unknown>) => {
      const { content, isError } = await client.callTool({ name, arguments: args })
      const [first] = content as readonly { readonly text?: string }[]
      show(`${name} -> ${isError === true ? 'error: ' : ''}${first?.text?.split('\n')[0] ?? ''}`)
      return isError !== true
    }

    step('The client sees the tools of both')
    const { tools } = await client.listTools()
    show(
      tools
        .map(({ name }) => name)
        .filter((name) => /^(?:files|memory)_/.test(name))
        .join(', '),
    )

    step('A call that destroys waits until it is approved on the page')
    const entities = [{ name: 'Ada', entityType: 'person', observations: ['likes tea'] }]
    assert.ok(await call('memory_create_entities', { entities }))
    const start = seconds()
    const deleted = call('memory_delete_entities', { entityNames: ['Ada'] })
    await approveOnPage(url.origin, code)
    assert.ok(await deleted, 'the call did not run once it was approved')
    show(`The call took ${(seconds() - start).toFixed(1)} s, with the approval.`)

    step('An overwritten file is undone, but not over what somebody else wrote since')
    const plan = join(notes, 'plan.txt')
    const written = call('files_write_file', { path: plan, content: 'Monday: nothing\n' })
    if (!(await Promise.race([written, pause(3000, false)]))) await approveOnPage(url.origin, code)
    assert.ok(await written)
    writeFileSync(plan, 'Monday: nothing\nTuesday: call Bob\n')
    show(`Somebody else writes: ${JSON.stringify(readFileSync(plan, 'utf8'))}`)
    const undo = ['undo', '--since', '5m', '--upstream', 'files', '--yes']
    const refused = type('gatehouse', ...undo)
    assert.equal(refused.code, 1)
    assert.match(refused.output, /Tuesday: call Bob/)
    assert.equal(type('gatehouse', ...undo, '--force').code, 0)
    assert.equal(readFileSync(plan, 'utf8'), 'Monday: write the report\n')
    show(`The file is ${JSON.stringify(readFileSync(plan, 'utf8'))}`)
    await client.close()
  } finally {
    gateway.close()
  }
}

const { values } = parseArgs({ options: { package: { type: 'string' } } })
mkdirSync(notes, { recursive: true })
try {
  step('Make the package')
  const file = values.package ?? packed()
  if (await isPortTaken(8900)) {
    show('Port 8900 is in use, so the gateway gets another one.')
    writeFileSync(join(project, 'gateway.config.yaml'), `listen: { port: ${8901 + (process.pid % 90)} }\n`)
  }
  await firstHour(file)
  step('Done')
  assert.ok(seconds() < MAX_DURATION_S, `It took ${seconds()} s; ${MAX_DURATION_S} s are allowed.`)
} finally {
  rmSync(machine, { recursive: true, force: true })
}
