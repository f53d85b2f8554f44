import type { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json.ts'
import type { Ask } from './asking.ts'
import type { Json } from './subject.ts'

/** A resource that was read. */
export interface Reading {
  readonly uri: string
  /** What the list says of its type. */
  readonly listed: unknown
  /** The `contents` of the answer, whatever they are. */
  readonly contents?: unknown
  readonly error?: GatewayError
}

/** A prompt that was fetched. */
export interface Fetched {
  readonly name: string
  readonly error?: GatewayError
}

/** How many resources are read, and how large one may say it is, in bytes. */
const most = { reads: 8, size: 1_000_000 }

/** Reads the first few resources. */
export async function readResources(ask: Ask, resources: readonly Json[]): Promise<readonly Reading[]> {
  const small = resources.filter(({ size }) => typeof size !== 'number' || size <= most.size)
  const readings: Reading[] = []
  for (const { uri, mimeType } of small.slice(0, most.reads)) {
    if (typeof uri !== 'string') continue
    const { result, error } = await ask('resources/read', { uri })
    const found = error ? { error } : { contents: result.fields.contents }
    readings.push({ uri, listed: mimeType, ...found })
  }
  return readings
}

/** Fetches the first prompt that needs no arguments; nothing where there is none. */
export async function fetchPrompt(ask: Ask, prompts: readonly Json[]): Promise<Fetched | undefined> {
  const plain = prompts.find((prompt) => typeof prompt.name === 'string' && !needsArguments(prompt))
  if (!plain) return undefined
  const name = String(plain.name)
  const { error } = await ask('prompts/get', { name })
  return { name, ...(error && { error }) }
}

function needsArguments({ arguments: given }: Json): boolean {
  if (given === undefined) return false
  return !Array.isArray(given) || given.some((each) => isObject(each) && each.required === true)
}
