/**
 * Finds the command in the arguments, loads what it does, runs it, and returns the exit code (0 success, 1 a problem was found,
 * 2 wrong usage).
 */
import { ConfigError, problemLine } from '../config/problem.ts'
import { urlMistake } from '../config/names.ts'
import { Redactor } from '../core/text/redactor.ts'
import { didYouMean, type Given, parse, UsageError } from './command.ts'
import { commands, names } from './commands.ts'
import { type Io, print, printError } from './io.ts'
import { type Output, printOutput } from './output.ts'

type Commands = typeof commands

/** What a command does. */
type Run<Name extends keyof Commands> = (given: Given<Commands[Name]>, io: Io) => Promise<Output>

// Each is loaded on demand: a serving gateway does not keep the other commands in memory.
const loads: { readonly [Name in keyof Commands]: () => Promise<Run<Name>> } = {
  serve: async () => (await import('./workers.ts')).serve,
  stdio: async () => (await import('./serve.ts')).stdio,
  check: async () => (await import('./check.ts')).check,
  explain: async () => (await import('./explain.ts')).explain,
  call: async () => (await import('./call.ts')).call,
  plan: async () => (await import('./plan.ts')).plan,
  prove: async () => (await import('./prove.ts')).prove,
  skill: async () => (await import('./documents.ts')).skill,
  'export registry': async () => (await import('./documents.ts')).exportRegistry,
  lock: async () => (await import('./lock.ts')).lock,
  accept: async () => (await import('./lock.ts')).accept,
  doctor: async () => (await import('./doctor.ts')).doctor,
  lint: async () => (await import('./lint.ts')).lint,
  test: async () => (await import('./test.ts')).test,
  init: async () => (await import('./init.ts')).init,
  connect: async () => (await import('./connect.ts')).connect,
  disconnect: async () => (await import('./connect.ts')).disconnect,
  'approvals list': async () => (await import('./approvals.ts')).list,
  'approvals show': async () => (await import('./approvals.ts')).show,
  'approvals approve': async () => (await import('./approvals.ts')).approve,
  'approvals deny': async () => (await import('./approvals.ts')).deny,
  'approvals test': async () => (await import('./approvals-test.ts')).test,
  pause: async () => (await import('./pause.ts')).pause,
  resume: async () => (await import('./pause.ts')).resume,
  'fleet list': async () => (await import('./fleet.ts')).list,
  'fleet drain': async () => (await import('./fleet.ts')).drain,
  'tx list': async () => (await import('./tx.ts')).list,
  'tx show': async () => (await import('./tx.ts')).show,
  'tx rollback': async () => (await import('./tx.ts')).rollback,
  'tx ack': async () => (await import('./tx.ts')).ack,
  'ops list': async () => (await import('./ops.ts')).list,
  'ops show': async () => (await import('./ops.ts')).show,
  'ops cancel': async () => (await import('./ops.ts')).cancel,
  'events list': async () => (await import('./event-types.ts')).list,
  'events tail': async () => (await import('./event-tail.ts')).tail,
  'events subscriptions': async () => (await import('./event-subscriptions.ts')).list,
  'events subscriptions drop': async () => (await import('./event-subscriptions.ts')).drop,
  'events dead-letters': async () => (await import('./event-subscriptions.ts')).deadLetters,
  'events redeliver': async () => (await import('./event-subscriptions.ts')).redeliver,
  log: async () => (await import('./call-log.ts')).log,
  forget: async () => (await import('./forget.ts')).forget,
  'refs list': async () => (await import('./refs.ts')).list,
  'refs show': async () => (await import('./refs.ts')).show,
  'refs get': async () => (await import('./refs.ts')).get,
  'refs put': async () => (await import('./refs.ts')).put,
  'refs drop': async () => (await import('./refs.ts')).drop,
  record: async () => (await import('./recordings.ts')).record,
  replay: async () => (await import('./recordings.ts')).replay,
  diff: async () => (await import('./recordings.ts')).diff,
  conformance: async () => (await import('./conformance.ts')).conformance,
  undo: async () => (await import('./undo.ts')).undo,
  verify: async () => (await import('./verify.ts')).verify,
  'audit verify': async () => (await import('./verify.ts')).verifyAudits,
  changelog: async () => (await import('./documents.ts')).changelog,
  health: async () => (await import('./health.ts')).health,
  'store info': async () => (await import('./store.ts')).info,
  'store export': async () => (await import('./store.ts')).exportAll,
  'store import': async () => (await import('./store.ts')).importAll,
  'store accept': async () => (await import('./store.ts')).accept,
  completion: async () => (await import('./completion.ts')).completion,
}

const SIMULATOR_MOVED =
  'the simulator is not part of the installed gateway any more: in a checkout of its repository, run npm run simulate (docs/simulation.md)'

/** Runs a command line and returns the exit code: 0 success, 1 a problem was found, 2 wrong usage. */
export async function run(words: readonly string[], io: Io): Promise<number> {
  const [first, ...rest] = words
  const isCommand = first !== undefined && names.includes(first)
  const name = isCommand ? first : 'serve'
  const others = isCommand ? rest : words
  if (first === 'help') return help(rest[0], io)
  const beforeCommand = others.includes('--') ? others.slice(0, others.indexOf('--')) : others
  if (beforeCommand.includes('--version') || first === '-v') return version(io)
  if (beforeCommand.includes('--help') || beforeCommand.includes('-h'))
    return help(isCommand ? name : undefined, io)
  if (first === 'simulate') return failed([SIMULATOR_MOVED], 2, io)
  if (!isCommand && first !== undefined && !/^(?:-|https?:)/.test(first)) {
    const mistake = urlMistake(first)
    if (mistake !== undefined) return failed([`"${first}": ${mistake}`], 2, io)
    const meant = `Run gatehouse --help, or gatehouse serve -- ${words.join(' ')}`
    return failed([`unknown command "${first}"${didYouMean(first, names)}. ${meant}`], 2, io)
  }
  // The streams of the process are opened when they are first used, so they are inherited and not copied.
  const discreet: Io = Object.assign(Object.create(io), { redactor: new Redactor() })
  try {
    const [found, given] = parse(name, others, commands)
    // What is parsed has the type that the command declares.
    const act = (await loads[found]()) as (given: object, io: Io) => Promise<Output>
    return await printOutput(await act(given, discreet), given.json === true, discreet)
  } catch (error) {
    if (error instanceof UsageError)
      return failed([`${error.message}. Run gatehouse ${name} --help`], 2, discreet)
    if (error instanceof ConfigError) return failed(error.problems.map(problemLine), 1, discreet)
    return failed([error instanceof Error ? error.message : String(error)], 1, discreet)
  }
}

async function version(io: Io): Promise<number> {
  print((await import('./help.ts')).version, io)
  return 0
}

async function help(command: string | undefined, io: Io): Promise<number> {
  const { helpOf, overview } = await import('./help.ts')
  if (command !== undefined && !names.includes(command))
    return failed([`unknown command "${command}"${didYouMean(command, names)}. Run gatehouse --help`], 2, io)
  print(command === undefined ? overview() : helpOf(command), io)
  return 0
}

function failed(messages: readonly string[], code: number, io: Io): number {
  for (const message of messages) printError(message, io)
  return code
}
