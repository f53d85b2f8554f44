import type { Nature, Op, Risk } from '../core/entry.ts'
import { isObject } from '../core/json.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { settingOf } from '../core/tool-settings.ts'
import { opOfVerb } from '../core/verbs.ts'
import { wordsOf } from '../core/words.ts'

/** What kind of action a tool is, from what the configuration, its annotations and its name say. */
export function classify(definition: Readonly<Record<string, unknown>>, settings: UpstreamSettings): Nature {
  const name = String(definition.name)
  const hints = isObject(definition.annotations) ? definition.annotations : {}
  const configured = readConfigured(settings, name)
  const named = byVerb(name, settings.name)
  const told = byHints(named, hints, settings.trust)
  const op = configured.op ?? told.op
  const risk = configured.risk ?? (configured.op === undefined ? told.risk : riskOf[configured.op])
  const idempotent = configured.idempotent ?? isIdempotent(op, hints, settings.trust)
  const evidence = [...configured.evidence, ...told.evidence, ...named.evidence]
  return { op, risk, idempotent, evidence }
}

/** What kind of action a tool of the gateway itself is. */
export function classifyOwn(definition: Readonly<Record<string, unknown>>): Nature {
  const hints = isObject(definition.annotations) ? definition.annotations : {}
  const { op, risk, evidence } = byHints(byVerb(String(definition.name), ''), hints, true)
  return { op, risk, idempotent: isIdempotent(op, hints, true), evidence }
}

interface Finding {
  readonly op: Op
  readonly risk: Risk
  readonly evidence: readonly string[]
}

const riskOf: Readonly<Record<Op, Risk>> = {
  read: 'safe',
  write: 'reversible',
  delete: 'destructive',
  admin: 'destructive',
}

interface Configured {
  readonly op?: Op
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

/** The verb a tool's name begins with, after the server's own name, and what kind of action it stands for. */
export function verbOf(name: string, server: string): { readonly verb: string; readonly op: Op } | undefined {
  const [verb = ''] = withoutServer(wordsOf(name), wordsOf(server))
  const op = opOfVerb(verb)
  return op && { verb, op }
}

function byVerb(name: string, server: string): Finding {
  const found = verbOf(name, server)
  if (!found) {
    return { op: 'write', risk: 'reversible', evidence: ['its name begins with no known verb: write'] }
  }
  const { verb, op } = found
  return { op, risk: riskOf[op], evidence: [`its name begins with the verb "${verb}": ${op}`] }
}

function withoutServer(words: readonly string[], server: readonly string[]): readonly string[] {
  const isPrefixed = words.length > server.length && server.every((word, index) => words[index] === word)
  return isPrefixed ? words.slice(server.length) : words
}

type Hints = Readonly<Record<string, unknown>>

/** What a server that is not trusted says of itself can make its tool more of a risk, never less. */
function byHints({ op, risk }: Finding, hints: Hints, isTrusted: boolean): Finding {
  const { readOnlyHint, destructiveHint } = hints
  if (readOnlyHint === true && isTrusted) {
    return { op: 'read', risk: 'safe', evidence: ['its server says readOnlyHint: true'] }
  }
  const doubt =
    readOnlyHint === true && op !== 'read'
      ? ['its server says readOnlyHint: true, which is not believed (trust is off)']
      : []
  if (destructiveHint === true) {
    const evidence = [...doubt, 'its server says destructiveHint: true']
    return { op: op === 'read' ? 'write' : op, risk: 'destructive', evidence }
  }
  if (readOnlyHint === false && op === 'read') {
    return { op: 'write', risk: 'reversible', evidence: ['its server says readOnlyHint: false'] }
  }
  if (destructiveHint !== false || risk !== 'destructive') return { op, risk, evidence: doubt }
  if (isTrusted) return { op, risk: 'reversible', evidence: ['its server says destructiveHint: false'] }
  const evidence = [...doubt, 'its server says destructiveHint: false, which is not believed (trust is off)']
  return { op, risk, evidence }
}

function isIdempotent(op: Op, { readOnlyHint, idempotentHint }: Hints, isTrusted: boolean): boolean {
  if (isTrusted && (readOnlyHint === true || idempotentHint === true)) return true
  return op === 'read' && idempotentHint !== false
}
