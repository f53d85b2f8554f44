/** `gatehouse verify`: checks the receipt of a result with the keys of the store or of a JWKS. */
import { existsSync, readFileSync } from 'node:fs'
import { escapeHidden } from '../core/text/escape.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { fetchJson, openLog, signingKeyIn } from '../gateway/gateway.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { verifyReceipt } from '../records/receipts.ts'
import { RECEIPT_KEY } from '../protocol/meta-keys.ts'
import { parseWords, readSource, UsageError } from './options.ts'

/** What the command can be told. */
const known = {
  jwks: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
} as const

/** `gatehouse verify FILE`: tells whether a receipt was signed by the gateway, and for the content beside it. */
export async function verify(args: readonly string[]): Promise<number> {
  const told = read(args)
  const { receipt, result } = receiptIn(textOf(told.file))
  const verified = verifyReceipt(receipt, await keysOf(told), result)
  if ('problem' in verified) {
    if (told.isJson) print(JSON.stringify({ valid: false, reason: verified.problem }))
    process.stderr.write(`gatehouse: ${told.file}: the receipt does not hold: ${verified.problem}\n`)
    return 1
  }
  const { claims, key } = verified
  if (told.isJson) print(JSON.stringify({ valid: true, content: result ? 'fits' : 'not given', key, claims }))
  else print(wordsOf(claims, key, result !== undefined))
  return 0
}

interface Told {
  readonly file: string
  readonly jwks: string | undefined
  readonly config: string | undefined
  readonly envFile: string | undefined
  readonly isJson: boolean
}

function read(args: readonly string[]): Told {
  const { values, positionals } = parseWords(args, known)
  const [file, ...others] = positionals
  if (file === undefined || others.length > 0) throw new UsageError('write gatehouse verify FILE')
  const { jwks, config, 'env-file': envFile, json = false } = values
  return { file, jwks, config, envFile, isJson: json }
}

function textOf(file: string): string {
  if (!existsSync(file)) throw new Error(`there is no ${file}`)
  return readFileSync(file, 'utf8').trim()
}

/** The receipt in a file, and the result it came with: that of a tool or a resource, or the whole answer. */
function receiptIn(text: string): { readonly receipt: string; readonly result?: Payload } {
  if (!text.startsWith('{')) return { receipt: text }
  const whole = Payload.text(text, parsed(text))
  const result = whole.at('result') ?? whole
  const receipt = result.meta(RECEIPT_KEY)
  if (typeof receipt === 'string') return { receipt, result }
  throw new Error(`there is no receipt in the file: a result has it in _meta, at ${RECEIPT_KEY}`)
}

async function keysOf({ jwks, config, envFile }: Told): Promise<readonly unknown[]> {
  if (jwks !== undefined) return keysIn(await setAt(jwks), jwks)
  const { settings } = readSource({ config, envFile, isForStore: true })
  const store = await openSharedStore(settings, openLog('warn', process.stderr.isTTY))
  try {
    const key = await signingKeyIn(store)
    if (key) return [key]
    throw new Error('the gateway of this configuration has signed nothing yet, so it has no key')
  } finally {
    await store.close()
  }
}

async function setAt(place: string): Promise<unknown> {
  if (!/^https?:/.test(place)) return parsed(textOf(place))
  return fetchJson(place).catch((error: unknown) => {
    throw new Error(`no keys could be got: ${error instanceof Error ? error.message : String(error)}`)
  })
}

function keysIn(set: unknown, place: string): readonly unknown[] {
  if (isObject(set) && Array.isArray(set.keys)) return set.keys
  throw new Error(`${place} is no JSON Web Key Set: it has to have \`keys\``)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(`this is no JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** What a receipt proves, and what it does not. */
function wordsOf(claims: Readonly<Record<string, unknown>>, key: string, hasContent: boolean): string {
  const { tool, uri, server, retrieved_at: at, was_replay: wasReplay, approval, iss } = claims
  const what = typeof tool === 'string' ? `the tool ${tool}` : `the resource ${String(uri)}`
  const lines = [
    `The receipt holds: ${String(iss)} signed it with the key ${key}.`,
    `  It says that ${what} of the server ${String(server)} gave this content${typeof at === 'string' ? ` at ${at}` : ''}.`,
    ...(wasReplay === true ? ['  It was replayed under an idempotency key; nothing ran again.'] : []),
    ...(typeof approval === 'string' ? [`  The call ran under the approval ${approval}.`] : []),
    hasContent
      ? '  The content beside it is, to the letter, the one it was signed for.'
      : '  No content was given, so only the signature was checked.',
    '  It does not say that the content is true.',
  ]
  return lines.map(escapeHidden).join('\n')
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
