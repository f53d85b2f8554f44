/** What tests count for `docs/promises.md`. */

declare module 'vitest' {
  interface TaskMeta {
    /** What was counted, by name. */
    figure?: Readonly<Record<string, number>>
  }
}

/** Reports what a test counted. `npm run promises` sums the figures of a file. */
export function reportFigure(
  { meta }: { readonly meta: { figure?: Readonly<Record<string, number>> } },
  figure: Readonly<Record<string, number>>,
): void {
  meta.figure = figure
}
