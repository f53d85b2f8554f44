import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { classify, withPack } from '../../../src/core/judgement/classify.ts'
import chromeDevtools from '../../../src/core/judgement/packs/chrome-devtools.json' with { type: 'json' }
import notion from '../../../src/core/judgement/packs/notion.json' with { type: 'json' }
import playwright from '../../../src/core/judgement/packs/playwright.json' with { type: 'json' }
import type { Pack } from '../../../src/core/pack.ts'
import { effectRanks } from '../../../src/core/judgement/evidence.ts'
import type { Judgement } from '../../../src/core/judgement/judge.ts'
import type { UpstreamSettings } from '../../../src/core/settings.ts'
import { foreignFile } from '../../support/foreign.ts'
import { serverSettings } from '../../support/server-settings.ts'

type Definition = Readonly<Record<string, unknown>>

/** What the published server lists, by name. */
const listed = new Map<string, Definition>()
beforeAll(async () => {
  const program = foreignFile('@playwright/mcp/cli.js')
  const [command, args] = [process.execPath, [program, '--headless', '--caps=vision']]
  const client = new Client({ name: 'lister', version: '1.0.0' }, { capabilities: {} })
  await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }))
  try {
    for (const tool of (await client.listTools()).tools) listed.set(tool.name, tool)
  } finally {
    await client.close()
  }
}, 120_000)

function tool(name: string): Definition {
  const found = listed.get(name)
  if (!found) throw new Error(`the server lists no ${name}`)
  return found
}

function judged(definition: Definition, given: Partial<UpstreamSettings> = {}): string {
  const { op, risk } = classify(definition, serverSettings({ name: 'playwright', ...given }))
  return `${op} ${risk}`
}

describe('the pack of the published browser server, whose annotations mark every acting tool as destructive', () => {
  it('requires confirmation only for tools that run programs or read files', () => {
    const asked = [...listed.values()].filter((each) => judged(each).endsWith('destructive'))
    expect(new Set(asked.map(({ name }) => name))).toEqual(
      new Set(['browser_drop', 'browser_evaluate', 'browser_file_upload', 'browser_run_code_unsafe']),
    )
  })

  it.each(['browser_click', 'browser_type', 'browser_tabs', 'browser_close', 'browser_mouse_click_xy'])(
    'matches the definition of %s, and names its source',
    (name) => {
      const { evidence } = classify(tool(name), serverSettings())
      expect(evidence[0]).toMatch(/^it is known from @playwright\/mcp: it /)
      expect(judged(tool(name))).toBe('write reversible')
    },
  )

  it.each<[string, Definition]>([
    ['a different description', { description: 'Perform click on a web page.' }],
    ['a different argument', { inputSchema: { type: 'object', properties: { code: { type: 'string' } } } }],
    ['different annotations', { annotations: { readOnlyHint: false } }],
    ['a title', { title: 'Click' }],
  ])('does not match a definition with %s', (_what, changed) => {
    const { evidence, risk } = classify({ ...tool('browser_click'), ...changed }, serverSettings())
    expect(evidence.join()).not.toContain('known from')
    expect(risk).toBe('destructive')
  })

  it('matches with any _meta and any order of fields', () => {
    const backwards = Object.fromEntries(Object.entries(tool('browser_click')).toReversed())
    expect(judged({ ...backwards, _meta: { version: 2 } })).toBe('write reversible')
  })

  it('does not count for an untrusted server, since any server could list the same tools', () => {
    const { risk, evidence } = classify(tool('browser_click'), serverSettings({ trust: false }))
    expect(risk).toBe('destructive')
    expect(evidence.at(-1)).toMatch(/is ignored \(trust is off\)$/)
  })

  it('is overridden by the configuration', () => {
    expect(judged(tool('browser_click'), { tools: { browser_click: { risk: 'destructive' } } })).toBe(
      'write destructive',
    )
  })
})

describe.each([playwright, chromeDevtools, notion] satisfies readonly Pack[])(
  'the pack of $package',
  (pack) => {
    it('gives each tool one effect, a reason and definition hashes', () => {
      for (const { effect, why, definitions } of Object.values(pack.tools)) {
        expect(Object.keys(effectRanks)).toContain(effect)
        expect(why).toMatch(/^[a-z].*[^.]$/)
        expect(definitions.length).toBeGreaterThan(0)
        for (const each of definitions) expect(each).toMatch(/^[0-9a-f]{32}$/)
      }
    })
  },
)

it('a pack applies a stricter effect to untrusted servers too', () => {
  const found: Judgement = { effect: 'read', baseEffect: 'read', conditions: [], evidence: ['it reads'] }
  expect(withPack(found, tool('browser_click'), false)).toMatchObject({
    effect: 'write',
    baseEffect: 'write',
  })
})
