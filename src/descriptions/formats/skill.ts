/** SKILL.md (Agent Skills). */
import { hash } from 'node:crypto'
import { self } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import type { ServerDescription } from '../model/description.ts'
import { endpointsOf, installationOf } from '../model/facts.ts'
import { bullets, code, inlineText, jsonBlock, listed, sentence, oneLine } from '../model/text.ts'
import { bestPractices, clientSnippet, whenToUse } from '../sections/sections.ts'
import { quickReference } from '../sections/reference.ts'
import { specVersion, dayOf, needsOf, specUrl } from './dashdash.ts'

/** A SKILL.md file. */
interface SkillFile {
  readonly text: string
  /** Its front matter. */
  readonly frontmatter: Readonly<Record<string, unknown>>
}

/** The SKILL.md of a server, or of all together (Agent Skills). */
export function skillOf(server: ServerDescription): SkillFile {
  const { description, title, purpose, contentVersion, emoji = '' } = server
  const frontmatter = {
    name: skillName(server),
    description,
    metadata: {
      'spec-version': specVersion,
      source: self.name,
      ...(contentVersion !== '' && { 'content-version': contentVersion }),
    },
  }
  const body = [
    `# ${inlineText(`${emoji} ${title}`)}`,
    inlineText(purpose),
    `## When to Use\n\n${whenToUse(server).markdown}`,
    `## Quick Reference\n\n${quickReference(server)}`,
    `## Setup\n\n${setup(server)}`,
    `## Rules\n\n${bullets(rules(server))}`,
    more(server),
  ]
  const text = `${fenced(frontmatter, [])}\n${body.filter((part) => part !== '').join('\n\n')}\n`
  return { text, frontmatter }
}

/** The SHA-256 and size of a file. */
export function stampOf(text: string): { readonly digest: string; readonly size: number } {
  const bytes = Buffer.from(text)
  return { digest: `sha256:${hash('sha256', bytes)}`, size: bytes.length }
}

/** The resource URI of a skill. */
export function skillUri(server: Pick<ServerDescription, 'name'>): string {
  return `skill://${skillName(server)}/SKILL.md`
}

/** The name of a skill and its folder: words joined by single hyphens. */
export function skillName({ name }: Pick<ServerDescription, 'name'>): string {
  const plain = name.replaceAll(/-+/g, '-').replace(/-$/, '')
  // Another server may have the normalized name, so a hash is added.
  return plain === name ? name : `${plain}-${hash('sha256', name).slice(0, 6)}`
}

function setup(server: ServerDescription): string {
  const snippet = jsonBlock(clientSnippet(server))
  const [[name, url] = [], ...others] = Object.entries(endpointsOf(server))
  if (others.length > 0)
    return `Each server has its own MCP endpoint. If its tools are missing, add it to the MCP client:\n\n${snippet}`
  const at = url === undefined ? 'the gateway, started by the client' : `the MCP endpoint ${inlineText(url)}`
  return `The tools are provided by ${at}. If they are missing, add it to the MCP client as ${code(name ?? server.name)}:\n\n${snippet}`
}

function rules(server: ServerDescription): string[] {
  const { front } = server
  const retry =
    'Retry only after errors of the category `transient` or `rate_limited`, and not before `retry_after_seconds` have passed.'
  return [
    // The guide is mentioned at the end.
    ...bestPractices({ ...server, front: { ...front, isHelpListed: false } }),
    ...(front.rates.length > 0 ? [`At most ${listed(front.rates.map(inlineText))} for each caller.`] : []),
    ...front.limits.map((limit) => sentence(inlineText(limit))),
    retry,
  ]
}

function more({ front }: ServerDescription): string {
  if (!front.isHelpListed) return ''
  return 'For parameters, errors and examples call `ai_help`; set `section` to the name of a tool for that tool only.'
}

// YAML front matter of documents.

/** The front matter of the documents for agents: YAML between two lines of dashes. */
export function frontMatter(description: ServerDescription): string {
  const { links, emoji, contentVersion, changedAt } = description
  const install = installationOf(description)
  const [endpoint, ...others] = Object.values(endpointsOf(description))
  const found: Readonly<Record<string, Yaml | undefined>> = {
    name: description.name,
    description: description.description,
    'spec-url': specUrl,
    'spec-version': specVersion,
    'access-level': description.accessLevel,
    'cli-url': links.cli ?? 'none',
    'api-url': links.api ?? 'none',
    'web-url': links.web ?? 'none',
    'mcp-url': endpoint === undefined ? 'none' : others.length > 0 ? [endpoint, ...others] : endpoint,
    install: Object.keys(install).length > 0 ? install : undefined,
    requires: needsOf(description),
    invocation: { 'model-invocable': true, 'user-invocable': true },
    homepage: links.homepage,
    repository: links.repository,
    'status-page': links.statusPage,
    'content-version': contentVersion === '' ? undefined : contentVersion,
    'last-updated': changedAt === undefined ? undefined : dayOf(changedAt),
    emoji,
  }
  return fenced(found)
}

/** Front matter with the defined members; the description is folded over several lines unless it must be on one. */
function fenced(
  members: Readonly<Record<string, Yaml | undefined>>,
  folded: readonly string[] = ['description'],
): string {
  const known: Record<string, Yaml> = {}
  for (const [key, value] of Object.entries(members)) if (value !== undefined) known[key] = tidy(value)
  return `---\n${toYaml(known, folded)}---\n`
}

/** The same with every text on one line, without invisible characters. */
function tidy(value: Yaml): Yaml {
  if (typeof value === 'boolean') return value
  if (typeof value === 'string') return oneLine(value)
  if (Array.isArray(value)) return value.map(oneLine)
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [oneLine(key), tidy(each)]))
}

/** A value in front matter. */
type Yaml = string | boolean | readonly string[] | { readonly [key: string]: Yaml }

/** The line length of a folded text. */
const LINE_WIDTH = 100

/** A mapping as YAML, in the order of its keys. Texts of the folded keys span several lines. */
export function toYaml(map: Readonly<Record<string, Yaml>>, folded: readonly string[] = []): string {
  return Object.entries(map)
    .map(([key, value]) => {
      const isFolded = typeof value === 'string' && folded.includes(key) && canFold(value)
      return isFolded ? `${scalar(key)}: >-\n${fold(value)}\n` : member(key, value, '')
    })
    .join('')
}

function member(key: string, value: Yaml, indent: string): string {
  const start = `${indent}${scalar(key)}:`
  if (typeof value === 'boolean') return `${start} ${value}\n`
  if (typeof value === 'string') return `${start} ${scalar(value)}\n`
  const deeper = `${indent}  `
  if (isObject(value)) {
    const members = Object.entries(value).map(([name, each]) => member(name, each, deeper))
    return members.length === 0 ? `${start} {}\n` : `${start}\n${members.join('')}`
  }
  if (value.length === 0) return `${start} []\n`
  return `${start}\n${value.map((each) => `${deeper}- ${scalar(each)}\n`).join('')}`
}

// Words that some YAML parsers do not read as strings.
const reserved = /^(?:true|false|yes|no|on|off|null|y|n)$/i
const plain = /^[a-z][\w.]*(?:[/-][\w.]+)*$/i
const version = /^\d+\.\d+\.\d+$/
const url = /^https?:\/\/[\w.~/?&=%+-]+(?::\d+)?(?:\/[\w.~/?&=%+-]*)?$/i

function scalar(text: string): string {
  const isPlain = (plain.test(text) && !reserved.test(text)) || version.test(text) || url.test(text)
  return isPlain ? text : escapeHidden(JSON.stringify(text))
}

/** Folds a text whose words are separated by single spaces: folding joins lines with one space. */
function canFold(text: string): boolean {
  return /^[!-~\u00A1-\uFFFD]+(?: [!-~\u00A1-\uFFFD]+)*$/.test(text) && escapeHidden(text) === text
}

function fold(text: string): string {
  const lines: string[] = []
  let line = ''
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + word.length >= LINE_WIDTH) {
      lines.push(line)
      line = word
    } else line = line === '' ? word : `${line} ${word}`
  }
  return [...lines, line].map((each) => `  ${each}`).join('\n')
}
