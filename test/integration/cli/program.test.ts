// A command is the same as a program: its output, its exit code, its folder, its environment and its input.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand } from '../../support/gateway.ts'
import { gatewayProgram, runCommandProcess } from '../../support/gateway-process.ts'

let cwd = ''
beforeAll(() => {
  cwd = mkdtempSync(join(tmpdir(), 'gatehouse-program-'))
  const settings = {
    store: '${PLACE}',
    upstreams: { files: 'node server.js', web: 'https://mcp.example.com' },
  }
  writeFileSync(join(cwd, 'gateway.config.yaml'), JSON.stringify(settings))
  writeFileSync(join(cwd, 'wrong.yaml'), 'upstreams: { one: { url: nowhere } }\nlisten: { prt: 1 }\n')
  writeFileSync(join(cwd, 'absent.yaml'), 'upstreams: { gh: ./absent, gh-2: ./absent 2 }\n')
  writeFileSync(join(cwd, 'place.env'), 'PLACE=./elsewhere\n')
  writeFileSync(join(cwd, 'receipt.jws'), 'no receipt')
})
afterAll(() => rmSync(cwd, { recursive: true, force: true }))

interface Ending {
  readonly code: number
  /** What is in the output. */
  readonly output: RegExp
}

test.each<[string, readonly string[], Ending, NodeJS.ProcessEnv?]>([
  ['prints its version', ['--version'], { code: 0, output: /^gatehouse \d+\.\d+\.\d+\n$/ }],
  ['prints help', ['help', 'serve'], { code: 0, output: /gatehouse serve/ }],
  ['suggests a command', ['serv'], { code: 2, output: /did you mean serve\?/ }],
  ['rejects an option', ['health', '--prot', '1'], { code: 2, output: /did you mean --port\?/ }],
  [
    'reports each mistake of a file',
    ['check', '--config', 'wrong.yaml'],
    { code: 1, output: /2 problems\n$/ },
  ],
  ['misses a variable', ['store', 'info'], { code: 1, output: /variable PLACE is not set/ }],
  [
    'has the environment',
    ['store', 'info'],
    { code: 1, output: /\/here contains no store/ },
    { PLACE: './here' },
  ],
  [
    'reads an environment file',
    ['store', 'info', '--env-file', 'place.env'],
    { code: 1, output: /\/elsewhere contains no/ },
  ],
  [
    'waits for servers that do not start, where names have to be compared',
    ['check', '--config', 'absent.yaml'],
    { code: 1, output: /2 problems, 0 of 2 servers ready\n$/ },
  ],
  [
    'needs an existing file',
    ['audit', 'verify', 'none.jsonl'],
    { code: 1, output: /none\.jsonl does not exist\n$/ },
  ],
  ['rejects a bad recording', ['replay', 'wrong.yaml', '--list'], { code: 1, output: /wrong\.yaml/ }],
  [
    'knows no such server',
    ['explain', 'fils'],
    { code: 2, output: /did you mean files\?/ },
    { PLACE: 'memory' },
  ],
  ['prints the suite', ['conformance', '--suite'], { code: 0, output: /"proposal_ref"/ }],
])('a program %s as the command does', async (_what, args, { code, output }, env = {}) => {
  const [command, program] = await Promise.all([
    runCommand(args, { cwd, env }),
    runCommandProcess(args, { cwd, env }),
  ])
  expect(program).toEqual(command)
  expect(program.code).toBe(code)
  expect(program.stdout + program.stderr).toMatch(output)
})

test('a program ends as usual when its output is closed', async () => {
  const [program = '', ...first] = gatewayProgram()
  const child = spawn(program, [...first, 'conformance', '--suite'], { cwd })
  child.stdout.destroy()
  let errors = ''
  child.stderr.on('data', (chunk: Buffer) => void (errors += chunk.toString()))
  const [code] = await once(child, 'close')
  expect([code, errors]).toEqual([0, ''])
})
