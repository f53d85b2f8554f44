/**
 * Packs: what is known about exact definitions of tools, from a review or from a proof by `gatehouse prove`. A pack
 * applies to definitions, not to names: an entry is found by the hash of a complete listed definition, so it never applies
 * to a tool that describes itself differently.
 */
import { hash } from 'node:crypto'
import { messageOf } from './error.ts'
import { canonical, isObject } from './json/json.ts'
import type { UndoSettings } from './undo/expression.ts'
import { type Claim, type Proof, type ProvedSettings, type ProvedTool, claims } from './proof.ts'
import { readUndo } from './undo/rules.ts'
import { parseJson } from './json/read.ts'

type Definition = Readonly<Record<string, unknown>>

/** A file of packs. */
export interface Pack {
  /** The package that lists the definitions. */
  readonly package: string
  readonly tools: Readonly<Record<string, PackedTool>>
}

/** What is known about a tool, and the hashes of the definitions it applies to. */
export interface PackedTool {
  readonly definitions: readonly string[]
  /** The reviewed effect, and the reason for people: a short clause. */
  readonly effect?: string
  readonly why?: string
  /** The settings that were proved, and the proof. */
  readonly settings?: ProvedSettings
  readonly proof?: Proof
  /** The hashes of the definitions of the tools that the settings call. */
  readonly uses?: Readonly<Record<string, readonly string[]>>
}

/** The hash that identifies the definition of a tool: of everything that describes the tool. */
export function definitionHash(definition: Definition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition
  const describedFields = { name, title, description, inputSchema, outputSchema, annotations }
  return hash('sha256', canonical(parseJson(JSON.stringify(describedFields)))).slice(0, HASH_CHARACTERS)
}

/** 128 bits: a second definition with the same hash cannot be constructed. */
const HASH_CHARACTERS = 32

/** The proofs of packs, by name of the tool, for `provedIn`. */
export type ProofIndex = ReadonlyMap<string, readonly (readonly [PackedTool, ProvedTool])[]>

/** Indexes the proofs of packs by name first: most tools need no hash at all. */
export function proofIndex(packs: readonly Pack[]): ProofIndex {
  const entries = packs.flatMap(({ tools }) =>
    Object.entries(tools).flatMap(([name, tool]) => {
      const { settings, proof, uses = {} } = tool
      return settings && proof ? [{ name, entry: [tool, { settings, proof, uses }] as const }] : []
    }),
  )
  const byName = Map.groupBy(entries, ({ name }) => name)
  return new Map([...byName].map(([name, found]) => [name, found.map(({ entry }) => entry)]))
}

/** The proof of exactly this definition; `'other'` if there is only one of another definition of this name. */
export function provedIn(index: ProofIndex, definition: Definition): ProvedTool | 'other' | undefined {
  const named = index.get(String(definition.name))
  if (!named) return undefined
  const own = definitionHash(definition)
  return named.find(([{ definitions }]) => definitions.includes(own))?.[1] ?? 'other'
}

/** Why a proof does not apply: a tool that its settings call has changed. Undefined if it applies. */
export function changedTool({ uses }: ProvedTool, definitions: readonly Definition[]): string | undefined {
  for (const [name, hashes] of Object.entries(uses)) {
    const found = definitions.find((definition) => definition.name === name)
    if (!found || !hashes.includes(definitionHash(found)))
      return `${name}, which it calls, is not as it was then`
  }
  return undefined
}

/** A proof for people: `proved on 2026-11-26 with memory-server 0.6.3: undo, once; refuted: verify`. */
export function proofText({ date, server, version, proved, refuted }: Proof): string {
  const [verdict, claimed] = proved.length > 0 ? ['proved', proved] : ['refuted', refuted]
  const text = `${verdict} on ${date} with ${server} ${version}: ${claimed.join(', ')}`
  return proved.length > 0 && refuted.length > 0 ? `${text}; refuted: ${refuted.join(', ')}` : text
}

/** Reads the text of a pack. @throws Error that names the place and what is wrong */
export function parsePack(text: string, file: string): Pack {
  let value: unknown
  try {
    value = parseJson(text)
  } catch {
    throw new Error(`${file} is not JSON. Write packs with gatehouse prove -o FILE`)
  }
  const complain = (place: string, what: string): Error => new Error(`${file}: ${place} ${what}`)
  if (!isObject(value) || !isObject(value.tools))
    throw complain('tools', 'is missing: a pack is an object with package and tools')
  if (typeof value.package !== 'string') throw complain('package', 'must be a text')
  const tools = Object.entries(value.tools).map(
    ([name, tool]) => [name, readTool(tool, (what) => complain(`tools.${name}`, what))] as const,
  )
  return { package: value.package, tools: Object.fromEntries(tools) }
}

type Complain = (what: string) => Error

function readTool(tool: unknown, complain: Complain): PackedTool {
  if (!isObject(tool)) throw complain('must be an object')
  const { definitions, settings, proof, uses = {} } = tool
  if (!isTexts(definitions)) throw complain('needs definitions, a list of hashes')
  if (!isObject(settings) || !isObject(proof)) return { definitions }
  if (!isObject(uses) || !Object.values(uses).every(isTexts)) throw complain('has uses that are no lists')
  const hashes = Object.entries(uses).map(([name, list]) => [name, isTexts(list) ? list : []] as const)
  return {
    definitions,
    settings: readSettings(settings, complain),
    proof: readProof(proof, complain),
    uses: Object.fromEntries(hashes),
  }
}

function readSettings({ undo, verify, idempotent, pivot }: Definition, complain: Complain): ProvedSettings {
  if (verify !== undefined && typeof verify !== 'string') throw complain('has a verify that is no text')
  if (![idempotent, pivot].every((each) => each === undefined || typeof each === 'boolean'))
    throw complain('has an idempotent or pivot that is neither true nor false')
  const rule = undo === undefined ? undefined : readRule(undo, complain)
  return {
    ...(rule !== undefined && { undo: rule }),
    ...(verify !== undefined && { verify }),
    ...(typeof idempotent === 'boolean' && { idempotent }),
    ...(typeof pivot === 'boolean' && { pivot }),
  }
}

function readRule(written: unknown, complain: Complain): string | UndoSettings {
  const isTextual = isObject(written)
    ? Object.entries(written).every(
        ([key, value]) => typeof value === (key === 'exact' ? 'boolean' : 'string'),
      )
    : typeof written === 'string'
  if (!isTextual) throw complain('has an undo that is neither a call nor an object of calls')
  // The members are texts, and `exact` is a boolean; readUndo checks which of them are there.
  const rule = written as string | UndoSettings
  try {
    readUndo(rule)
  } catch (error) {
    throw complain(`has an undo that cannot be used: ${messageOf(error)}`)
  }
  return rule
}

function readProof(proof: Definition, complain: Complain): Proof {
  const { date, server, version, gatehouse, proved, refuted, caveats } = proof
  const isComplete = [date, server, version, gatehouse].every((each) => typeof each === 'string')
  if (!isComplete || !isTexts(proved) || !isTexts(refuted))
    throw complain('has a proof without date, server, version, gatehouse, proved or refuted')
  const claimed = (list: readonly string[]): Claim[] => claims.filter((claim) => list.includes(claim))
  return {
    date: String(date),
    server: String(server),
    version: String(version),
    gatehouse: String(gatehouse),
    proved: claimed(proved),
    refuted: claimed(refuted),
    ...(isTexts(caveats) && { caveats }),
  }
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string')
}
