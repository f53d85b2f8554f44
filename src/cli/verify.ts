/** `gatehouse verify`: verifies the receipt of a result with the key in the store or a JWKS. */
import { existsSync, readFileSync } from 'node:fs'
import { escapeHidden } from '../core/text/escape.ts'
import { environmentProxies } from '../core/proxy.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { openLog } from '../observability/log.ts'
import { signingKeyIn } from '../gateway/keys.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { verifyReceipt } from '../records/receipts.ts'
import { RECEIPT_KEY } from '../protocol/meta-keys.ts'
import { readStored } from './config-file.ts'
import { parseWords, UsageError } from './words.ts'
import { inputPath, type Io, print, printError } from './io.ts'
import { parseJson } from '../core/json/read.ts'

/** The options of the command. */
const optionTypes = {
  jwks: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
} as const

/** `gatehouse verify FILE`: verifies that the gateway signed a receipt, for the content next to it. */
export async function verify(args: readonly string[], io: Io): Promise<number> {
  const options = parse(args)
  const { receipt, result } = receiptIn(textOf(options.file, io))
  const verified = verifyReceipt(receipt, await keysOf(options, io), result)
  if ('problem' in verified) {
    if (options.isJson) print(JSON.stringify({ valid: false, reason: verified.problem }), io)
    printError(`${options.file}: the receipt is invalid: ${verified.problem}`, io)
    return 1
  }
  const { claims, key } = verified
  if (options.isJson)
    print(JSON.stringify({ valid: true, content: result ? 'fits' : 'not given', key, claims }), io)
  else print(receiptText(claims, key, result !== undefined), io)
  return 0
}

interface VerifyOptions {
  readonly file: string
  readonly jwks: string | undefined
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly isJson: boolean
}

function parse(args: readonly string[]): VerifyOptions {
  const { values, positionals } = parseWords(args, optionTypes)
  const [file, ...others] = positionals
  if (file === undefined || others.length > 0) throw new UsageError('use gatehouse verify FILE')
  const { jwks, config, 'env-file': envFile, json = false } = values
  return { file, jwks, config, envFile, isJson: json }
}

function textOf(file: string, io: Io): string {
  const path = inputPath(file, io)
  if (!existsSync(path)) throw new Error(`${file} does not exist`)
  return readFileSync(path, 'utf8').trim()
}

/** The receipt in a file, and the result that contains it: a result alone, or a whole JSON-RPC response. */
function receiptIn(text: string): { readonly receipt: string; readonly result?: Payload } {
  if (!text.startsWith('{')) return { receipt: text }
  const whole = Payload.text(text, parsed(text))
  const result = whole.at('result') ?? whole
  const receipt = result.meta(RECEIPT_KEY)
  if (typeof receipt === 'string') return { receipt, result }
  throw new Error(`the file contains no receipt: it is expected in _meta of the result, at ${RECEIPT_KEY}`)
}

async function keysOf({ jwks, config, envFile }: VerifyOptions, io: Io): Promise<readonly unknown[]> {
  if (jwks !== undefined) return keysIn(await loadKeySet(jwks, io), jwks)
  const settings = readStored({ config, envFile }, io)
  const store = await openSharedStore(settings, openLog('warn', io))
  try {
    const key = await signingKeyIn(store)
    if (key) return [key]
    throw new Error('the gateway of this configuration has not signed anything yet, so it has no key')
  } finally {
    await store.close()
  }
}

async function loadKeySet(place: string, io: Io): Promise<unknown> {
  if (!/^https?:/.test(place)) return parsed(textOf(place, io))
  const { fetchJson } = await import('../downstream/http/fetch-json.ts')
  return fetchJson(
    place,
    environmentProxies(io.env, () => undefined),
  ).catch((error: unknown) => {
    throw new Error(`the keys cannot be fetched: ${error instanceof Error ? error.message : String(error)}`)
  })
}

function keysIn(set: unknown, place: string): readonly unknown[] {
  if (isObject(set) && Array.isArray(set.keys)) return set.keys
  throw new Error(`${place} is not a JSON Web Key Set: \`keys\` is missing`)
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch (error) {
    throw new Error(`not valid JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** Describes what a receipt proves, and what it does not. */
function receiptText(claims: Readonly<Record<string, unknown>>, key: string, hasContent: boolean): string {
  const { tool, uri, server, retrieved_at: at, was_replay: wasReplay, approval, iss } = claims
  const what = typeof tool === 'string' ? `the tool ${tool}` : `the resource ${String(uri)}`
  const lines = [
    `The receipt is valid: ${String(iss)} signed it with the key ${key}.`,
    `  It states that ${what} of the server ${String(server)} returned this content${typeof at === 'string' ? ` at ${at}` : ''}.`,
    ...(wasReplay === true ? ['  It was replayed for an idempotency key; nothing ran again.'] : []),
    ...(typeof approval === 'string' ? [`  The call ran with the approval ${approval}.`] : []),
    hasContent
      ? '  The content is exactly the content it was signed for.'
      : '  No content was given, so only the signature was verified.',
    '  It does not prove that the content is true.',
  ]
  return lines.map(escapeHidden).join('\n')
}
