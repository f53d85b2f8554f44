/**
 * What kind of action a tool is: the settings, then what is known of the server's package, then the judgement
 * of its definition.
 */
import { hash } from 'node:crypto'
import type { Classification, Operation, Risk } from '../core/descriptor.ts'
import { isObject, canonical } from '../core/json/json.ts'
import { opOfEffect, riskOfEffect, judge, type Judgement } from '../core/judgement/judge.ts'
import { verbClass, type Effect, effectRanks } from '../core/judgement/lexicon.ts'
import { leadingVerb } from '../core/judgement/words.ts'
import { type UpstreamSettings, settingOf } from '../core/settings.ts'
import chromeDevtools from './packs/chrome-devtools.json' with { type: 'json' }
import notion from './packs/notion.json' with { type: 'json' }
import playwright from './packs/playwright.json' with { type: 'json' }

// What kind of action a tool is: what the configuration says of it, else what is known of its very definition, else
// what `core/judgement` finds.
// The configuration always wins; the judgement keeps its evidence, so that `gatehouse explain` can print it.

type Definition = Readonly<Record<string, unknown>>

/** Judges a tool of a server. */
export function classify(
  definition: Definition,
  settings: UpstreamSettings,
  judged: Judgement = judge(definition, { server: settings.name, isTrusted: settings.trust }),
): Classification {
  const configured = readConfigured(settings, String(definition.name))
  const found = withPack(judged, definition, settings.trust)
  const op = configured.op ?? opOfEffect(found.effect, found.verb)
  const risk = configured.risk ?? (configured.op ? riskOfOp[configured.op] : riskOfEffect[found.effect])
  const idempotent = configured.idempotent ?? isIdempotent(op, definition, settings.trust)
  const evidence = [...configured.evidence, ...found.evidence]
  // What the owner of a server says holds for all calls of a tool.
  const isConfigured = configured.op !== undefined || configured.risk !== undefined
  return { op, risk, idempotent, evidence, ...(!isConfigured && varying(found)) }
}

/** Judges a tool of a server that does not list its tools: a name alone promises nothing. */
export function classifyUnlisted(definition: Definition, settings: UpstreamSettings): Classification {
  const evidence = ['its server does not list its tools, so nothing says what it does']
  return classify(definition, settings, {
    effect: 'destructive',
    baseEffect: 'destructive',
    conditions: [],
    evidence,
  })
}

/** Judges a tool of the gateway itself, which is believed. */
export function classifyBuiltin(definition: Definition): Classification {
  const { effect, evidence, verb } = judge(definition, { server: '', isTrusted: true })
  const hints = isObject(definition.annotations) ? definition.annotations : {}
  const isRead = hints.readOnlyHint === true
  const op = isRead ? 'read' : opOfEffect(effect, verb)
  return {
    op,
    risk: isRead ? 'safe' : riskOfEffect[effect],
    idempotent: isIdempotent(op, definition, true),
    evidence,
  }
}

/** The verb a tool's name begins with, after its server's own name, and what kind of action it stands for. */
export function verbOf(
  name: string,
  server: string,
): { readonly verb: string; readonly op: Operation } | undefined {
  const verb = leadingVerb(name, server)
  const kind = verb === undefined ? undefined : verbClass(verb)
  if (verb === undefined || kind === undefined) return undefined
  return { verb, op: kind === 'session' ? 'write' : opOfClass[kind] }
}

const opOfClass = {
  read: 'read',
  write: 'write',
  soft: 'delete',
  destructive: 'delete',
  outward: 'write',
  admin: 'admin',
  execute: 'execute',
} as const

const riskOfOp: Readonly<Record<Operation, Risk>> = {
  read: 'safe',
  write: 'reversible',
  delete: 'destructive',
  admin: 'destructive',
  execute: 'destructive',
}

function varying({
  baseEffect: least,
  conditions,
  dryRun,
  verb,
}: Judgement): Pick<Classification, 'varies' | 'verb'> {
  const decided = verb !== undefined && { verb }
  if (conditions.length === 0 && dryRun === undefined) return { ...decided }
  return { ...decided, varies: { baseEffect: least, conditions, ...(dryRun !== undefined && { dryRun }) } }
}

interface Configured {
  readonly op?: Operation
  readonly risk?: Risk
  readonly idempotent?: boolean
  readonly evidence: readonly string[]
}

function readConfigured({ tools }: UpstreamSettings, name: string): Configured {
  const op = settingOf(tools, name, 'op')
  const risk = settingOf(tools, name, 'risk')
  const idempotent = settingOf(tools, name, 'idempotent')
  const evidence = Object.entries({ op, risk, idempotent }).flatMap(([key, found]) =>
    found === undefined ? [] : [`the configuration says ${key}: ${found.value} for ${found.glob}`],
  )
  return {
    ...(op && { op: op.value }),
    ...(risk && { risk: risk.value }),
    ...(idempotent && { idempotent: idempotent.value }),
    evidence,
  }
}

function isIdempotent(op: Operation, { annotations }: Definition, isTrusted: boolean): boolean {
  const { readOnlyHint, idempotentHint } = isObject(annotations) ? annotations : {}
  if (op === 'execute') return false
  if (isTrusted && idempotentHint === true) return true
  return op === 'read' && (idempotentHint !== false || (isTrusted && readOnlyHint === true))
}

// Packs: what people found when they read the tools of well-known servers.
// A pack belongs to definitions, not to names: an entry is found by the hash of the whole definition that a server
// lists, so it never applies to a tool that says anything else of itself. As any server can list the same definition,
// a pack makes a tool worse for every server, and better only for one that is trusted. `scripts/write-packs.ts` adds
// the hashes of further versions.

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
  return { ...rest, effect, baseEffect: effect, conditions: [], evidence: [text, ...found.evidence] }
}

/** By what the definition of a tool is known: everything in it that says what the tool does. */
export function definitionHash(definition: PackedDefinition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition
  const describedFields = { name, title, description, inputSchema, outputSchema, annotations }
  return hash('sha256', canonical(JSON.parse(JSON.stringify(describedFields)))).slice(0, HASH_CHARACTERS)
}

/** 128 bits: a second definition with the same hash cannot be found. */
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
