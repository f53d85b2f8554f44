import { environment } from '../config/secrets.ts'
import { createGateway, openLog } from '../gateway.ts'
import { foresee, goesOn, tell } from './check.ts'
import { readServed } from './options.ts'
import { untilStopped } from './stop.ts'

/** `gatehouse stdio`: is itself a stdio MCP server, until its client closes it. */
export async function stdio(args: readonly string[]): Promise<number> {
  const [options, source] = readServed(args, ['config', 'log-level'])
  const log = openLog(options.logLevel, process.stderr.isTTY)
  const foreseen = await foresee(source)
  tell(foreseen, source)
  if (foreseen.length > 0) return 1
  const stopped = untilStopped({ onHangUp: true })
  const gateway = createGateway(source.settings, { variables: environment(), log })
  const ended = Promise.race([gateway.stdio(process.stdin, process.stdout), stopped])
  const found = await Promise.race([gateway.start(), ended.then(() => [])])
  const isServing = goesOn(found, source, log)
  if (isServing) await ended
  await gateway.close()
  process.stdin.destroy()
  return isServing ? 0 : 1
}
