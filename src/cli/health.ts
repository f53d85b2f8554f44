/**
 * `gatehouse health`: checks whether a running gateway responds, for probes of containers and supervisors. It reads
 * only the listen address from the configuration, so it needs no secret.
 */
import { existsSync } from 'node:fs'
import { isHttpUrl } from '../config/names.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { ownUrl } from '../core/web.ts'
import { CONFIG_FILE, readAddress } from './config-file.ts'
import { parseWords, portOf, UsageError } from './words.ts'
import { type Io, pathOf, print, printError } from './io.ts'

/** The time the gateway has to respond, in milliseconds. */
const ANSWER_TIMEOUT_MS = 4000

const optionTypes = {
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  host: { type: 'string' },
  port: { type: 'string', short: 'p' },
  ready: { type: 'boolean' },
} as const

/** Prints the state of a gateway; returns 0 if it responds or, with `--ready`, if it can serve calls. */
export async function health(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, optionTypes)
  const [url, ...others] = positionals
  if (others.length > 0) throw new UsageError('give one URL, or none')
  if (url !== undefined && !isHttpUrl(url)) throw new UsageError(`"${url}" is not an http:// or https:// URL`)
  const origin = url === undefined ? originOf(values, io) : new URL(url).origin
  const address = `${origin}${values.ready ? '/ready' : '/health'}`
  const { request } = await import('undici')
  try {
    const { statusCode, body } = await request(address, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const value = readJson(await body.text())
    const status = isObject(value) && typeof value.status === 'string' ? value.status : undefined
    if (status === undefined) throw new Error(`HTTP ${statusCode}, and not a Gatehouse response`)
    const isFine = statusCode === 200
    if (isFine) print(`${address}: ${status}`, io)
    else printError(`${address}: ${status} (HTTP ${statusCode})`, io)
    return isFine ? 0 : 1
  } catch (error) {
    printError(`no response from ${address}: ${reasonOf(error)}`, io)
    return 1
  }
}

interface Given {
  readonly config?: string | undefined
  readonly 'env-file'?: string | undefined
  readonly host?: string | undefined
  readonly port?: string | undefined
}

/** The address of the gateway on this machine: from the command line, else the configuration, else the default. */
function originOf({ config, 'env-file': envFile, host, port }: Given, io: Io): string {
  const isThere = config !== undefined || existsSync(pathOf(CONFIG_FILE, io))
  const listen = isThere ? readAddress({ config, envFile }, io) : DEFAULT
  // A gateway that listens on all addresses is reachable on the loopback address.
  return ownUrl(host ?? listen.host, portOf(port) ?? listen.port)
}

const DEFAULT = { host: '127.0.0.1', port: 8900 }

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `none within ${ANSWER_TIMEOUT_MS / 1000} s`
  return error.message === '' && 'code' in error ? String(error.code) : error.message
}
