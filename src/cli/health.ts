/**
 * `gatehouse health`: checks whether a running gateway responds, for probes of containers and supervisors. It reads
 * only the listen address from the configuration, so it needs no secret.
 */
import { existsSync } from 'node:fs'
import { isHttpUrl } from '../config/names.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { ownUrl } from '../core/web.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { CONFIG_FILE, readAddress } from './config-file.ts'
import { type Io, pathOf, printError } from './io.ts'
import type { Output } from './output.ts'

/** The time the gateway has to respond, in milliseconds. */
const ANSWER_TIMEOUT_MS = 4000
const DEFAULT = { host: '127.0.0.1', port: 8900 }

type HealthOptions = Given<typeof commands.health>

/** Prints the state of a gateway; exit code 0 if it responds or, with `--ready`, if it can serve calls. */
export async function health(given: HealthOptions, io: Io): Promise<Output> {
  const { url, ready, json: isJson } = given
  if (url !== undefined && !isHttpUrl(url)) throw new UsageError(`"${url}" is not an http:// or https:// URL`)
  const origin = url === undefined ? originOf(given, io) : new URL(url).origin
  const address = `${origin}${ready ? '/ready' : '/health'}`
  const { request } = await import('undici')
  const failed = (text: string, json: object): Output => {
    if (!isJson) printError(text, io)
    return isJson ? { json: { url: address, ok: false, ...json }, text, code: 1 } : 1
  }
  try {
    const { statusCode, body } = await request(address, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) })
    const value = readJson(await body.text())
    const status = isObject(value) && typeof value.status === 'string' ? value.status : undefined
    if (status === undefined) throw new Error(`HTTP ${statusCode}, and not a Gatehouse response`)
    if (statusCode === 200) return { json: { url: address, ok: true, status }, text: `${address}: ${status}` }
    return failed(`${address}: ${status} (HTTP ${statusCode})`, { status })
  } catch (error) {
    const problem = reasonOf(error)
    return failed(`no response from ${address}: ${problem}`, { problem })
  }
}

/** The address of the gateway on this machine: from the command line, else the configuration, else the default. */
function originOf({ config, envFile, host, port }: HealthOptions, io: Io): string {
  const isThere = config !== undefined || existsSync(pathOf(CONFIG_FILE, io))
  const listen = isThere ? readAddress({ config, envFile }, io) : DEFAULT
  // A gateway that listens on all addresses is reachable on the loopback address.
  return ownUrl(host ?? listen.host, port ?? listen.port)
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `none within ${ANSWER_TIMEOUT_MS / 1000} s`
  return error.message === '' && 'code' in error ? String(error.code) : error.message
}
