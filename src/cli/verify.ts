/** `gatehouse verify` and `audit verify`: check the receipt of a result, and the hash chain of an audit log. */
import { existsSync, readFileSync } from 'node:fs'
import { escapeHidden } from '../core/text/escape.ts'
import { environmentProxies } from '../core/proxy.ts'
import { isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { signingKeyIn } from '../gateway/keys.ts'
import { verifyReceipt, RECEIPT_KEY } from '../records/receipts.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, withStore, CONFIG_FILE, type ConfigOptions } from './config-file.ts'
import { inputPath, type Io, printError, pathOf, write, writeError } from './io.ts'
import type { Output } from './output.ts'
import { parseJson } from '../core/json/read.ts'
import { openLog } from '../observability/log.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { anchorsIn } from '../observability/audit/anchor.ts'
import { verifyAudit } from '../observability/audit/verify.ts'

type VerifyOptions = Given<typeof commands.verify>

/** `gatehouse verify FILE`: verifies that the gateway signed a receipt, for the content next to it. */
export async function verify(given: VerifyOptions, io: Io): Promise<Output> {
  const { receipt, result } = receiptIn(textOf(given.file, io))
  const verified = verifyReceipt(receipt, await keysOf(given, io), result)
  if ('problem' in verified) {
    const { problem: reason } = verified
    printError(`${given.file}: the receipt is invalid: ${reason}`, io)
    return given.json ? { json: { valid: false, reason }, text: '', code: 1 } : 1
  }
  const { claims, key } = verified
  return {
    json: { valid: true, content: result ? 'fits' : 'not given', key, claims },
    text: receiptText(claims, key, result !== undefined),
  }
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

async function keysOf({ jwks, ...given }: VerifyOptions, io: Io): Promise<readonly unknown[]> {
  if (jwks !== undefined) return keysIn(await loadKeySet(jwks, io), jwks)
  return withStore(readStored(given, io), io, async (store) => {
    const key = await signingKeyIn(store)
    if (key) return [key]
    throw new Error('the gateway of this configuration has not signed anything yet, so it has no key')
  })
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

type AuditOptions = Given<(typeof commands)['audit verify']>

/** `gatehouse audit verify FILE…`: finds the first line of an audit log that was removed, altered or moved. Exits with 1 if there is one. */
export async function verifyAudits(given: AuditOptions, io: Io): Promise<Output> {
  const { files, head, json: isJson } = given
  const paths = new Map(files.map((file) => [inputPath(file, io), file]))
  for (const [path, file] of paths) if (!existsSync(path)) throw new Error(`${file} does not exist`)
  const shown = (path: string): string => paths.get(path) ?? path
  const results = (await verifyAll([...paths.keys()], given, io)).map(({ problem, ...result }) => ({
    ...result,
    files: result.files.map(shown),
    ...(problem && { problem: { ...problem, file: shown(problem.file) } }),
  }))
  const isWhole = results.every(({ problem }) => !problem)
  const code = isWhole ? 0 : 1
  const logs = results.map(({ last, anchored = null, ...result }) => ({
    ...result,
    head: last?.hash,
    anchored,
  }))
  if (isJson) return { json: { ok: isWhole, logs }, text: '', code }
  for (const { files: logFiles, lines, forgotten, orders, last, anchored, problem } of results) {
    if (problem) {
      const place = problem.line === undefined ? '' : `:${problem.line}`
      writeError(`${problem.file}${place}: ${problem.reason}\n`, io)
    } else {
      const end = endText(anchored, head)
      const stubs =
        forgotten === 0 ? '' : `, of which ${forgotten} were forgotten (order ${orders.join(', ')})`
      write(`${logFiles.join(', ')}: ${lines} lines${stubs}, intact; head ${last?.hash}${end}\n`, io)
    }
  }
  return code
}

/** What proves the end of a log, apart from the files in its own folder. */
function endText(anchored: number | undefined, head: string | undefined): string {
  if (anchored !== undefined) return `; anchored in the store up to line ${anchored}`
  if (head !== undefined) return ''
  return '; the end is not anchored: the removal of the last lines together with the .head file would go unnoticed (give --config of the gateway, or --head)'
}

type Results = ReturnType<typeof verifyAudit>

/** Also verifies against the anchor in the store, if a configuration names an existing store. */
async function verifyAll(
  files: readonly string[],
  { head, config, envFile }: Pick<AuditOptions, 'head' | 'config' | 'envFile'>,
  io: Io,
): Results {
  const isGiven = config !== undefined
  const store = await storeOf({ config, envFile }, io).catch((error: unknown) => {
    // A configuration that merely is in the current folder must not prevent the verification of the chain.
    if (isGiven) throw error
    const reason = error instanceof Error ? error.message : String(error)
    printError(`the store was not checked: ${reason}`, io)
  })
  try {
    const anchorOf = async (file: string) => store?.anchors?.read(file)
    return await verifyAudit(files, { head, anchorOf })
  } finally {
    await store?.close()
  }
}

async function storeOf(options: ConfigOptions, io: Io) {
  if (options.config === undefined && !existsSync(pathOf(CONFIG_FILE, io))) return undefined
  const settings = readStored(options, io)
  const { store: place } = settings
  if (place.kind === 'memory' || (place.kind === 'folder' && !existsSync(place.path))) return undefined
  const store = await openSharedStore(settings, openLog('warn', io))
  return { anchors: anchorsIn(settings, () => store), close: () => store.close() }
}
