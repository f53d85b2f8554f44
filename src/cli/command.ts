/**
 * A command is a value: its options, its arguments and its texts. Parsing, help (`help.ts`), completion (`completion.ts`) and the
 * manual come from it. `commands.ts` has all of them, and `run.ts` loads what one does when it runs.
 */
import { parseArgs } from 'node:util'
import { isObject } from '../core/json/json.ts'
import { nearest } from '../core/text/words.ts'
import { milliseconds, timeIn } from '../core/time/units.ts'

/** An invalid command line; the exit code is 2. The message says what to write instead. */
export class UsageError extends Error {}

/** An option, and how its value is read from the texts behind each of its occurrences. */
export interface Option<Value = unknown> {
  readonly about: string
  /** The placeholder of its value in help; a flag has none. */
  readonly value?: string
  /** The letter of its short form. */
  readonly short?: string
  readonly isRepeated?: boolean
  readonly isRequired?: boolean
  /** One of those that many commands have: the usage lines in help leave it out. */
  readonly isCommon?: boolean
  /** Accepted without an effect, because it once was: help leaves it out. */
  readonly isIgnored?: boolean
  /** All its values. */
  readonly choices?: readonly string[]
  /** Its values that begin with a hyphen, and are no options nevertheless. */
  readonly dashed?: RegExp
  /** `name` has its hyphens. @throws UsageError */
  read(texts: readonly string[], name: string): Value
}

/** A word that is no option. */
export interface Argument<Value = unknown> {
  /** What it is, in words: `the id of a transaction`. */
  readonly about: string
  readonly value: string
  readonly count: 'one' | 'optional' | 'any' | 'some'
  /** A server of the configuration, or a URL; all words behind `--` are the command of one. */
  readonly isServer?: boolean
  /** The words behind `--`. */
  readonly isCommand?: boolean
  /** What stands for it in usage lines, in place of `value`. */
  readonly usage?: string
  readonly choices?: readonly string[]
  readonly dashed?: RegExp
  /** Carries the type. */
  readonly type?: Value
}

type NamedOptions = Readonly<Record<string, Option>>
type Arguments = Readonly<Record<string, Argument>>

/** What is known of a command without loading it. */
export interface Command<Of extends NamedOptions = NamedOptions, With extends Arguments = Arguments> {
  /** What it does, as part of a sentence: `list transactions`. */
  readonly summary: string
  /** What else help says. Its lines are wrapped again. */
  readonly about?: string
  readonly arguments: With
  readonly options: Of
  /** What to do about words that are too many. */
  readonly hint?: string
  /** Command lines, without `gatehouse`, and what each does. */
  readonly examples?: Readonly<Record<string, string>>
  readonly exitCodes?: string
  /** The page of the manual about it. */
  readonly page?: string
}

/** The options and arguments of a command line, by their names in camel case. */
export type Given<Declared extends Command> = Values<Declared['options']> & Values<Declared['arguments']>

type Values<Named> = {
  readonly [Name in keyof Named as Camel<Name & string>]: Named[Name] extends Option<infer Value>
    ? Value
    : Named[Name] extends Argument<infer Value>
      ? Value
      : never
}

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name

/** Declares a command. */
export function defineCommand<const Of extends NamedOptions = {}, const With extends Arguments = {}>({
  options,
  arguments: words,
  ...texts
}: Omit<Command, 'options' | 'arguments'> & { readonly options?: Of; readonly arguments?: With }): Command<
  Of,
  With
> {
  return { ...texts, options: options ?? ({} as Of), arguments: words ?? ({} as With) }
}

// Options.

export function flag(about: string, more: Partial<Option<boolean>> = {}): Option<boolean> {
  return { about, ...more, read: (texts) => texts.length > 0 }
}

/** An option with a text; of several, the last one counts. */
export function text(
  value: string,
  about: string,
  more: Partial<Option<string | undefined>> = {},
): Option<string | undefined> {
  return { value, about, ...more, read: (texts) => texts.at(-1) }
}

/** An option that may be repeated. */
export function texts(value: string, about: string): Option<readonly string[]> {
  return { value, about, isRepeated: true, read: (given) => given }
}

export function oneOf<const Choice extends string>(
  value: string,
  choices: readonly Choice[],
  about: string,
): Option<Choice | undefined> {
  const read = (given: string, name: string): Choice => choiceOf(given, name, choices)
  return { ...parsed(value, `${about}: ${listed(choices)}`, read), choices }
}

function choiceOf<Choice extends string>(given: string, name: string, choices: readonly Choice[]): Choice {
  const found = choices.find((each) => each === given)
  if (found !== undefined) return found
  throw new UsageError(`${name} must be one of ${choices.join(', ')}${didYouMean(given, choices)}`)
}

/** A whole number in a range. */
export function number(
  about: string,
  { least = 0, most }: { readonly least?: number; readonly most: number },
): Option<number | undefined> {
  return parsed('N', about, (given, name) => {
    const found = Number(given)
    if (!/^\d{1,10}$/.test(given) || found < least || found > most)
      throw new UsageError(`${name} must be a number from ${least} to ${most}`)
    return found
  })
}

/** A whole number in a range, or a word. */
export function numberOr<const Word extends string>(
  word: Word,
  about: string,
  range: { readonly least: number; readonly most: number },
): Option<number | Word | undefined> {
  const { read } = number(about, range)
  const readOne = (given: string, name: string): number | Word => {
    if (given === word) return word
    const found = /^\d/.test(given) ? read([given], name) : undefined
    if (found !== undefined) return found
    throw new UsageError(`${name} must be ${word}, or a number from ${range.least} to ${range.most}`)
  }
  return parsed('N', about, readOne)
}

/** A duration in milliseconds; `such` has examples of it. */
export function duration(about: string, such: string): Option<number | undefined> {
  return parsed('TIME', about, (given, name) => {
    try {
      return milliseconds(given)
    } catch {
      throw new UsageError(`${name} must be a duration such as ${such}`)
    }
  })
}

/** A duration ago, or a time, in milliseconds since 1970. */
export function time(about: string): Option<number | undefined> {
  return parsed('WHEN', about, (given, name) => {
    const at = timeIn(given, Date.now())
    if (at !== undefined) return at
    throw new UsageError(`${name} must be a duration such as 10m or 2h, or a time such as 2026-11-21T10:00Z`)
  })
}

function parsed<Value>(
  value: string,
  about: string,
  read: (given: string, name: string) => Value,
): Option<Value | undefined> {
  return {
    value,
    about,
    read: (given, name) => {
      const last = given.at(-1)
      return last === undefined ? undefined : read(last, name)
    },
  }
}

/** The same option, without which a command is not run. */
export function required<Value>(option: Option<Value | undefined>): Option<Value> {
  return {
    ...option,
    isRequired: true,
    read: (given, name) => {
      const value = option.read(given, name)
      if (value === undefined) throw new UsageError(`${name} is required: ${option.about}`)
      return value
    },
  }
}

// Arguments.

export function argument(
  value: string,
  about: string,
  more: Pick<Argument, 'dashed'> = {},
): Argument<string> {
  return { ...more, value, about, count: 'one' }
}

/** A word of a list. */
export function choice<const Choice extends string>(
  value: string,
  choices: readonly Choice[],
  about: string,
): Argument<Choice> {
  return { value, about, choices, count: 'one' }
}

export function optional(value: string, about: string): Argument<string | undefined> {
  return { value, about, count: 'optional' }
}

export function rest(
  value: string,
  about: string,
  count: 'any' | 'some' = 'any',
): Argument<readonly string[]> {
  return { value, about, count }
}

/** The server that a command is about: the name of one in the configuration, or the words of one without a configuration. */
export type ServerWords = { readonly name: string } | { readonly words: readonly string[] }

export const oneServer: Argument<ServerWords> = {
  value: 'SERVER',
  about: 'a server of the configuration',
  count: 'one',
  isServer: true,
}
/** Without one, the command is about all servers of the configuration. */
export const anyServer: Argument<ServerWords | undefined> = {
  ...oneServer,
  count: 'optional',
  type: undefined,
}
/** The words behind `--`. */
export const serverCommand: Argument<readonly string[] | undefined> = {
  value: '-- COMMAND',
  about: 'a command',
  count: 'any',
  isCommand: true,
  usage: '',
}

// Parsing.

/** The words of a command line in their parts. */
interface CommandLine {
  readonly options: ReadonlyMap<string, readonly string[]>
  /** The words that are no options. */
  readonly words: readonly string[]
  /** The words behind `--`, if they are not arguments. */
  readonly command: readonly string[] | undefined
}

/**
 * Finds the command of a name, such as `tx`, and what is given to it; of a group, the words after the options say which, such as
 * `list`. @throws UsageError
 */
export function parse<Commands extends Readonly<Record<string, Command>>>(
  name: string,
  args: readonly string[],
  commands: Commands,
): readonly [name: keyof Commands & string, given: Readonly<Record<string, unknown>>] {
  const ofGroup = namesIn(name, commands)
  const parts = partsOf(
    args,
    ofGroup.flatMap((each) => commands[each] ?? []),
  )
  const found = [2, 1, 0]
    .map((count) => [name, ...parts.words.slice(0, count)].join(' '))
    .find((each) => Object.hasOwn(commands, each))
  const command = found === undefined ? undefined : commands[found]
  if (found === undefined || command === undefined) throw unknownAction(name, ofGroup, parts.words[0])
  const words = parts.words.slice(found.split(' ').length - name.split(' ').length)
  const stray = [...parts.options.keys()].find((option) => !Object.hasOwn(command.options, option))
  if (stray !== undefined) throw new UsageError(`--${stray} is not an option of ${found}`)
  const values = Object.entries(command.options).map(([option, { read }]) => [
    camelCase(option),
    read(parts.options.get(option) ?? [], `--${option}`),
  ])
  return [found, { ...Object.fromEntries(values), ...argumentsOf(found, command, { ...parts, words }) }]
}

/** The names of a command, or of the commands of a group. */
export function namesIn(name: string, commands: Readonly<Record<string, Command>>): readonly string[] {
  return Object.keys(commands).filter((each) => each === name || each.startsWith(`${name} `))
}

function unknownAction(name: string, ofGroup: readonly string[], given = ''): UsageError {
  const actions = [...new Set(ofGroup.map((each) => each.split(' ')[1] ?? ''))]
  return new UsageError(`use gatehouse ${name} ${listed(actions)}${didYouMean(given, actions)}`)
}

/** Several words as part of a sentence. */
function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

/** Separates options from words, for a command or any of a group. @throws UsageError */
function partsOf(args: readonly string[], commands: readonly Command[]): CommandLine {
  const known: NamedOptions = Object.assign({}, ...commands.map(({ options }) => options))
  const words = commands.flatMap((each) => Object.values(each.arguments))
  const separator = args.indexOf('--')
  const isCut = separator !== -1 && words.some(({ isServer, isCommand }) => isServer ?? isCommand)
  const before = isCut ? args.slice(0, separator) : args
  const types = Object.fromEntries(
    Object.entries(known).map(([name, { value, short }]) => [
      name,
      {
        type: value === undefined ? ('boolean' as const) : ('string' as const),
        multiple: true,
        ...(short !== undefined && { short }),
      },
    ]),
  )
  try {
    const { values, positionals } = parseArgs({
      args: withDashed(before, known, words),
      allowPositionals: true,
      options: types,
    })
    const options = Object.entries(values).map(
      ([name, given]) => [name, [given ?? []].flat().map(String)] as const,
    )
    return {
      options: new Map(options),
      words: positionals,
      command: isCut ? args.slice(separator + 1) : undefined,
    }
  } catch (error) {
    const message = error instanceof Error ? error.message.replace(/\.\s.*$/s, '') : String(error)
    const unknown = /^Unknown option '(-[^']*)'/.exec(message)?.[1] ?? ''
    const names = Object.keys(known).map((name) => `--${name}`)
    throw new UsageError(`${message}${didYouMean(unknown, names)}`)
  }
}

/** Marks the values that begin with a hyphen, which `parseArgs` reads as options. */
function withDashed(args: readonly string[], known: NamedOptions, words: readonly Argument[]): string[] {
  const optionAt = (at: number): Option | undefined =>
    Object.entries(known).find(([name]) => args[at] === `--${name}`)?.[1]
  const isValue = (at: number): boolean => optionAt(at - 1)?.dashed?.test(args[at] ?? '') === true
  const joined = args.flatMap((word, at) => {
    if (isValue(at)) return []
    return isValue(at + 1) ? [`${word}=${args[at + 1]}`] : [word]
  })
  const isWord = (word: string): boolean => words.some(({ dashed }) => dashed?.test(word))
  if (args.includes('--') || !joined.some(isWord)) return joined
  return [...joined.filter((word) => !isWord(word)), '--', ...joined.filter(isWord)]
}

/** @throws UsageError */
function argumentsOf(
  name: string,
  command: Command,
  { words, command: behind }: CommandLine,
): Readonly<Record<string, unknown>> {
  const usage = `use gatehouse ${[name, ...argumentWords(command)].join(' ')}`
  const values: Record<string, unknown> = {}
  let server: unknown
  const left = [...words]
  if (behind?.length === 0) throw new UsageError('give a command after --')
  for (const [key, each] of Object.entries(command.arguments)) {
    const isNeeded = each.count === 'one' || each.count === 'some'
    if (isNeeded && left.length === 0 && !(each.isServer && behind))
      throw new UsageError(missing(each, server) ?? `${name.split(' ').at(-1)} needs ${each.about}: ${usage}`)
    if (each.isCommand) values[key] = behind
    else if (each.isServer)
      values[key] = server = behind ? { words: behind } : left.splice(0, 1).map(serverWords)[0]
    else if (each.choices) values[key] = choiceOf(left.shift() ?? '', each.value, each.choices)
    else values[key] = each.count === 'any' || each.count === 'some' ? left.splice(0) : left.shift()
  }
  const [extra] = left
  if (extra === undefined) return values
  throw new UsageError(`unexpected argument ${JSON.stringify(extra)}: ${command.hint ?? usage}`)
}

/** What is missing of a command about a server, of which `server` was given before. */
function missing({ about, isServer }: Argument, server: unknown): string | undefined {
  if (isServer) return `give ${about}`
  const of = isObject(server) && typeof server.name === 'string' ? ` of ${server.name}` : ''
  return server === undefined ? undefined : `give ${about}${of}`
}

/** The server that a word is about. */
export function serverWords(word: string): ServerWords {
  return /^https?:/i.test(word) ? { words: [word] } : { name: word }
}

/** The arguments of a command in a usage line. */
export function argumentWords(command: Command): string[] {
  return Object.values(command.arguments)
    .map(argumentWord)
    .filter((word) => word !== '')
}

export function argumentWord({ value, count, usage }: Argument): string {
  if (usage !== undefined) return usage
  if (count === 'one') return value
  return count === 'optional' ? `[${value}]` : count === 'some' ? `${value}…` : `[${value}…]`
}

function camelCase(name: string): string {
  return name.replaceAll(/-(.)/g, (_all, letter: string) => letter.toUpperCase())
}

/** A suffix for an error message: `; did you mean serve?`, or empty if no word is similar. */
export function didYouMean(word: string, words: readonly string[]): string {
  const found = nearest(word, words)
  return found === undefined || found === word ? '' : `; did you mean ${found}?`
}
