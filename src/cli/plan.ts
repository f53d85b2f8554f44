/**
 * `gatehouse plan`: proposes undo rules from tool lists; `--write` adds the certain ones to the configuration,
 * with all comments kept.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { addToolSettings, type ToolAddition } from '../config/add-settings.ts'
import { environment } from '../config/secrets.ts'
import { Gateway, openLog } from '../gateway/gateway.ts'
import { looking, readNamed } from './named-server.ts'
import { type Source, UsageError } from './options.ts'
import { type Planned, planText, proposalsOf } from './format/plan.ts'

/** `gatehouse plan [server]`: prints how tools could be undone, as settings to paste, or writes them into the file. */
export async function plan(args: readonly string[]): Promise<number> {
  const named = readNamed(args, ['config', 'log-level', 'json', 'write'])
  const { source, server, words, isJson, isWriting } = named
  if (words.length > 0) throw new UsageError('name one server, or none for all')
  if (isJson && isWriting) throw new UsageError('give either --json or --write, not both')
  if (isWriting && source.file === undefined)
    throw new UsageError('--write needs a configuration file: make one with gatehouse init')
  const upstreams = server ? [server] : source.settings.upstreams
  const settings = looking(source.settings, upstreams)
  const gateway = new Gateway(settings, { variables: environment(), log: openLog('error', true) })
  const planned: Planned[] = []
  const problems: string[] = []
  try {
    await gateway.start()
    for (const { name, tools } of upstreams) {
      const problem = gateway.statuses.get(name)?.problem
      if (problem === undefined) planned.push({ upstream: name, tools, entries: await gateway.entries(name) })
      else problems.push(`${name}: ${problem}`)
    }
  } finally {
    await gateway.close()
  }
  for (const problem of problems) process.stderr.write(`${problem}\n`)
  if (isWriting && !write(planned, source)) return 1
  if (isJson) process.stdout.write(`${JSON.stringify(objectOf(planned), null, 2)}\n`)
  if (!isJson && !isWriting && planned.length > 0) process.stdout.write(planText(planned))
  return problems.length === 0 ? 0 : 1
}

function objectOf(planned: readonly Planned[]): object {
  return {
    servers: planned.map((each) => ({ name: each.upstream, tools: proposalsOf(each) })),
  }
}

/** Writes what is sure into the configuration file. Whether that was possible. */
function write(planned: readonly Planned[], { file = '', text = '', read }: Source): boolean {
  const additions = planned.flatMap((each) =>
    proposalsOf(each).flatMap(({ tool, notes, settings }): ToolAddition[] =>
      Object.keys(settings).length === 0
        ? []
        : [{ upstream: each.upstream, tool, settings: { ...settings }, comment: notes }],
    ),
  )
  if (additions.length === 0) {
    process.stdout.write('There is nothing to add.\n')
    return true
  }
  const refused = (why: string): boolean => {
    process.stderr.write(
      `gatehouse: ${file} is left as it is: ${why}. Paste what gatehouse plan prints into it instead.\n`,
    )
    return false
  }
  const added = addToolSettings(text, additions)
  if ('problem' in added) return refused(added.problem)
  if (readFileSync(file, 'utf8') !== text) return refused('it was changed meanwhile')
  try {
    read(added.text)
  } catch (error) {
    return refused(`it would not be valid: ${error instanceof Error ? error.message : String(error)}`)
  }
  writeFileSync(file, added.text)
  const tools = additions.map(({ upstream, tool }) => `  ${upstream} ${tool}\n`)
  process.stdout.write(`Added ${added.count} settings to ${file}, for\n${tools.join('')}`)
  process.stdout.write('Read them before you rely on them: gatehouse explain SERVER TOOL says why.\n')
  return true
}
