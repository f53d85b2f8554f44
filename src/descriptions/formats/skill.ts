/** SKILL.md (Agent Skills). */
import { hash } from 'node:crypto'
import { self } from '../../core/identity.ts'
import { specVersion } from './dashdash.ts'
import { endpointsOf } from '../model/facts.ts'
import { fenced } from './front-matter.ts'
import { clientSnippet } from '../sections/access.ts'
import type { ServerDescription } from '../model/description.ts'
import { bestPractices } from '../sections/practices.ts'
import { quickReference } from '../sections/reference.ts'
import { whenToUse } from '../sections/sections.ts'
import { bullets, code, inline, jsonBlock, listed, sentence } from '../model/text.ts'

/** A file that tells how and when to use a server. */
export interface SkillFile {
  readonly text: string
  /** What its front matter says. */
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
    `# ${inline(`${emoji} ${title}`)}`,
    inline(purpose),
    `## When to Use\n\n${whenToUse(server).markdown}`,
    `## Quick Reference\n\n${quickReference(server)}`,
    `## Setup\n\n${setup(server)}`,
    `## Rules\n\n${bullets(rules(server))}`,
    more(server),
  ]
  const text = `${fenced(frontmatter, [])}\n${body.filter((part) => part !== '').join('\n\n')}\n`
  return { text, frontmatter }
}

/** What tells a file apart from any other: the SHA-256 of its bytes, and how many they are. */
export function stampOf(text: string): { readonly digest: string; readonly size: number } {
  const bytes = Buffer.from(text)
  return { digest: `sha256:${hash('sha256', bytes)}`, size: bytes.length }
}

/** Where a skill stands among the resources of an MCP server. */
export function skillUri(server: Pick<ServerDescription, 'name'>): string {
  return `skill://${skillName(server)}/SKILL.md`
}

/** The name of a skill, which is that of its folder too: words with one hyphen between them. */
export function skillName({ name }: Pick<ServerDescription, 'name'>): string {
  const plain = name.replaceAll(/-+/g, '-').replace(/-$/, '')
  // Another server may be called what is left of this name.
  return plain === name ? name : `${plain}-${hash('sha256', name).slice(0, 6)}`
}

function setup(server: ServerDescription): string {
  const snippet = jsonBlock(clientSnippet(server))
  const [[name, url] = [], ...others] = Object.entries(endpointsOf(server))
  if (others.length > 0)
    return `Each server has an MCP endpoint of its own. Where its tools are missing, add it to the MCP client:\n\n${snippet}`
  const at = url === undefined ? 'the gateway, started by the client' : `the MCP endpoint ${inline(url)}`
  return `The tools are those of ${at}. Where they are missing, add it to the MCP client as ${code(name ?? server.name)}:\n\n${snippet}`
}

function rules(server: ServerDescription): string[] {
  const { front } = server
  const retry =
    'Try again only after errors of the category `transient` or `rate_limited`, and not before `retry_after_seconds` have passed.'
  return [
    // The guide is named at the end.
    ...bestPractices({ ...server, front: { ...front, isHelpListed: false } }),
    ...(front.rates.length > 0 ? [`At most ${listed(front.rates.map(inline))} for each caller.`] : []),
    ...front.limits.map((limit) => sentence(inline(limit))),
    retry,
  ]
}

function more({ front }: ServerDescription): string {
  if (!front.isHelpListed) return ''
  return 'For parameters, errors and examples call `ai_help`; with `section` set to the name of a tool it tells of that tool alone.'
}
