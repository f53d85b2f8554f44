/**
 * Which figures are older than the code that keeps their promise. A figure says what was measured on a day, so a change of
 * code does not make it wrong: it is measured again before a release, and no test fails meanwhile.
 */
import { codeHash } from './code.ts'
import type { PromiseOfGateway } from './list.ts'
import type { AllFigures } from './page.ts'

/** Whether the code of a promise has changed since its figures were measured, or it has none. */
export function isOutdated({ id, code }: PromiseOfGateway, figures: AllFigures): boolean {
  return figures[id]?.code !== codeHash(code)
}

/** What `npm run promises -- --check` prints, and its exit code: 1 if a figure is older than its code. */
export function outdatedReport(
  promises: readonly PromiseOfGateway[],
  figures: AllFigures,
): { readonly text: string; readonly code: 0 | 1 } {
  const outdated = promises.filter((promise) => isOutdated(promise, figures))
  if (outdated.length === 0) return { text: 'All figures are as new as their code.', code: 0 }
  const lines = outdated.map(({ id, code }) => {
    return `  ${id}, measured ${figures[id]?.date ?? 'never'}: ${code.join(', ')}`
  })
  const heading = 'These figures are older than their code. Before a release, run npm run promises:'
  return { text: [heading, ...lines].join('\n'), code: 1 }
}
