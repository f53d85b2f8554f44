import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { toolWords } from '../../src/config/sections/about.ts'
import { loadSettings } from '../../src/config/load.ts'
import { fileSchema } from '../../src/config/schema.ts'
import { toolSchema } from '../../src/config/sections/tool.ts'
import { isErrorCode } from '../../src/core/error.ts'
import { self } from '../../src/core/identity.ts'
import { features } from '../../src/features/index.ts'
import { withSettings } from '../../scripts/settings-tables.ts'
import { until } from '../support/condition.ts'
import { inRepository, readDocument, schemaKeys } from '../support/document.ts'
import { type Command, runCommand, startCommand } from '../support/gateway.ts'

const readme = readDocument('README.md')
const reference = readDocument('docs/configuration.md')
const pages = readdirSync(inRepository('docs')).filter((name) => name.endsWith('.md'))
const manual = [readme, ...pages.map((name) => readDocument(`docs/${name}`))]
const deploying = readDocument('deploy/README.md')
const architecture = readDocument('ARCHITECTURE.md')
const contributing = readDocument('CONTRIBUTING.md')
const changes = readDocument('CHANGELOG.md')
const env = {
  GITHUB_TOKEN: 'a-token',
  GITHUB_HOOK_SECRET: 'a-secret',
  TICKETS_SECRET: 'a-secret',
  PAGES_CLIENT_SECRET: 'a-secret',
  WIKI_SECRET: 'a-secret',
  IDP_SECRET: 'a-secret',
  SLACK_WEBHOOK_URL: 'https://hooks.example.com/a-token',
  SMTP_PASSWORD: 'a-secret',
  NTFY_TOPIC: 'a-topic',
  NTFY_TOKEN: 'a-token',
  PAGER_SECRET: `whsec_${Buffer.alloc(32, 5).toString('base64')}`,
}

/** Loads a configuration as the gateway would. @throws ConfigError */
function load(text: string, file = readme.file) {
  return loadSettings(text, { file, features, env })
}

describe('the configuration examples', () => {
  const examples = [...manual, deploying].flatMap((each) => each.blocks('yaml'))

  test('exist', () => {
    expect(examples.length).toBeGreaterThanOrEqual(3)
  })

  test.each(examples)('load without problems or warnings: %s', (text) => {
    expect(load(text).warnings).toEqual([])
  })

  test('of gateway.config.yaml load, with all comments enabled too', () => {
    const file = inRepository('gateway.config.yaml')
    const text = readFileSync(file, 'utf8')
    expect(load(text, file).warnings).toEqual([])
    const [, ...lines] = text.split('\n')
    const whole = lines.map((line) => line.replace(/^( *)# (?=[ #]|- |"?[\w*]+"?:(?: |$))/, '$1')).join('\n')
    const secrets = { API_KEY: 'a-key', INTROSPECT_SECRET: 'a-secret', ...env }
    const { settings, warnings } = loadSettings(whole, { file, features, env: secrets })
    expect(warnings).toEqual([])
    expect(settings).toMatchObject({
      profile: 'corporate',
      auth: { jwt: {}, tokens: [{}], users: [{}, { approvesAs: 'user:anna' }] },
    })
    expect(settings.upstreams.map(({ name }) => name)).toEqual(['everything', 'files', 'github', 'calendar'])
    expect(settings.features).toHaveProperty('mask')
  })

  test('of Docker load, and are published to this machine only', () => {
    const file = inRepository('deploy/config/gateway.config.yaml')
    const { settings, warnings } = load(readFileSync(file, 'utf8'), file)
    expect(warnings).toEqual([])
    expect(settings.listen.host).toBe('0.0.0.0')
    const [compose] = yamlOf('deploy/compose.yaml')
    expect(compose.services.gatehouse.ports).toEqual([
      `127.0.0.1:${settings.listen.port}:${settings.listen.port}`,
    ])
    const [volume = ''] = compose.services.gatehouse.volumes
    const [source, target] = volume.split(':')
    // The folder is mounted: with a mounted file, an editor that replaces it would leave the container with the old one.
    expect(resolve(inRepository('deploy'), source)).toBe(dirname(file))
    const dockerfile = readFileSync(inRepository('deploy/Dockerfile'), 'utf8')
    expect(dockerfile).toContain(`"${target}/gateway.config.yaml"`)
    expect(dockerfile).toContain('CMD ["gatehouse", "health"')
  })

  test.each(['Dockerfile', 'README.md', 'compose.yaml'])('of %s name the image of this version', (name) => {
    const text = readFileSync(inRepository(`deploy/${name}`), 'utf8')
    const tags = [...text.matchAll(/\bgatehouse:(\d[\w.]*)/g)].map(([, tag]) => tag)
    expect(new Set(tags)).toEqual(new Set([self.version]))
  })
})

describe('the tables of settings', () => {
  const rows = reference.text
    .split('\n')
    .flatMap((line) => [/^\| `([^`]+)` \|.*\| (.*) \|$/.exec(line) ?? []])
    .flatMap(([, key, meaning = '']) => (key === undefined ? [] : [{ key, meaning }]))

  test('are as the schema is; npm run docs writes them', () => {
    expect(withSettings(reference.text)).toBe(reference.text)
  })

  test('name every key of gateway.schema.json once', () => {
    const schema: unknown = JSON.parse(readFileSync(inRepository('gateway.schema.json'), 'utf8'))
    const isOverride = (key: string): boolean => /^upstreams\.<name>\.(?:features|limits|schemas)\./.test(key)
    const own = [...schemaKeys(schema).keys()].filter(
      (key) => !isOverride(key) && !/^(?:events|profiles)\.<name>$/.test(key),
    )
    const settings = features.flatMap(({ name, place, schema: { properties } }) =>
      place === 'features' ? Object.keys(properties ?? {}).map((key) => `features.${name}.${key}`) : [],
    )
    const ofTools = Object.keys({ ...toolSchema.properties, ...toolWords }).map(
      (key) => `upstreams.<name>.tools.<name>.${key}`,
    )
    const keys = rows.map(({ key }) => key)
    expect([...own, ...settings, ...ofTools].filter((key) => !keys.includes(key))).toEqual([])
    expect(keys.length).toBe(new Set(keys).size)
  })

  test('give servers the same feature keys as the top level', () => {
    const keys = [...schemaKeys(fileSchema(features)).keys()]
    const named = (prefix: string): string[] =>
      keys.flatMap((key) => (key.startsWith(prefix) ? [key.slice(prefix.length)] : []))
    expect(named('upstreams.<name>.features.')).toEqual(named('features.'))
  })

  test('say in the row of each limit which error a call beyond it gets', () => {
    const limits = rows.filter(({ key }) => /^limits\.(?!max_)\w+$/.test(key))
    const codes = limits.map(({ meaning }) => /`([A-Z_]+)`/.exec(meaning)?.[1] ?? '')
    expect(codes).toHaveLength(6)
    expect(codes.filter((code) => !isErrorCode(code))).toEqual([])
  })

  test('C219 the manual documents refusals, error codes and every key', () => {
    const text = manual.map((each) => `\n${each.text}`).join('')
    for (const title of ['Endpoints', 'Errors', 'Configuration reference', 'Limits']) {
      expect(text).toMatch(new RegExp(`\n##? ${title}\n`))
    }
  })
})

describe('documentation links', () => {
  const links = [...manual, deploying, changes, architecture, contributing].flatMap(({ file, links: all }) =>
    all().map((link) => [link, file]),
  )

  test.each(links)('%s resolves', (link = '', file = '') => {
    const [path = '', heading] = link.split('#')
    const target = path === '' ? file : join(dirname(file), path)
    expect(existsSync(target)).toBe(true)
    if (heading !== undefined) expect(anchorsOf(readFileSync(target, 'utf8'))).toContain(heading)
  })

  test('the files that the architecture page names exist', () => {
    const named = [...architecture.text.matchAll(/`((?:[a-z]+\/)+[\w-]+\.(?:ts|md))`/g)].map(
      ([, path = '']) => path,
    )
    expect(named.length).toBeGreaterThan(20)
    const roots = ['src/', '']
    expect(named.filter((path) => !roots.some((root) => existsSync(inRepository(root + path))))).toEqual([])
  })

  test('the folders that the architecture page names are those of src', () => {
    const folders = architecture
      .table('Folder of `src/`')
      .flatMap(([cell = '']) => cell.match(/[a-z]+/g) ?? [])
    const entries = readdirSync(inRepository('src'), { withFileTypes: true })
    expect(folders.toSorted()).toEqual(
      entries.flatMap((each) => (each.isDirectory() ? each.name : [])).toSorted(),
    )
  })
})

test('the changelog contains this version', () => {
  expect(changes.text).toContain(`\n## [${self.version}] - `)
})

describe('the commands in the documents', () => {
  const lines = [...manual, deploying].flatMap(({ text }) => {
    const commands = text.matchAll(/(?:^|`)gatehouse ([a-z][^`\n#]*)/gm)
    return [...commands].map(([, line = '']) => line.split(' -- ')[0]?.split(' ') ?? [])
  })
  const names = [...new Set(lines.map(([name = '']) => name))]

  test('are those of --help', async () => {
    const { stdout } = await runCommand(['--help'])
    const known = [...stdout.matchAll(/^ {2}gatehouse \[?([a-z]+)/gm)].map(([, name = '']) => name)
    expect(names.toSorted()).toEqual([...new Set(known)].toSorted())
  })

  test.each(names)('have only options that the help of %s names', async (name) => {
    const { code, stdout } = await runCommand([name, '--help'])
    const known = new Set([...stdout.matchAll(/--[a-z-]+/g)].map(([option]) => option))
    const options = lines
      .filter(([first]) => first === name)
      .flatMap((words) => words.filter((word) => word.startsWith('--')))
    expect({ code, unknown: options.filter((option) => !known.has(option)) }).toEqual({
      code: 0,
      unknown: [],
    })
  })

  test('of npm are scripts of the package', () => {
    const { scripts } = JSON.parse(readFileSync(inRepository('package.json'), 'utf8'))
    const used = [
      ...`${readme.text}${contributing.text}`.matchAll(/npm (?:run\s+([\w:-]+)|(start|test))/g),
    ].map(([, run, own]) => run ?? own)
    expect(used).toEqual(expect.arrayContaining(['start', 'test', 'check', 'release']))
    expect(used.filter((name) => name === undefined || !Object.hasOwn(scripts, name))).toEqual([])
  })
})

describe('client snippets', () => {
  const folder = inRepository('deploy/clients')
  let directory = ''
  let running: Command | undefined

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  })
  afterEach(async () => {
    await running?.close()
    running = undefined
    rmSync(directory, { recursive: true, force: true })
  })

  test.each(readdirSync(folder))(
    'gatehouse init --from finds only the gateway itself in %s',
    async (name) => {
      const target = join(directory, 'gateway.config.yaml')
      const { code, stderr } = await runCommand(['init', '--from', join(folder, name), '--config', target])
      expect(code).toBe(1)
      for (const server of ['gatehouse-by-url', 'gatehouse-by-stdio']) {
        expect(stderr).toContain(`"${server}": is this gateway itself and was skipped`)
      }
      expect(existsSync(target)).toBe(false)
    },
  )

  test.each(readdirSync(folder))('%s configures the gateway by URL and by stdio', (name) => {
    const value = JSON.parse(readFileSync(join(folder, name), 'utf8'))
    const servers = value.mcpServers ?? value.servers
    const byUrl = servers['gatehouse-by-url']
    expect(byUrl.url ?? byUrl.args.at(-1)).toBe('http://127.0.0.1:8900/mcp')
    expect(servers['gatehouse-by-stdio'].args.slice(0, 2)).toEqual(['stdio', '--config'])
  })

  test.each(readDocument('docs/usage.md').blocks('json'))('the manual has valid JSON: %s', (text) => {
    expect(JSON.parse(text)).toHaveProperty('mcpServers.gatehouse.command', 'gatehouse')
  })

  test('that of gatehouse serve is valid JSON and contains the served URL', async () => {
    running = startCommand(['serve', '--port', '0', 'http://127.0.0.1:9/mcp'])
    const { stdout, stderr } = running
    const printed = until(() => /^\{\n.*^\}$/ms.exec(stdout())?.[0], 'the snippet')
    const text = await printed.catch((cause: unknown) => {
      throw new Error(`It printed:\n${stdout()}${stderr()}`, { cause })
    })
    const url = /^Gatehouse serves (\S+)$/m.exec(stdout())?.[1]
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/mcp$/)
    expect(JSON.parse(text)).toEqual({ mcpServers: { gatehouse: { type: 'http', url } } })
    const answer = await fetch(new URL('/health', url))
    expect(await answer.json()).toMatchObject({ status: 'ok' })
  })
})

/** The anchors of the headings of a document. */
function anchorsOf(text: string): string[] {
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** The documents of a YAML file. */
function yamlOf(path: string) {
  return parseAllDocuments(readFileSync(inRepository(path), 'utf8')).map((document) => {
    expect(document.errors).toEqual([])
    return document.toJS()
  })
}
