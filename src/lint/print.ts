/** The report of `gatehouse lint` as text. */
import type { AuditReport, Audited } from './audit.ts'

/** How much evidence of one rule is printed. */
const SHOWN = 5

/** A report as text for people. */
export function printed({ upstream, revision, assertions, summary, owner: words }: AuditReport): string {
  const { pass, repaired, fail, notApplicable, serious, owner } = summary
  const unsaid = words.filter(({ said, of }) => said < of)
  return [
    `${upstream}: speaks ${revision}, held against ${assertions.length} rules`,
    '',
    ...assertions.flatMap(linesOf),
    '',
    ...(unsaid.length > 0 ? [`only its owner knows, to be said under upstreams.${upstream}:`] : []),
    ...unsaid.map(unsaidLine),
    ...(unsaid.length > 0 ? [''] : []),
    `${pass} pass, ${repaired} repaired by the gateway, ${fail} fail, ${notApplicable} not applicable`,
    ...(serious.length > 0 ? [`broken, of what must or must not be: ${serious.join(' ')}`] : []),
    ...(owner.length > 0 ? [`only the owner of the server can say: ${owner.join(' ')}`] : []),
  ].join('\n')
}

function linesOf({ id, level, status, text, evidence, fix }: Audited): string[] {
  const shown = evidence.slice(0, SHOWN).map(plain)
  const more = evidence.length - shown.length
  return [
    `${status.padEnd(14)} ${id} ${level.padEnd(9)} ${text}`,
    ...shown.map((each) => `${INDENT}${each}`),
    ...(more > 0 ? [`${INDENT}and ${more} more`] : []),
    ...(fix === undefined ? [] : [`${INDENT}fix: ${fix}`]),
  ]
}

function unsaidLine({ key, text, said, of }: AuditReport['owner'][number]): string {
  const many = key.startsWith('tools.') ? ` (said of ${said} of ${of})` : ''
  return `  ${key.padEnd(17)} ${text}${many}`
}

const INDENT = ' '.repeat(15)

/** What a server wrote must not move the cursor of the terminal. */
function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, ' ').slice(0, 300)
}
