/**
 * Measures the figures of the promises that are older than their code, or all with `--all`, or those that are named, and
 * writes them and `docs/promises.md`. With `--check` it only names those that are older, and exits with 1 if there are any.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { codeHash } from './promises/code.ts'
import { type Proof, promises, SIMULATION } from './promises/list.ts'
import { isOutdated, outdatedReport } from './promises/outdated.ts'
import {
  type AllFigures,
  commandOf,
  type Figures,
  type Measured,
  promisesPage,
  runOf,
} from './promises/page.ts'

type Figure = Measured['figure']

const root = join(import.meta.dirname, '..')
const file = join(import.meta.dirname, 'promises/figures.json')
const given = process.argv.slice(2)
const before = JSON.parse(readFileSync(file, 'utf8')) as AllFigures
if (given.includes('--check')) {
  const report = outdatedReport(promises, before)
  console.log(report.text)
  process.exit(report.code)
}
const unknown = given.filter((word) => word !== '--all' && !promises.some(({ id }) => id === word))
if (unknown.length > 0) {
  console.error(
    `there is no promise ${unknown.join(', ')}; they are ${promises.map(({ id }) => id).join(', ')}`,
  )
  process.exit(2)
}
const named = given.filter((word) => word !== '--all')
const known = new Map<string, Figure>()
const figures: Record<string, Figures> = { ...before }
for (const promise of promises) {
  const { id, proofs, code } = promise
  const isChosen =
    named.length > 0 ? named.includes(id) : isOutdated(promise, figures) || given.includes('--all')
  if (!isChosen) continue
  const measured = proofs.map((proof) => ({ proof: commandOf(proof), figure: figureOf(proof) }))
  figures[id] = { date: new Date().toISOString().slice(0, 10), code: codeHash(code), measured }
  // What was measured is kept if a later proof fails.
  writeFileSync(file, `${JSON.stringify(figures, null, 2)}\n`)
}
writeFileSync(join(root, 'docs/promises.md'), promisesPage(figures))

/** Runs a proof, once for all promises. @throws if it fails */
function figureOf(proof: Proof): Figure {
  const command = commandOf(proof)
  const found = known.get(command)
  if (found) return found
  console.log(command)
  const figure = proof.kind === 'simulation' ? simulated() : tested(proof)
  console.log(JSON.stringify(figure))
  known.set(command, figure)
  return figure
}

function simulated(): Figure {
  const words = ['test/simulate/main.ts', '--seed', `${SIMULATION.seed}`, '--steps', `${SIMULATION.steps}`]
  const report = JSON.parse(output([...words, '--json'])) as {
    readonly steps: number
    readonly seeds: readonly Readonly<Record<'attempts' | 'effects' | 'faults', number>>[]
  }
  const sum = (name: 'attempts' | 'effects' | 'faults'): number =>
    report.seeds.reduce((total, each) => total + each[name], 0)
  return {
    steps: report.steps,
    simulations: report.seeds.length,
    attempts: sum('attempts'),
    effects: sum('effects'),
    faults: sum('faults'),
  }
}

/** The sum of the figures that the tests of a file measured. */
function tested(proof: Extract<Proof, { readonly kind: 'test' }>): Figure {
  const { file: path } = proof
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-promises-'))
  try {
    const report = join(folder, 'report.json')
    output([
      'node_modules/vitest/vitest.mjs',
      'run',
      '--project',
      runOf(proof),
      path,
      '--reporter=json',
      `--outputFile=${report}`,
    ])
    const { numPendingTests, testResults } = JSON.parse(readFileSync(report, 'utf8')) as {
      readonly numPendingTests: number
      readonly testResults: readonly {
        readonly assertionResults: readonly { readonly meta: { figure?: Figure } }[]
      }[]
    }
    if (numPendingTests > 0) throw new Error(`${path} skips tests here: install redis-server`)
    const sums = new Map<string, number>()
    for (const { meta } of testResults.flatMap(({ assertionResults }) => assertionResults))
      for (const [name, count] of Object.entries(meta.figure ?? {}))
        sums.set(name, (sums.get(name) ?? 0) + count)
    if (sums.size === 0) throw new Error(`no test of ${path} measures a figure`)
    return Object.fromEntries(sums)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function output(words: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 256 * 1024 * 1024,
  })
  if (status !== 0)
    throw new Error(`${words.join(' ')} failed:\n${stdout.slice(-5000)}\n${stderr.slice(-5000)}`)
  return stdout
}
