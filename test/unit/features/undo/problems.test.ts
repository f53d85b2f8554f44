import { expect, test } from 'vitest'
import type { Descriptor, Operation } from '../../../../src/core/descriptor.ts'
import type { ToolSettings, UpstreamSettings } from '../../../../src/core/settings.ts'
import { liveProblems } from '../../../../src/features/undo/undo.ts'
import { featureDeps } from '../../../support/feature-deps.ts'

const schema = (...names: string[]) => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  required: names.slice(0, 1),
})

function entry(name: string, op: Operation, inputs: string[], outputs?: string[]): Descriptor {
  const definition = {
    name,
    inputSchema: schema(...inputs),
    ...(outputs && { outputSchema: schema(...outputs) }),
  }
  const classification = { op, risk: 'safe', idempotent: false, evidence: ['its name'] } as const
  return { upstream: 'one', kind: 'tool', name, definition, classification: classification }
}

const entries = [
  entry('write_file', 'write', ['path', 'content'], ['written']),
  entry('read_file', 'read', ['path'], ['content']),
  entry('delete_file', 'delete', ['path']),
]

async function problemsOf(tools: Record<string, ToolSettings>): Promise<string[]> {
  const found = await liveProblems(
    featureDeps({
      servers: () => ['one'],
      server: () => ({ tools }) as unknown as UpstreamSettings,
      tools: async () => entries,
    }),
  )
  return found.map(({ path, message }) => `${path.slice(3).join('.')}: ${message}`)
}

test.each<[Record<string, ToolSettings>, string[]]>([
  [{ write_file: { undo: 'delete_file(path=$.args.path)' } }, []],
  [{ write_file: { undo: 'none' } }, []],
  [
    { write_file: { undo: 'delet_file(path=$.args.path)' } },
    ['write_file.undo: one has no tool delet_file; did you mean delete_file?'],
  ],
  [
    { write_file: { undo: 'delete_file()' } },
    ['write_file.undo: delete_file requires path, which is missing'],
  ],
  [
    { write_file: { undo: 'delete_file(path=$.args.file, force=true)' } },
    [
      'write_file.undo: delete_file takes no force; there is path',
      'write_file.undo: write_file has no $.args.file; there are path, content',
    ],
  ],
  [
    { write_file: { undo: 'delete_file(path=$.result.path)' } },
    ['write_file.undo: write_file has no $.result.path; there is written'],
  ],
  [
    {
      write_file: {
        undo: {
          snapshot: 'read_file(path=$.args.path)',
          restore: 'write_file(path=$.args.path, content=$.snapshot.contents)',
        },
      },
    },
    ['write_file.undo.restore: read_file has no $.snapshot.contents; did you mean content?'],
  ],
  [
    {
      write_file: {
        undo: {
          snapshot: 'delete_file(path=$.args.path)',
          restore: 'write_file(path=$.args.path)',
          absent: 'none',
        },
      },
    },
    [
      'write_file.undo.snapshot: delete_file is called to read, but is not classified as read-only (its name); set op: read if it is',
    ],
  ],
  [
    {
      write_file: {
        undo: {
          snapshot: 'read_file(path=$.args.path)',
          restore: 'write_file(path=$.args.path)',
          absent: 'gone()',
        },
      },
    },
    ['write_file.undo.absent: one has no tool gone; there are write_file, read_file, delete_file'],
  ],
  [{ 'write_*': { verify: 'read_file(path=$.args.path) -> $.result.content' } }, []],
  [
    { 'write_*': { verify: 'read_file(path=$.args.path) -> $.result.text' } },
    ['write_*.verify: read_file has no $.result.text; there is content'],
  ],
  [
    { '*': { undo: 'nowhere()' }, write_file: { undo: 'none' } },
    ['*.undo: one has no tool nowhere; there are write_file, read_file, delete_file'],
  ],
])('the undo rule %j is checked against the listed tools', async (tools, expected) => {
  expect(await problemsOf(tools)).toEqual(expected)
})

test('undo rules of an unavailable server are not reported', async () => {
  const warnings: string[] = []
  const silent = (): void => undefined
  const found = await liveProblems(
    featureDeps({
      servers: () => ['one'],
      server: () => ({ tools: { t: { undo: 'gone()' } } }) as unknown as UpstreamSettings,
      tools: () => Promise.reject(new Error('away')),
      log: { debug: silent, info: silent, error: silent, warn: (event) => void warnings.push(event) },
    }),
  )
  expect(found).toEqual([])
  expect(warnings).toEqual(['undo.unchecked'])
})

test('servers without undo rules are not listed', async () => {
  const deps = featureDeps({
    servers: () => ['one'],
    server: () => ({ tools: { t: { timeout: 1 } } }) as unknown as UpstreamSettings,
    tools: () => Promise.reject(new Error('it was asked')),
    log: featureDeps().log,
  })
  expect(await liveProblems(deps)).toEqual([])
})
