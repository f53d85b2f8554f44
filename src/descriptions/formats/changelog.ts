/** The changelog of a server's contract. */
import { isoTime } from '../../core/time/waiting.ts'
import type { ContractHistory, ContractVersion, KeptChange } from '../../core/contract.ts'
import { dayOf } from './dashdash.ts'
import { bullets, code, inlineText, sentence } from '../model/text.ts'

/** The sections of a changelog, in order. */
const kinds = [
  ['added', 'Added'],
  ['changed', 'Changed'],
  ['deprecated', 'Deprecated'],
  ['removed', 'Removed'],
] as const

/** The contract history of servers as a changelog (Keep a Changelog 1.1.0). */
export function contractChangelog(histories: readonly ContractHistory[]): string {
  const head = [
    '# Changelog',
    'Changes to what the servers behind this gateway offer. Versions are semantic: major for changes that may break callers, minor for additions, patch for changed descriptions.',
  ]
  const [only, ...others] = histories
  const isOne = only !== undefined && others.length === 0
  const parts = histories.map((history) => {
    const versions = history.versions.map((each, index) =>
      versionText(each, isOne ? '##' : '###', isFirst(history, index)),
    )
    return isOne ? versions.join('\n\n') : [`## ${inlineText(history.upstream)}`, ...versions].join('\n\n')
  })
  return `${[...head, ...parts].join('\n\n')}\n`
}

/** The same as JSON. */
export function changelogView(histories: readonly ContractHistory[]): Readonly<Record<string, unknown>> {
  return {
    servers: histories.map(({ upstream, versions }) => ({
      server: upstream,
      version: versions[0]?.version,
      versions: versions.map(({ version, at, changes, more = 0 }) => ({
        version,
        date: isoTime(at),
        changes: changes.map(({ level, kind, subject, text, isEarly }) => ({
          level,
          kind,
          subject,
          text,
          ...(isEarly && { before_its_time: true }),
        })),
        ...(more > 0 && { more }),
      })),
    })),
  }
}

/** Whether a version is the first recorded one. */
function isFirst({ versions }: ContractHistory, index: number): boolean {
  return index === versions.length - 1 && versions[index]?.changes.length === 0
}

function versionText(
  { version, at, changes, more = 0 }: ContractVersion,
  mark: string,
  isStart: boolean,
): string {
  const parts = kinds.flatMap(([kind, title]) => {
    const lines = changes.filter((each) => each.kind === kind).map(changeLine)
    return lines.length > 0 ? [`${mark}# ${title}\n\n${bullets(lines)}`] : []
  })
  return [
    `${mark} [${version}] - ${dayOf(at)}`,
    ...parts,
    ...(more > 0 ? [`And ${more} more changes.`] : []),
    ...(isStart ? ['First seen.'] : []),
  ].join('\n\n')
}

function changeLine({ subject, text, level, isEarly }: KeptChange): string {
  const [, what = subject, name] = /^(.+?) (\S+)$/.exec(subject) ?? []
  const whole = name === undefined ? inlineText(what) : `${inlineText(what)} ${code(name)}`
  const line = sentence(`${level === 'major' ? 'Breaking: ' : ''}${whole} ${inlineText(text)}`)
  return isEarly ? `${line} It was not announced early enough.` : line
}
