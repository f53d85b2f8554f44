/**
 * Changes of the built gateway, to prove that a check can fail. One module is changed as it is loaded, so no copy of the
 * gateway is made, and all other modules are compiled already.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type CommandOptions, gatewayProgram } from './gateway-process.ts'

/** A change of a built file. */
export interface Mutation {
  /** In `dist`. */
  readonly file: string
  /** A text that is in the file once. */
  readonly find: string
  readonly replace: string
}

const loader = fileURLToPath(new URL('../fixtures/mutation/main.ts', import.meta.url))

/** Where a file of `dist` is. */
export function builtFile(file: string): URL {
  return new URL(`../../dist/${file}`, import.meta.url)
}

/** How a program with the changed gateway is started; by default, its commands. @throws if the text is not in the file once */
export function mutated(mutation: Mutation, program = gatewayProgram()): CommandOptions {
  const { file, find } = mutation
  if (readFileSync(builtFile(file), 'utf8').split(find).length !== 2)
    throw new Error(`${file} must have this once: ${find}`)
  const [node = process.execPath, ...rest] = program
  return {
    program: [node, '--import', loader, ...rest],
    env: { MUTATION: JSON.stringify(mutation) },
  }
}
