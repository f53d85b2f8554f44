/** What `gatehouse explain` prints of tools: as lines, a table, or JSON. */
import { riskWords } from '../../core/descriptor.ts'
import { oneLine } from '../../core/text/escape.ts'
import type { UndoSettings } from '../../core/settings.ts'
import type { Gateway } from '../../gateway/gateway.ts'

/** A tool, and what the gateway does about it. */
export type Inspected = NonNullable<Awaited<ReturnType<Gateway['inspect']>>>

type Asking = Inspected['asking']
type Undoing = Inspected['undoing']

/** The lines about one tool, with reasons. */
export function toolLines(inspected: Inspected | undefined): string[] {
  if (!inspected) return ['  the server lists no tool of this name']
  const { entry, asking, undoing } = inspected
  const { op, risk, idempotent, evidence } = entry.classification
  const scopes = inspected.scopes.map((group) => group.join(' or ')).join(', ')
  const { stop } = asking
  const message = asking.message === undefined ? [] : [`the question: ${asking.message}`]
  return [
    `  op           ${op}`,
    `  risk         ${riskWords[risk]}`,
    `  idempotent   ${idempotent ? 'yes' : 'no'}`,
    ...reasons(evidence),
    `  confirmation ${askedWhom(asking)}`,
    ...reasons([...message, ...asking.why]),
    ...(stop ? [`  to stop it   write ${oneLine(stop.write)} under ${oneLine(stop.under)}`] : []),
    `  undo         ${undone(undoing)}`,
    ...expressions(undoing.undo).map((line) => `               ${oneLine(line)}`),
    ...reasons([...undoing.why, ...undoing.doubts.map((doubt) => `but: ${doubt}`)]),
    `  scopes       ${scopes === '' ? 'none' : scopes} (needed where callers authenticate)`,
  ]
}

/** What is known of one tool, for programs. */
export function toolObject({ entry, scopes, asking, undoing }: Inspected): Readonly<Record<string, unknown>> {
  const { op, risk, idempotent, evidence } = entry.classification
  const { when, isOutOfBand, fallback, message, stop, why } = asking
  return {
    name: entry.name,
    op,
    risk,
    idempotent,
    evidence,
    confirmation: { when, is_out_of_band: isOutOfBand, fallback, message, stop, why },
    undo: undoing,
    scopes,
  }
}

/** A table of all tools of a server. */
export function toolTable(tools: readonly Inspected[]): string[] {
  if (tools.length === 0) return []
  const rows = tools.map(({ entry, asking, undoing }) => {
    const { risk, idempotent } = entry.classification
    return [
      oneLine(entry.name),
      riskWords[risk],
      idempotent ? 'yes' : 'no',
      askedShortly(asking),
      undoneShortly(undoing),
    ]
  })
  const all = [['tool', 'risk', 'idempotent', 'confirmation', 'undo'], ...rows]
  const widths = [0, 1, 2, 3].map((at) => Math.max(...all.map((row) => row[at]?.length ?? 0)))
  return all.map((row) => `  ${row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  ')}`.trimEnd())
}

function reasons(lines: readonly string[]): string[] {
  return lines.map((each, index) => `${index === 0 ? '  because     ' : '              '} ${oneLine(each)}`)
}

function askedWhom({ when, isOutOfBand, fallback = 'page' }: Asking): string {
  if (when === 'never') return 'none'
  const whom = isOutOfBand
    ? 'other people are asked, out of band'
    : `the person at the client is asked, inline; ${otherwise[fallback]} where it cannot ask`
  return when === 'always' ? whom : `${whom}, for steps of transactions`
}

const otherwise: Readonly<Record<NonNullable<Asking['fallback']>, string>> = {
  page: 'on a page of the gateway',
  two_step: 'by a token the host repeats the call with',
  deny: 'the call is denied',
}

function askedShortly({ when, isOutOfBand }: Asking): string {
  if (when === 'never') return 'no'
  return `${isOutOfBand ? 'out of band' : 'inline'}${when === 'always' ? '' : ', in transactions'}`
}

function undone({ from, how }: Undoing): string {
  if (how === 'unneeded') return 'nothing to undo'
  if (from === 'nowhere') return 'none'
  if (from === 'configuration')
    return how === 'impossible' ? 'not possible as configured' : `${degrees[how]}, as configured`
  if (how === 'unsure') return 'none is configured; what the list suggests is not sure (see gatehouse plan)'
  if (from === 'derivation') return `${degrees[how]}, as schemas say (features.transactions.auto_undo is on)`
  return `none is configured; ${degrees[how]} by what schemas suggest (see gatehouse plan)`
}

const degrees: Readonly<Record<Undoing['how'], string>> = {
  exact: 'exactly',
  approximate: 'approximately',
  unsure: 'not surely',
  impossible: 'not at all',
  unneeded: 'nothing to undo',
}

function undoneShortly({ from, how, undo }: Undoing): string {
  if (how === 'unneeded') return ''
  if (from === 'nowhere') return 'none'
  const text = expressions(undo).at(-1) ?? ''
  const tool = /^(?:\w+: )?([^(]+)\(/.exec(text)?.[1] ?? ''
  if (how === 'unsure') return `none; not sure: by ${tool}`
  const about = how === 'exact' ? '' : how === 'approximate' ? ', approximately' : ', which is not possible'
  return from === 'proposal' ? `proposed: by ${tool}${about}` : `by ${tool}${about}`
}

/** What is called to undo, a line each. */
function expressions(undo: string | UndoSettings | undefined): string[] {
  if (undo === undefined) return []
  if (typeof undo === 'string') return [undo]
  const { absent, snapshot, restore, call } = undo
  return Object.entries({ absent, snapshot, call, restore }).flatMap(([key, text]) =>
    text === undefined ? [] : [`${key}: ${text}`],
  )
}
