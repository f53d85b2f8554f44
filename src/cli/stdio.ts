import { environment } from '../config/secrets.ts'
import { createGateway, openLog } from '../gateway.ts'
import { readOptions, readSource, warn } from './options.ts'
import { settleMemory } from './settle.ts'
import { untilStopped } from './stop.ts'

/** `gatehouse stdio`: is itself a stdio MCP server, until its client closes it. */
export async function stdio(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['config', 'log-level'])
  const source = readSource(options, warn)
  const log = openLog(options.logLevel, process.stderr.isTTY)
  const gateway = createGateway(source.settings, { variables: environment(), log })
  const served = gateway.stdio(process.stdin, process.stdout)
  const warmed = gateway.warm()
  warmed.then(settleMemory, settleMemory)
  const collisions = await Promise.race([warmed, served.then(() => [])])
  for (const each of collisions)
    process.stderr.write(`gatehouse: two tools or prompts have one name: ${each}\n`)
  if (collisions.length === 0) await Promise.race([served, untilStopped()])
  await gateway.close()
  process.stdin.destroy()
  return collisions.length === 0 ? 0 : 1
}
