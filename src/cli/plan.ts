import { environment } from '../config/secrets.ts'
import { createGateway, openLog } from '../gateway.ts'
import { looking, readNamed } from './named.ts'
import { UsageError } from './options.ts'
import { type Planned, planText } from './plan-text.ts'

/** `gatehouse plan [server]`: prints how tools could be undone, as settings to paste. */
export async function plan(args: readonly string[]): Promise<number> {
  const { source, server, words } = readNamed(args, ['config', 'log-level'])
  if (words.length > 0) throw new UsageError('name one server, or none for all')
  const upstreams = server ? [server] : source.settings.upstreams
  const settings = looking(source.settings, upstreams)
  const gateway = createGateway(settings, { variables: environment(), log: openLog('error', true) })
  const planned: Planned[] = []
  const problems: string[] = []
  try {
    await gateway.warm()
    for (const { name, tools } of upstreams) {
      const problem = gateway.statuses.get(name)?.problem
      if (problem === undefined) planned.push({ upstream: name, tools, entries: await gateway.entries(name) })
      else problems.push(`${name}: ${problem}`)
    }
  } finally {
    await gateway.close()
  }
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (planned.length > 0) process.stdout.write(planText(planned))
  return problems.length === 0 ? 0 : 1
}
