/**
 * What kind of action a tool is: what the configuration says of it, else what is known of its very definition, else
 * what `core/judgement` finds.
 *
 * The configuration always wins; the judgement keeps its evidence, so that `gatehouse explain` can print it.
 */
import type { Classification, Operation, Risk } from '../core/entry.ts'
import { isObject } from '../core/json.ts'
import { opOfEffect, riskOfEffect } from '../core/judgement/call.ts'
import { judge, type Judgement } from '../core/judgement/judge.ts'
import { verbClass } from '../core/judgement/lexicon.ts'
import { leadingVerb } from '../core/judgement/words.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { settingOf } from '../core/tool-settings.ts'
import { withPack } from './packs.ts'

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
  const isSaid = configured.op !== undefined || configured.risk !== undefined
  return { op, risk, idempotent, evidence, ...(!isSaid && varying(found)) }
}

/** Judges a tool of a server that does not list its tools: a name alone promises nothing. */
export function classifyUnlisted(definition: Definition, settings: UpstreamSettings): Classification {
  const evidence = ['its server does not list its tools, so nothing says what it does']
  return classify(definition, settings, {
    effect: 'destructive',
    least: 'destructive',
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

function varying({ least, conditions, dryRun, verb }: Judgement): Pick<Classification, 'varies' | 'verb'> {
  const decided = verb !== undefined && { verb }
  if (conditions.length === 0 && dryRun === undefined) return { ...decided }
  return { ...decided, varies: { least, conditions, ...(dryRun !== undefined && { dryRun }) } }
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
