import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { EntryDefinition } from '../../../../src/core/descriptor.ts'
import { serverPanel } from '../../../../src/descriptions/formats/front-page.ts'
import {
  type FrontPage,
  frontPageHeaders,
  renderPage,
  type ServerRow,
} from '../../../../src/downstream/pages/front-page.ts'
import { describedServer } from '../../../support/described-server.ts'

const open = { isProtected: false, isAuthenticated: true, hasPasswords: false, issuers: [] }
const stranger = {
  isProtected: true,
  isAuthenticated: false,
  hasPasswords: true,
  issuers: ['https://idp.example'],
}

function row(tools: readonly EntryDefinition[], given: Partial<ServerRow> = {}): ServerRow {
  const name = given.name ?? 'files'
  return {
    name,
    state: 'ready',
    address: `http://127.0.0.1:8900/mcp/${name}`,
    panel: serverPanel(describedServer({ record: { name }, tools })),
    findings: [],
    documents: [],
    ...given,
  }
}

function page(given: Partial<FrontPage> = {}): string {
  return renderPage({
    version: '0.2.0',
    endpoints: { gatehouse: 'http://127.0.0.1:8900/mcp' },
    access: open,
    servers: [row([tool('read_file', 'Reads a file.'), tool('delete_file', 'Deletes a file.')])],
    links: [],
    query: '',
    reader: { places: [] },
    ...given,
  })
}

function tool(name: string, description = ''): EntryDefinition {
  return { name, description, inputSchema: { type: 'object' } }
}

/** The visible tools. */
function shown(html: string): string[] {
  const items = html.match(/<li class="tool"[^>]*>.*?<code class="name">.*?<\/code>/gs) ?? []
  return items
    .filter((each) => !/^<li[^>]* hidden/.test(each))
    .map((each) => /name">(.*?)</.exec(each)?.[1] ?? '')
}

const hostile = `"><script>alert(1)</script><img src=x onerror='alert(1)'>`

test('text of servers, owners and readers is escaped on the page', () => {
  const record = {
    name: 'evil',
    info: { title: hostile, version: hostile },
    about: { about: hostile, emoji: hostile },
    prompts: [{ name: hostile }],
    resources: [{ uri: hostile }],
  }
  const inputSchema = { type: 'object', properties: { [hostile]: { type: hostile, description: hostile } } }
  const tools = [{ name: hostile, title: hostile, description: `${hostile}\n\nMore.`, inputSchema }]
  const html = page({
    servers: [
      row([], {
        panel: serverPanel(describedServer({ record, tools })),
        problem: hostile,
        state: 'unavailable',
      }),
    ],
    query: hostile,
    endpoints: { [hostile]: hostile },
    links: [{ label: hostile, url: hostile, description: hostile }],
  })
  expect(html).toContain('alert(1)')
  expect(html.match(/<script/g)).toHaveLength(1)
  expect(html).not.toMatch(/<img|"><script|='alert/)
})

test('no text of a tool opens a tag or ends an attribute', () => {
  const plain = page({ servers: [row([tool('x', 'x')])] })
  const tags = (html: string): string[] => html.match(/<[a-z/][^>]*>/g) ?? []
  const shapes = (html: string): string[] => tags(html).map((tag) => tag.replaceAll(/"[^"]*"/g, '""'))
  // The full description is a separate paragraph.
  const known = new Set([...shapes(plain), '<p class="">'])
  fc.assert(
    fc.property(fc.string({ unit: fc.constantFrom('<', '>', '"', "'", '&', 'a', '/', ' ') }), (text) => {
      const html = page({ servers: [row([{ ...tool(`t${text}`, `x ${text}`), title: `T${text}` }])] })
      expect(shapes(html).filter((each) => !known.has(each))).toEqual([])
    }),
  )
})

test('the page states the status of each server and the reason of a failure', () => {
  const html = page({
    servers: [
      row([], { name: 'one' }),
      row([], { name: 'two', state: 'starting' }),
      row([], { name: 'three', state: 'unavailable', problem: 'It could not be started.' }),
    ],
  })
  expect(html.match(/<span class="state[^<]*/g)).toEqual([
    '<span class="state ready">ready',
    '<span class="state starting">starting',
    '<span class="state unavailable">unavailable',
  ])
  expect(html).toContain('It could not be started.')
  expect(html).toContain('3 servers, 1 ready')
})

test('all tools are shown without a search, and those that match every word with one', () => {
  expect(shown(page())).toEqual(['read_file', 'delete_file'])
  expect(shown(page({ query: 'FILE  delet' }))).toEqual(['delete_file'])
  expect(page({ query: 'delete' })).toContain('1 of 2 tools match')
  expect(shown(page({ query: 'destructive' }))).toEqual(['delete_file'])
})

test('a search for a server name shows its tools, and a search without matches says so', () => {
  const servers = [row([tool('read_file')]), row([tool('add_note')], { name: 'notes', prefix: 'notes_' })]
  expect(shown(page({ servers, query: 'notes' }))).toEqual(['add_note'])
  expect(shown(page({ servers, query: 'notes_add_note' }))).toEqual(['add_note'])
  const none = page({ servers, query: 'zebra' })
  expect(shown(none)).toEqual([])
  expect(none.match(/<details class="server"[^>]* hidden>/g)).toHaveLength(2)
  expect(none).toMatch(/<p id="nothing">/)
  expect(page({ servers })).toMatch(/<p id="nothing" hidden>/)
})

test('an anonymous reader sees the servers and how to sign in, but no tools', () => {
  const servers = [row([tool('read_file')], { documents: [{ label: 'SKILL.md', url: 'skills' }] })]
  const html = page({ servers, access: stranger, query: 'read_file' })
  expect(html).not.toContain('class="tool"')
  expect(html).not.toContain('SKILL.md')
  expect(html).toContain('<strong>files</strong>')
  expect(html).toContain('href="?sign-in"')
  expect(html).toContain('https://idp.example')
  expect(page({ access: { ...stranger, hasPasswords: false } })).not.toContain('?sign-in')
  expect(page({ access: { ...stranger, problem: 'No.' } })).toContain('role="alert">No.')
})

test('only the script and style of the page may run', () => {
  const policy = new Headers(frontPageHeaders).get('content-security-policy')
  expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^ ]+'; script-src 'sha256-[^ ]+';/)
  expect(policy).not.toContain('unsafe')
})

test('500 tools are rendered in less than 200 ms of work', () => {
  const properties = Object.fromEntries(
    Array.from({ length: 8 }, (_, index) => [
      `argument_${index}`,
      { type: 'string', description: 'What to do it to.' },
    ]),
  )
  const tools = Array.from({ length: 500 }, (_, index) => ({
    ...tool(`do_something_${index}`, 'Does something to what is named. '.repeat(10)),
    inputSchema: { type: 'object', properties },
  }))
  const durations = Array.from({ length: 5 }, (_, index) => {
    // Every round has a new server name, so that nothing is cached.
    const source = describedServer({ record: { name: `server${index}` }, tools })
    const start = process.cpuUsage()
    const html = page({ servers: [row([], { panel: serverPanel(source) })], query: String(index) })
    expect(html).toContain('do_something_499')
    const { user, system } = process.cpuUsage(start)
    return (user + system) / 1000
  })
  expect(Math.min(...durations)).toBeLessThan(200)
})
