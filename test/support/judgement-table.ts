/**
 * The judge of tools against labels that people gave: how often it agrees, and where it errs.
 *
 * A call is asked about by default where its tool is destructive or executes; calls that use none of a tool's optional
 * arguments are compared with `baseEffect`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { classify } from '../../src/core/judgement/classify.ts'
import type { Risk } from '../../src/core/descriptor.ts'
import { asCalled } from '../../src/core/judgement/call.ts'
import { judge, type Judgement } from '../../src/core/judgement/judge.ts'
import { surroundingsOf } from '../../src/core/judgement/surroundings.ts'
import { Payload } from '../../src/core/payload.ts'
import { serverSettings } from './server-settings.ts'

/** What a person says that a tool does. `harmless` changes only the caller's own passing session. */
export type Label = 'read' | 'harmless' | 'write' | 'destructive' | 'execute'

/** A server's tools as the judge sees them, with their labels. */
export interface LabelledServer {
  readonly server: string
  readonly package: string
  readonly version?: string
  readonly tools: readonly {
    readonly label: Label
    readonly reason: string
    readonly definition: Readonly<Record<string, unknown>>
  }[]
  /** Calls whose arguments decide, with what a person says of them. */
  readonly calls?: readonly LabelledCall[]
}

/** A call, and what a person says that it does. */
export interface LabelledCall {
  readonly tool: string
  readonly label: Label
  readonly arguments: Readonly<Record<string, unknown>>
}

/** One tool, judged. */
export interface Verdict {
  readonly server: string
  readonly tool: string
  readonly label: Label
  readonly judgement: Judgement
  /** The worst call of it is asked about by default. */
  readonly isAsked: boolean
  /** So is a call that uses no argument it could leave out. */
  readonly isAlwaysAsked: boolean
}

/** How much the judge may err on servers it was not built on. */
export const limits = { overAsked: 0.08 }

/**
 * Tools of which nothing that their servers list says what they do; only their source does. A pack or the
 * configuration can say it.
 */
const beyondTheList: ReadonlySet<string> = new Set([
  // Connects with a database user that it makes, and says readOnlyHint: true.
  'mongodb atlas-connect-cluster',
  // Deploys a program of the caller, and says destructiveHint: false.
  'mongodb atlas-streams-build',
  // Takes management commands too, in a language that can mostly read, and says readOnlyHint: true.
  'azure-all kusto_query',
  // Points a table at another state as a whole.
  's3-tables update_table_metadata_location',
])

/** Reads the labelled servers of a folder. */
export function labelledServers(folder: string): LabelledServer[] {
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .toSorted()
    .map((file): LabelledServer => JSON.parse(readFileSync(join(folder, file), 'utf8')))
}

/** Judges all tools of labelled servers. */
export function verdictsOf(servers: readonly LabelledServer[], isTrusted: boolean): Verdict[] {
  return servers.flatMap(({ server, tools }) => {
    const around = surroundingsOf(tools.map(({ definition }) => definition))
    return tools.map(({ label, definition }) => {
      const judgement = judge(definition, { server, isTrusted, around })
      const [isAsked, isAlwaysAsked] = [judgement.effect, judgement.baseEffect].map(
        (effect) => effect === 'destructive' || effect === 'execute',
      )
      return {
        server,
        tool: String(definition.name),
        label,
        judgement,
        isAsked: isAsked === true,
        isAlwaysAsked: isAlwaysAsked === true,
      }
    })
  })
}

/** A call as it is judged. */
export interface CallVerdict extends LabelledCall {
  readonly server: string
  readonly risk: Risk
}

/** Judges all labelled calls. */
export function callVerdictsOf(servers: readonly LabelledServer[], isTrusted: boolean): CallVerdict[] {
  return servers.flatMap(({ server, tools, calls = [] }) => {
    const definitions = tools.map(({ definition }) => definition)
    const around = surroundingsOf(definitions)
    const settings = serverSettings({ name: server, trust: isTrusted })
    return calls.map((call): CallVerdict => {
      const definition = definitions.find(({ name }) => name === call.tool) ?? {}
      const classification = classify(definition, settings, around)
      const entry = { upstream: server, kind: 'tool', name: call.tool, definition, classification } as const
      const { risk } = asCalled(entry, { params: Payload.of({ arguments: call.arguments }) }).classification
      return { ...call, server, risk }
    })
  })
}

/** Whether a person says that somebody has to be asked. */
export function isDangerous(label: Label): boolean {
  return label === 'destructive' || label === 'execute'
}

/** What is wrong by the rules that keep people safe, and what is only tiresome. */
export function mistakesOf(all: readonly Verdict[]) {
  const verdicts = all.filter(({ server, tool }) => !beyondTheList.has(`${server} ${tool}`))
  const harmless = verdicts.filter(({ label }) => label === 'read' || label === 'harmless')
  const tiresome = harmless.filter(({ isAlwaysAsked }) => isAlwaysAsked)
  return {
    unasked: verdicts.filter(
      ({ label, isAsked }) => (label === 'destructive' || label === 'execute') && !isAsked,
    ),
    writingRead: verdicts.filter(
      ({ label, judgement }) => !['read', 'harmless'].includes(label) && judgement.effect === 'read',
    ),
    tiresome,
    share: harmless.length === 0 ? 0 : tiresome.length / harmless.length,
  }
}

/** The confusion table as text: a row for each label, a column for each effect. */
export function confusionTable(verdicts: readonly Verdict[]): string {
  const effects = ['read', 'write', 'destructive', 'execute'] as const
  const labels = ['read', 'harmless', 'write', 'destructive', 'execute'] as const
  const rows = labels.map((label) => {
    const own = verdicts.filter((each) => each.label === label)
    const counts = effects.map((effect) => own.filter(({ judgement }) => judgement.effect === effect).length)
    return [label, ...counts, own.filter(({ isAlwaysAsked }) => isAlwaysAsked).length].map(String)
  })
  return [['label', ...effects, 'asked'], ...rows]
    .map(([first = '', ...cells]) => first.padEnd(12) + cells.map((cell) => cell.padStart(12)).join(''))
    .join('\n')
}

/** A verdict as a line for people. */
export function lineOf({
  server,
  tool,
  label,
  judgement: { effect, baseEffect, evidence },
}: Verdict): string {
  const both = effect === baseEffect ? effect : `${baseEffect} to ${effect}`
  return `${server} ${tool}: ${label}, judged ${both}: ${evidence.slice(0, 2).join('; ')}`
}
