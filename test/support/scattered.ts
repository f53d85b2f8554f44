/**
 * A mode of the fronts of tests: with GATEHOUSE_SCATTERED=N, each gateway of a test is N of them that share a store, and each request
 * of a client reaches a random one. So every journey is one through a load balancer that is not sticky.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { GatewayOptions, RunningGateway } from './gateway-process.ts'
import { openFront } from './scattering-front.ts'
import { isObject, type Json } from './server/json.ts'

/** How many gateways a test gets in place of one. */
export const scattered = Number(process.env['GATEHOUSE_SCATTERED'] ?? 1)

/** Starts several gateways in place of one, which know the address of the front as theirs. */
export async function startScattered(
  config: Json,
  options: GatewayOptions,
  start: (config: Json, options: GatewayOptions) => Promise<RunningGateway>,
): Promise<RunningGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const gateways: RunningGateway[] = []
  const front = await openFront(gateways, { pick: () => Math.floor(Math.random() * gateways.length) })
  const shared = (given: Json): Json => {
    const listen = { public_url: front.origin, ...(isObject(given['listen']) && given['listen']) }
    const isOwn = given['store'] === undefined || given['store'] === 'memory'
    return { ...given, listen, ...(isOwn && { store: join(folder, 'store') }) }
  }
  const closeAll = async (): Promise<void> => {
    await front.close()
    await Promise.all(gateways.map((each) => each.close()))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    for (let index = 0; index < scattered; index++) gateways.push(await start(shared(config), options))
    const [first] = gateways
    if (!first) throw new Error('there is no gateway')
    const joined = (read: (each: RunningGateway) => string) => () => gateways.map(read).join('')
    return {
      ...first,
      url: front.url,
      origin: front.origin,
      stdout: joined((each) => each.stdout()),
      stderr: joined((each) => each.stderr()),
      log: () => gateways.flatMap((each) => each.log()),
      logged: (predicate, timeoutMs) =>
        Promise.any(gateways.map((each) => each.logged(predicate, timeoutMs))).catch((error: unknown) => {
          throw error instanceof AggregateError ? error.errors[0] : error
        }),
      configure: (next) => {
        for (const each of gateways) each.configure(typeof next === 'string' ? next : shared(next))
      },
      stop: () => gateways.forEach((each) => each.stop()),
      close: closeAll,
    }
  } catch (error) {
    await closeAll()
    throw error
  }
}
