import fc from 'fast-check'
import { stringify as toToml } from 'smol-toml'
import { describe, expect, test } from 'vitest'
import { stringify as toYaml } from 'yaml'
import { commonKeys } from '../../../../src/config/import/entries.ts'
import { dialects, readTemplate, type Template } from '../../../../src/config/import/model.ts'
import type { Secret } from '../../../../src/core/text/secret.ts'
import { importedFile, loadedServers } from '../../../support/imported.ts'
import { repetitions } from '../../../support/soak.ts'

/** Values of the variables that generated files refer to. */
const environment = { HOME: '/home/me', A: 'one', B_2: 'two $A ${B_2}' }

/** Text with what is special in some syntax on the way: of clients, shells, YAML, JSON or the gateway. */
const special = fc.constantFrom(
  ...'$ $$ { } ${ ${A} $A ${B_2} ${A:-d} ${NO:-} ${env:A} {env:A} $${A} %A% ~ ~/x \' " \\ ` # : - ! & * ? | > @ , [ ] = //'.split(
    ' ',
  ),
  ...[
    '',
    ' ',
    '\t',
    '\n',
    '\u0085',
    '\u2028',
    '\ufeff',
    '\ud800',
    '\u202e',
    'ä',
    '日本',
    '🚀',
    'null',
    'true',
    '1e3',
    '0x10',
    '1.10',
    'on',
    '<<',
    '---',
  ],
)
const word = fc.array(special, { maxLength: 5 }).map((parts) => parts.join(''))
const secret = fc.constantFrom(
  'sk-abcdefghij0123456789',
  'ghp_abcdefghij0123456789',
  'https://a:b@c.example/x',
)
/** Secrets that are defaults of references, or beside them. */
const referred = fc
  .tuple(fc.constantFrom('${D:-%}', '${NO:-%}', '${A:-%}', '${env:D:-%}', '${A}%', 'x-${D:-%}${A}'), secret)
  .map(([form, each]) => form.replace('%', each))
const text = fc.oneof({ weight: 8, arbitrary: word }, secret, referred)
const line = text.map((each) => each.replaceAll(/[\r\n\u0085\u2028]/g, ''))
const name = fc.oneof(
  word,
  fc.constantFrom(
    '__proto__',
    'constructor',
    'toString',
    'gatehouse',
    'server-card',
    'My Server',
    'a.b',
    'x'.repeat(300),
  ),
)
const variableName = fc.constantFrom(
  'API_KEY',
  'A',
  'PORT',
  'on',
  '1',
  '__proto__',
  'constructor',
  'a b',
  'ä',
  'LONG_TOKEN',
)
const headerName = fc.constantFrom(
  'X-A',
  'x-api-key',
  'Authorization',
  'Accept',
  'HOST',
  'content-type',
  'Mcp-Session-Id',
  'MCP-Protocol-Version',
  'Connection',
  'TE',
  'Keep-Alive',
)
const own = /^(?:accept|host|content-type|mcp-session-id|mcp-protocol-version|connection|te|keep-alive)$/i

const command = fc.record({
  command: fc.constantFrom(
    'npx',
    ' node ',
    '/opt/my server/run',
    'C:\\Program Files\\x.exe',
    '${HOME}/bin/x',
    'uvx',
  ),
  args: fc.array(text, { maxLength: 4 }),
  env: fc.dictionary(variableName, text, { maxKeys: 4 }),
})
const remote = fc.record({
  url: fc.constantFrom(
    'https://h.example/mcp',
    ' HTTP://H.example/mcp ',
    'https://u:p@h.example/',
    'https://h.example/?a=1&key=abc',
    '${HOST:-https://h.example}/mcp',
    '${HOST:-https://h.example/?api_key=sk-abcdefghij0123456789}',
    '${HOST:-https://a:b@c.example/x}',
    'https://h.example/?a=${A}&key=${D:-ghp_abcdefghij0123456789}',
  ),
  headers: fc.dictionary(headerName, line, { maxKeys: 3 }),
})

type Entry =
  | { command: string; args: string[]; env: Record<string, string> }
  | { url: string; headers: Record<string, string> }

/** A client: its file, the file of servers, and what it replaces. */
const clients = [
  {
    file: '/x/claude_desktop_config.json',
    dialect: dialects.none,
    write: (mcpServers: object) => JSON.stringify({ mcpServers }),
  },
  {
    file: '/x/.mcp.json',
    dialect: dialects.braces,
    write: (mcpServers: object) => JSON.stringify({ mcpServers }),
  },
  {
    file: '/x/.gemini/settings.json',
    dialect: dialects.shell,
    write: (mcpServers: object) => JSON.stringify({ mcpServers }),
  },
  {
    file: '/x/.vscode/mcp.json',
    dialect: dialects.editor,
    write: (servers: object) => JSON.stringify({ servers }),
  },
  {
    file: '/x/unknown.json',
    dialect: dialects.any,
    write: (mcpServers: object) => JSON.stringify({ mcpServers }),
  },
  {
    file: '/x/config.toml',
    dialect: dialects.none,
    write: (servers: object) =>
      toToml(JSON.parse(JSON.stringify({ mcp_servers: servers }).replaceAll('\\ud800', '\ufffd'))),
  },
  {
    file: '/x/goose.yaml',
    dialect: dialects.shell,
    write: (extensions: object) => toYaml({ extensions }, { blockQuote: false }),
  },
]

const context = { workspace: '/x', isWorkspaceKnown: true, inputs: new Map(), note: () => undefined }

describe('a generated file of a client', () => {
  test.each(clients)('as $file is a configuration that means the same', ({ file, dialect, write }) => {
    const value = (written: string, own = {}): string =>
      valueOf(readTemplate(written.toWellFormed(), dialect, context), own)
    const servers = fc.uniqueArray(fc.tuple(name, fc.oneof(command, remote)), {
      minLength: 1,
      maxLength: 3,
      selector: ([each]) => each,
    })
    fc.assert(
      fc.property(servers, (given: [string, Entry][]) => {
        const read = importedFile(write(Object.fromEntries(given)), { file, environment })
        expect(read.yaml).not.toMatch(/sk-abc|ghp_abc|a:b@c/)
        const loaded = read.body === '' ? [] : [...loadedServers(read, variablesOf(read)).values()]
        for (const [written, entry] of given) {
          const found = loaded.some(({ reach }) => {
            if ('url' in entry) return reach.kind === 'url' && isSameUrl(reach, entry, value)
            return reach.kind === 'command' && isSameCommand(reach, entry, value)
          })
          const mayBeRefused = 'url' in entry && entry.url.startsWith('${')
          const isRefused = read.notes.some(
            (each) =>
              each.startsWith(`${JSON.stringify(written.toWellFormed())}: `) && each.includes(' was skipped'),
          )
          expect(
            found || (mayBeRefused && isRefused),
            `${written}: ${JSON.stringify(entry)}\n${read.yaml}`,
          ).toBe(true)
        }
      }),
      { numRuns: repetitions(6, 1500) },
    )
  })
})

test('garbage in the place of any setting is left out, or its server is, and each is reported', () => {
  const keys = fc.constantFrom(...Object.keys(commonKeys), '__proto__', 'other')
  const entry = fc.oneof(
    fc.jsonValue({ maxDepth: 1 }),
    fc.dictionary(keys, fc.jsonValue({ maxDepth: 2 }), { maxKeys: 5 }),
  )
  const roots = fc.constantFrom(
    'mcpServers',
    'servers',
    'mcp',
    'mcp_servers',
    'context_servers',
    'extensions',
  )
  fc.assert(
    fc.property(roots, fc.dictionary(name, entry, { minKeys: 1, maxKeys: 3 }), (root, given) => {
      const good = { command: 'npx', args: ['good'] }
      const read = importedFile({ [root]: { ...given, good } }, { environment })
      const loaded = loadedServers(read, variablesOf(read))
      expect(
        [...loaded.values()].some(({ reach }) => reach.kind === 'command' && reach.args.at(-1) === 'good'),
      ).toBe(true)
      for (const each of Object.keys(given).filter((key) => key !== 'good')) {
        const isReported = read.notes.some((note) => note.startsWith(JSON.stringify(each.toWellFormed())))
        expect(isReported || loaded.size > 1, `${each}\n${read.yaml}`).toBe(true)
      }
    }),
    { numRuns: repetitions(15, 3000) },
  )
})

/** Values for all variables that an imported file refers to. */
function variablesOf({ yaml }: { readonly yaml: string }): Readonly<Record<string, string>> {
  const names = [...yaml.matchAll(/\$\{(\w+)\}/g)].map(([, each = '']) => each)
  const own = Object.fromEntries(names.map((each) => [each, UNSET]))
  return { ...own, ...environment }
}

const UNSET = 'not set'

/** What a client gives to a server, which replaces references to its own variables itself. */
function valueOf(template: Template, env: Readonly<Record<string, string>>): string {
  const variables: Readonly<Record<string, string | undefined>> = environment
  return template
    .map((part) => {
      if (typeof part === 'string') return part
      if ('path' in part) return ''
      const known = variables[part.variable] ?? part.fallback
      if (known === undefined && Object.hasOwn(env, part.variable))
        return part.written ?? `\${${part.variable}}`
      return known ?? UNSET
    })
    .join('')
}

type Value = (written: string, env?: Readonly<Record<string, string>>) => string

function isSameCommand(
  reach: { command: string; args: readonly string[]; env: Readonly<Record<string, Secret>> },
  entry: { command: string; args: string[]; env: Record<string, string> },
  value: Value,
): boolean {
  const env = Object.entries(entry.env).map(([key, each]) => [key, value(each)])
  return (
    JSON.stringify([reach.command, ...reach.args]) ===
      JSON.stringify([entry.command.trim(), ...entry.args].map((each) => value(each, entry.env))) &&
    revealed(reach.env) === sorted(env)
  )
}

function isSameUrl(
  reach: { url: string; headers: Readonly<Record<string, Secret>> },
  entry: { url: string; headers: Record<string, string> },
  value: Value,
): boolean {
  const headers = Object.entries(entry.headers)
    // The others cannot be in a header.
    .filter(([key, each]) => !own.test(key) && /^[\t -~\x80-\xff]*$/.test(each.trim()))
    .map(([key, each]) => [key.toLowerCase(), value(each.trim()).trim()])
  const isGiven = Object.hasOwn(entry.headers, 'Authorization')
  const user = entry.url.includes('u:p@') && !isGiven ? [['authorization', 'Basic dTpw']] : []
  const url = value(entry.url.trim()).replace('HTTP:', 'http:').replace('u:p@', '')
  return reach.url === url && revealed(reach.headers) === sorted([...headers, ...user])
}

function revealed(values: Readonly<Record<string, Secret>>): string {
  return sorted(Object.entries(values).map(([key, secret]) => [key, secret.reveal().trim()]))
}

function sorted(entries: readonly (readonly string[])[]): string {
  return entries
    .map(([key, value]) => JSON.stringify([key, value?.trim()]))
    .toSorted((one, other) => (one < other ? -1 : 1))
    .join()
}
