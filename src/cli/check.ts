import { environment } from '../config/secrets.ts'
import { createGateway, openLog } from '../gateway.ts'
import { readOptions, readSource, warn } from './options.ts'

/** `gatehouse check`: reads the configuration, connects to each server, and prints every problem at once. */
export async function check(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['config', 'log-level'])
  const source = readSource(options, warn)
  const gateway = createGateway(source.settings, { variables: environment(), log: openLog('error', true) })
  const collisions = await gateway.warm()
  const problems = collisions.map((each) => `two tools or prompts have one name: ${each}`)
  for (const [name, { problem, revision }] of gateway.statuses) {
    if (problem === undefined) process.stdout.write(`${name}: ready, speaks ${revision}\n`)
    else problems.push(`upstreams.${name}: ${problem}`)
  }
  await gateway.close()
  for (const problem of problems) process.stderr.write(`${source.file ?? 'command line'}: ${problem}\n`)
  return problems.length === 0 ? 0 : 1
}
