import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { enterWorld, world } from '../../../src/core/world.ts'

const root = join(import.meta.dirname, '../../../src')

/** What runs only against real files, sockets and processes, and so may use the globals. */
const real = [
  /^(cli|config|lint)\//,
  /^main\.ts$/,
  /^core\/world\.ts$/,
  /^store\/(lmdb|redis)\//,
  /^store\/(sentinel|open|portable|blobs\/folder)\.ts$/,
  /^upstream\/oauth\//,
  /^upstream\/transport\/(child|http|http-client|sse)\.ts$/,
  /^downstream\/pages\//,
  /^downstream\/http\/(routes|fetch-json)\.ts$/,
  /^observability\/tracing\.ts$/,
  /^features\/(dialer|references\/transfer\/files)\.ts$/,
  /^gateway\/doctor\.ts$/,
  /^testkit\//,
]

const ambient =
  /(?<![.\w#])(setTimeout|clearTimeout|setInterval|clearInterval|setImmediate|randomBytes|randomUUID|randomInt|queueMicrotask)\(|\b(Date|performance)\.now\b|\bnew Date\(\)|\bMath\.random\b|\bAbortSignal\.timeout\b|timers\/promises|\bprocess\.(hrtime|kill)\b|\bgetRandomValues\b/

/** The lines that use what a simulation replaces. */
function usesIn(text: string): readonly string[] {
  return text.split('\n').filter((line) => !/^\s*(\/\/|\*|\/\*\*)/.test(line) && ambient.test(line))
}

afterEach(() => {
  vi.useRealTimers()
})

it('code that can be simulated takes time, timers and randomness from the world', () => {
  const files = globSync('**/*.ts', { cwd: root }).filter((file) => !real.some((each) => each.test(file)))
  expect(files.length).toBeGreaterThan(300)
  const found = files.flatMap((file) =>
    usesIn(readFileSync(join(root, file), 'utf8')).map((line) => `${file}: ${line}`),
  )
  expect(found).toEqual([])
})

it('the check of uses finds each of them', () => {
  const lines = [
    'const at = Date.now()',
    '  now: Date.now,',
    'setTimeout(run, 1)',
    'id: randomUUID(),',
    'new Date()',
  ]
  expect(usesIn(lines.join('\n'))).toEqual(lines)
  expect(usesIn('world.setTimeout(run, 1)\n// Date.now()\nsocket.setTimeout(1)')).toEqual([])
})

it('the real world uses the globals at the time of each call', () => {
  vi.useFakeTimers({ now: 1000 })
  const run = vi.fn<(text: string) => void>()
  world.setTimeout(run, 50, 'a')
  const cleared = world.setTimeout(run, 50, 'b')
  world.clearTimeout(cleared)
  vi.advanceTimersByTime(50)
  expect(run.mock.calls).toEqual([['a']])
  expect(world.now()).toBe(1050)
})

it('a process can enter another world and come back', () => {
  const leave = enterWorld({ ...world, now: () => 42 })
  expect(world.now()).toBe(42)
  leave()
  expect(Math.abs(world.now() - Date.now())).toBeLessThan(1000)
})

it('the real world knows which processes run, and gives ids that differ', () => {
  expect(world.isRunning(process.pid)).toBe(true)
  expect(world.isRunning(2 ** 22 + 12345)).toBe(false)
  expect(world.requestId()).not.toBe(world.requestId())
})
