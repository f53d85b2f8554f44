import { ConfigError } from '../config/problem.ts'
import { approvals } from './approvals.ts'
import { audit } from './audit.ts'
import { changelog } from './changelog.ts'
import { check } from './check.ts'
import { explain } from './explain.ts'
import { exportEntry } from './export.ts'
import { helpOf, overview, version } from './help-text.ts'
import { init } from './init.ts'
import { lint } from './lint.ts'
import { UsageError } from './options.ts'
import { plan } from './plan.ts'
import { serve } from './serve.ts'
import { skill } from './skill.ts'
import { stdio } from './stdio.ts'
import { store } from './store.ts'
import { tx } from './tx.ts'
import { undo } from './undo.ts'
import { verify } from './verify.ts'

type Command = (words: readonly string[]) => Promise<number>

const commands: Readonly<Record<string, Command>> = {
  serve,
  stdio,
  check,
  explain,
  plan,
  init,
  lint,
  audit,
  changelog,
  store,
  approvals,
  tx,
  undo,
  verify,
  skill,
  export: exportEntry,
}

/** Runs a command line; the exit code: 0 good, 1 found a problem, 2 wrong usage. */
export async function run(words: readonly string[]): Promise<number> {
  const [first, ...rest] = words
  const isCommand = first !== undefined && Object.hasOwn(commands, first)
  const name = isCommand ? first : 'serve'
  const others = isCommand ? rest : words
  if (first === '--version' || first === '-v') return print(version)
  if (first === 'help') return print(rest[0] === undefined ? overview : helpOf(rest[0]))
  const own = others.includes('--') ? others.slice(0, others.indexOf('--')) : others
  if (own.includes('--help') || own.includes('-h')) return print(isCommand ? helpOf(name) : overview)
  if (!isCommand && first !== undefined && !/^(?:-|https?:)/.test(first)) {
    return complain(
      `there is no command "${first}". Run gatehouse --help, or gatehouse serve -- ${words.join(' ')}`,
      2,
    )
  }
  try {
    return await (commands[name] ?? serve)(others)
  } catch (error) {
    if (error instanceof UsageError) return complain(`${error.message}. Run gatehouse ${name} --help`, 2)
    if (error instanceof ConfigError) return complain(error.message, 1)
    return complain(error instanceof Error ? error.message : String(error), 1)
  }
}

function print(text: string): number {
  process.stdout.write(`${text}\n`)
  return 0
}

function complain(message: string, code: number): number {
  process.stderr.write(`gatehouse: ${message}\n`)
  return code
}
