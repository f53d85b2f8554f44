/**
 * Finds the command in the arguments, loads its module on demand, runs it, and returns the exit code (0 success,
 * 1 a problem was found, 2 wrong usage).
 */
import { ConfigError, problemLine } from '../config/problem.ts'
import { urlMistake } from '../config/names.ts'
import { Redactor } from '../core/text/redactor.ts'
import { type Io, print, printError } from './io.ts'
import { helpOf, overview, version } from './help-text.ts'
import { didYouMean, UsageError } from './words.ts'

type Command = (words: readonly string[], io: Io) => Promise<number>
type Load = () => Promise<Command>

// Each is loaded on demand: a serving gateway does not keep the other commands in memory.
const commands: { readonly [name: string]: Load; readonly serve: Load } = {
  serve: async () => (await import('./serve.ts')).serve,
  stdio: async () => (await import('./serve.ts')).stdio,
  check: async () => (await import('./check.ts')).check,
  explain: async () => (await import('./explain.ts')).explain,
  call: async () => (await import('./call.ts')).call,
  plan: async () => (await import('./plan.ts')).plan,
  prove: async () => (await import('./prove.ts')).prove,
  init: async () => (await import('./init.ts')).init,
  lint: async () => (await import('./lint.ts')).lint,
  test: async () => (await import('./test.ts')).test,
  audit: async () => (await import('./audit.ts')).audit,
  changelog: async () => (await import('./changelog.ts')).changelog,
  health: async () => (await import('./health.ts')).health,
  store: async () => (await import('./store.ts')).store,
  approvals: async () => (await import('./approvals.ts')).approvals,
  tx: async () => (await import('./tx.ts')).tx,
  ops: async () => (await import('./ops.ts')).ops,
  events: async () => (await import('./events.ts')).events,
  refs: async () => (await import('./refs.ts')).refs,
  record: async () => (await import('./record.ts')).record,
  replay: async () => (await import('./replay.ts')).replay,
  diff: async () => (await import('./diff.ts')).diff,
  conformance: async () => (await import('./conformance.ts')).conformance,
  undo: async () => (await import('./undo.ts')).undo,
  verify: async () => (await import('./verify.ts')).verify,
  skill: async () => (await import('./export.ts')).skill,
  export: async () => (await import('./export.ts')).exportEntry,
}

const simulatorMoved =
  'the simulator is not part of the installed gateway any more: in a checkout of its repository, run npm run simulate (docs/simulation.md)'

/** Runs a command line and returns the exit code: 0 success, 1 a problem was found, 2 wrong usage. */
export async function run(words: readonly string[], io: Io): Promise<number> {
  const [first, ...rest] = words
  const isCommand = first !== undefined && Object.hasOwn(commands, first)
  const name = isCommand ? first : 'serve'
  const others = isCommand ? rest : words
  if (first === 'help') return help(rest[0], io)
  const beforeCommand = others.includes('--') ? others.slice(0, others.indexOf('--')) : others
  if (beforeCommand.includes('--version') || first === '-v') return printed(version, io)
  if (beforeCommand.includes('--help') || beforeCommand.includes('-h'))
    return printed(isCommand ? helpOf(name) : overview, io)
  if (first === 'simulate') return failed([simulatorMoved], 2, io)
  if (!isCommand && first !== undefined && !/^(?:-|https?:)/.test(first)) {
    const mistake = urlMistake(first)
    if (mistake !== undefined) return failed([`"${first}": ${mistake}`], 2, io)
    const meant = `Run gatehouse --help, or gatehouse serve -- ${words.join(' ')}`
    return failed([`unknown command "${first}"${didYouMean(first, Object.keys(commands))}. ${meant}`], 2, io)
  }
  // The streams of the process are opened when they are first used, so they are inherited and not copied.
  const discreet: Io = Object.assign(Object.create(io), { redactor: new Redactor() })
  try {
    const command = await (commands[name] ?? commands.serve)()
    return await command(others, discreet)
  } catch (error) {
    if (error instanceof UsageError)
      return failed([`${error.message}. Run gatehouse ${name} --help`], 2, discreet)
    if (error instanceof ConfigError) return failed(error.problems.map(problemLine), 1, discreet)
    return failed([error instanceof Error ? error.message : String(error)], 1, discreet)
  }
}

function help(command: string | undefined, io: Io): number {
  if (command === undefined) return printed(overview, io)
  if (Object.hasOwn(commands, command)) return printed(helpOf(command), io)
  return failed(
    [`unknown command "${command}"${didYouMean(command, Object.keys(commands))}. Run gatehouse --help`],
    2,
    io,
  )
}

function printed(text: string, io: Io): number {
  print(text, io)
  return 0
}

function failed(messages: readonly string[], code: number, io: Io): number {
  for (const message of messages) printError(message, io)
  return code
}
