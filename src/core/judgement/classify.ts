/**
 * Classifies tools: by the settings, then by the pack of the server's package, then by the judgement of the definition.
 */
import type { Classification, Operation, Risk } from '../descriptor.ts'
import { asObject } from '../json/json.ts'
import { opOfEffect, riskOfEffect } from './call.ts'
import { type Effect, effectRanks } from './evidence.ts'
import { judge, type Judgement } from './judge.ts'
import { verbClass } from './lexicon.ts'
import type { Surroundings } from './surroundings.ts'
import { leadingVerb } from './words.ts'
import { definitionHash, type Pack, parsePack, proofIndex, provedIn } from '../pack.ts'
import { type UpstreamSettings, settingOf } from '../settings.ts'
import { statedTool } from '../stated-tool.ts'
import chromeDevtools from './packs/chrome-devtools.json' with { type: 'json' }
import notion from './packs/notion.json' with { type: 'json' }
import playwright from './packs/playwright.json' with { type: 'json' }
import type { ProvedTool } from '../proof.ts'
import filesystem from './packs/filesystem.json' with { type: 'json' }
import memory from './packs/memory.json' with { type: 'json' }
import redis from './packs/redis.json' with { type: 'json' }

// The classification of a tool: its configuration, else the pack entry of exactly this definition, else the result of
// `core/judgement`. The configuration always wins; the judgement keeps its evidence for `gatehouse explain`.

type Definition = Readonly<Record<string, unknown>>

/** Classifies a tool of a server; `around` is what the list says that it is in. */
export function classify(
  definition: Definition,
  settings: UpstreamSettings,
  around?: Surroundings,
): Classification {
  const context = { server: settings.name, isTrusted: settings.trust, ...(around && { around }) }
  return classified(definition, settings, judge(definition, context))
}

function classified(definition: Definition, settings: UpstreamSettings, judged: Judgement): Classification {
  const { tools, trust } = settings
  const name = String(definition.name)
  const configured = {
    op: settingOf(tools, name, 'op'),
    risk: settingOf(tools, name, 'risk'),
    idempotent: settingOf(tools, name, 'idempotent'),
  }
  const found = withPack(judged, definition, trust)
  const op = configured.op?.value ?? opOfEffect(found.effect, found.verb)
  const risk = configured.op ? riskOfOp[op] : riskOfEffect[found.effect]
  const hinted = isIdempotent(op, found.ignoresHints ? {} : definition, trust)
  const evidence = Object.entries(configured).flatMap(([key, set]) =>
    set ? [`the configuration sets ${key}: ${set.value} for ${set.glob}`] : [],
  )
  // The owner's settings apply to all calls of a tool.
  const isConfigured = configured.op !== undefined || configured.risk !== undefined
  return {
    op,
    risk: configured.risk?.value ?? risk,
    idempotent: configured.idempotent?.value ?? hinted,
    evidence: [...evidence, ...found.evidence],
    ...(!isConfigured && varying(found)),
  }
}

/** Classifies a tool of a server that does not list its tools: a name alone guarantees nothing. */
export function classifyUnlisted(definition: Definition, settings: UpstreamSettings): Classification {
  const evidence = ['its server does not list its tools, so nothing describes what it does']
  return classified(definition, settings, {
    effect: 'destructive',
    baseEffect: 'destructive',
    conditions: [],
    evidence,
  })
}

/** Classifies a built-in tool, which is trusted. */
export function classifyBuiltin(definition: Definition): Classification {
  const { effect, evidence, verb } = judge(definition, { server: '', isTrusted: true })
  const hints = asObject(definition.annotations)
  const isRead = hints.readOnlyHint === true
  const op = isRead ? 'read' : opOfEffect(effect, verb)
  return {
    op,
    risk: isRead ? 'safe' : riskOfEffect[effect],
    idempotent: isIdempotent(op, definition, true),
    evidence,
  }
}

/** The verb a tool's name begins with, after the name of its server, and its kind of action. */
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

function varying(judged: Judgement): Pick<Classification, 'varies' | 'verb'> {
  const { effect: _worst, evidence: _evidence, ignoresHints: _ignores, verb, ...varies } = judged
  const { conditions, choice, dryRun } = varies
  const isVarying = conditions.length > 0 || choice !== undefined || dryRun !== undefined
  return { ...(verb !== undefined && { verb }), ...(isVarying && { varies }) }
}

function isIdempotent(op: Operation, definition: Definition, isTrusted: boolean): boolean {
  const { annotations } = definition
  const { readOnlyHint, idempotentHint } = asObject(annotations)
  const { idempotent } = statedTool(definition)
  if (op === 'execute' || idempotent === false) return false
  if (isTrusted && idempotent === true) return true
  if (isTrusted && idempotentHint === true) return true
  return op === 'read' && (idempotentHint !== false || (isTrusted && readOnlyHint === true))
}

// Packs: reviewed classifications of tools of well-known servers. A pack applies to definitions, not to names: an entry
// is found by the hash of a complete listed definition, so it never applies to a tool that describes itself
// differently. Because any server can list the same definition, a pack raises the risk of a tool for every server, and
// lowers it only for a trusted one. `scripts/write-packs.ts` adds the hashes of further versions.

type PackedDefinition = Readonly<Record<string, unknown>>

interface Known {
  readonly effect: Effect
  readonly text: string
}

/** The judgement of a tool combined with the pack entry of its definition. */
export function withPack(found: Judgement, definition: PackedDefinition, isTrusted: boolean): Judgement {
  const known = knownOf(definition)
  if (!known) return found
  const { effect, text } = known
  if (!isTrusted && effectRanks[effect] < effectRanks[found.effect]) {
    return { ...found, evidence: [...found.evidence, `${text}, which is ignored (trust is off)`] }
  }
  const { verb: _decisive, choice: _choice, dryRun: _dryRun, ...rest } = found
  return { ...rest, effect, baseEffect: effect, conditions: [], evidence: [text, ...found.evidence] }
}

function knownOf(definition: PackedDefinition): Known | undefined {
  const named = known.get(String(definition.name))
  return named?.get(definitionHash(definition))
}

/** By name first: most tools need no hash at all. */
const known = new Map<string, Map<string, Known>>()
for (const { package: from, tools } of [chromeDevtools, notion, playwright] satisfies readonly Pack[]) {
  for (const [name, { effect, why, definitions }] of Object.entries(tools)) {
    if (!isEffect(effect)) throw new TypeError(`${from} ${name}: ${effect} is not an effect`)
    const byHash = known.get(name) ?? new Map<string, Known>()
    for (const definition of definitions)
      byHash.set(definition, { effect, text: `it is known from ${from}: it ${why}` })
    known.set(name, byHash)
  }
}

function isEffect(word: string): word is Effect {
  return Object.hasOwn(effectRanks, word)
}

/*
 * The proofs of the packs that are part of the gateway, by exact definition. They count for trusted servers only: any
 * server can list the same definition.
 */

const packs = [filesystem, memory, redis].map((pack) => parsePack(JSON.stringify(pack), pack.package))

const index = proofIndex(packs)

/** Whether something may be proved about a tool, by its name. */
export function mayBeProved(name: string): boolean {
  return index.has(name)
}

/** What is proved about a definition, for a trusted server. */
export function provedOf(
  definition: Readonly<Record<string, unknown>>,
  isTrusted: boolean,
): ProvedTool | undefined {
  const found = isTrusted ? provedIn(index, definition) : undefined
  return found === 'other' ? undefined : found
}
