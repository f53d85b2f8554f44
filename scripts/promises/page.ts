/** The page of the promises, from their list and the figures. */
import { type Proof, type PromiseOfGateway, promises, SIMULATION } from './list.ts'

/** What one proof measured. */
export interface Measured {
  readonly proof: string
  /** What was counted, by name. */
  readonly figure: Readonly<Record<string, number>>
}

/** The figures of one promise. */
export interface Figures {
  /** The day of the measurement. */
  readonly date: string
  /** The fingerprint of the code that was measured. */
  readonly code: string
  readonly measured: readonly Measured[]
}

/** The figures of all promises, by id. */
export type AllFigures = Readonly<Record<string, Figures>>

/** The command that runs a proof. */
export function commandOf(proof: Proof): string {
  if (proof.kind === 'simulation')
    return `npm run simulate -- --seed ${SIMULATION.seed} --steps ${SIMULATION.steps}`
  return `npm run test:${runOf(proof)} -- ${proof.file}`
}

/** The run that a test is measured in: what a seed decides is repeated in `soak` only. */
export function runOf({ seed }: { readonly seed?: number }): 'long' | 'soak' {
  return seed === undefined ? 'long' : 'soak'
}

/** `docs/promises.md`. @throws if a promise has no figures */
export function promisesPage(figures: AllFigures): string {
  return [
    '# Promises',
    '',
    'What the gateway promises, where each promise ends, and the commands that show it. Tests run against real processes that are',
    'killed; [simulations](simulation.md) run the gateway itself in a world where everything fails. Each figure was measured with',
    'the seed beside it, on the day beside it, and in all of them the promise was broken 0 times: a command that finds a',
    'violation fails.',
    '',
    'In a clone of the repository, `npm run promises` measures again what is older than the code that keeps the promise, and writes',
    'this page. `npm run promises -- --all` measures everything, and `npm run promises -- --check` names the figures that are older',
    'than their code, which is part of a release.',
    '',
    ...promises.flatMap((promise, index) => sectionOf(promise, index + 1, figures[promise.id])),
  ].join('\n')
}

function sectionOf(
  { id, sentence, limits, proofs }: PromiseOfGateway,
  number: number,
  figures: Figures | undefined,
): string[] {
  if (!figures) throw new Error(`${id} has no figures: run npm run promises`)
  const rows = proofs.map((proof) => {
    const found = figures.measured.find((each) => each.proof === commandOf(proof))
    if (!found) throw new Error(`${id} has no figure of ${commandOf(proof)}: run npm run promises`)
    const seed = proof.kind === 'simulation' ? SIMULATION.seed : proof.seed
    const rules =
      proof.kind === 'simulation' ? `: ${proof.rules.map((rule) => `\`${rule}\``).join(', ')}` : ''
    return `| \`${commandOf(proof)}\`${rules} | ${figureText(found.figure)} | ${seed ?? 'none'} | ${figures.date} |`
  })
  return [
    `## ${number}. ${sentence}`,
    '',
    limits,
    '',
    '| Shown by | Figure | Seed | Date |',
    '|---|---|---|---|',
    ...rows,
    '',
  ]
}

function figureText(figure: Measured['figure']): string {
  return Object.entries(figure)
    .map(([name, count]) => `${count.toLocaleString('en')} ${name}`)
    .join(', ')
}
