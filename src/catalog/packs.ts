/**
 * Packs: what people found when they read the tools of well-known servers.
 *
 * A pack belongs to definitions, not to names: an entry is found by the hash of the whole definition that a server
 * lists, so it never applies to a tool that says anything else of itself. As any server can list the same definition,
 * a pack makes a tool worse for every server, and better only for one that is trusted. `scripts/write-packs.ts` adds
 * the hashes of further versions.
 */
import { hash } from 'node:crypto'
import { canonical } from '../core/json.ts'
import { type Effect, effectRanks } from '../core/judgement/evidence.ts'
import type { Judgement } from '../core/judgement/judge.ts'
import chromeDevtools from './packs/chrome-devtools.json' with { type: 'json' }
import notion from './packs/notion.json' with { type: 'json' }
import playwright from './packs/playwright.json' with { type: 'json' }

type PackedDefinition = Readonly<Record<string, unknown>>

/** A file of `packs/`. */
export interface Pack {
  /** The package the definitions were listed by. */
  readonly package: string
  readonly tools: Readonly<Record<string, PackedTool>>
}

/** What is known of a tool, and the hashes of the definitions it is known of. */
interface PackedTool {
  readonly effect: string
  /** Why, for people: a short clause. */
  readonly why: string
  readonly definitions: readonly string[]
}

interface Known {
  readonly effect: Effect
  readonly text: string
}

/** The judgement of a tool in the light of what is known of its definition. */
export function withPack(found: Judgement, definition: PackedDefinition, isTrusted: boolean): Judgement {
  const known = knownOf(definition)
  if (!known) return found
  const { effect, text } = known
  if (!isTrusted && effectRanks[effect] < effectRanks[found.effect]) {
    return { ...found, evidence: [...found.evidence, `${text}, which does not count here (trust is off)`] }
  }
  const { verb: _decisive, ...rest } = found
  return { ...rest, effect, least: effect, conditions: [], evidence: [text, ...found.evidence] }
}

/** By what the definition of a tool is known: everything in it that says what the tool does. */
export function definitionHash(definition: PackedDefinition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition
  const said = { name, title, description, inputSchema, outputSchema, annotations }
  return hash('sha256', canonical(JSON.parse(JSON.stringify(said)))).slice(0, HASH_CHARACTERS)
}

/** 128 bits: nobody finds another definition with the same hash. */
const HASH_CHARACTERS = 32

function knownOf(definition: PackedDefinition): Known | undefined {
  const named = known.get(String(definition.name))
  return named?.get(definitionHash(definition))
}

/** By name first: most tools are not hashed at all. */
const known = new Map<string, Map<string, Known>>()
for (const { package: from, tools } of [chromeDevtools, notion, playwright] satisfies readonly Pack[]) {
  for (const [name, { effect, why, definitions }] of Object.entries(tools)) {
    if (!isEffect(effect)) throw new TypeError(`${from} ${name}: ${effect} is no effect`)
    const byHash = known.get(name) ?? new Map<string, Known>()
    for (const each of definitions) byHash.set(each, { effect, text: `it is known from ${from}: it ${why}` })
    known.set(name, byHash)
  }
}

function isEffect(word: string): word is Effect {
  return Object.hasOwn(effectRanks, word)
}
