/** Help as text, from the commands: the overview, the help of one command, and the pages of the manual. */
import { self } from '../core/identity.ts'
import { argumentWord, argumentWords, type Command, namesIn, type Option } from './command.ts'
import { groups } from './command-groups.ts'
import { commands, names } from './commands.ts'

/** The output of `--version`. */
export const version = `gatehouse ${self.version}`

/** The longest line of help, in characters. */
const MAX_LINE = 120
/** The widest left column. */
const MAX_COLUMN = 40
const NO_BREAK = '\u00a0'

const all: Readonly<Record<string, Command>> = commands

/** The output of `--help` without a command. */
export function overview(): string {
  const lines = names.flatMap((name) => {
    const [first = name] = namesIn(name, all)
    const { examples = {} } = all[first] ?? {}
    const others = Object.entries(examples)
    return [[firstLine(name), summaryOf(name)], ...others].map(([line = '', what = '']) =>
      columns(`gatehouse ${line.replaceAll(NO_BREAK, ' ')}`, what, MAX_COLUMN + 2),
    )
  })
  return `Gatehouse ${self.version}: a gateway in front of MCP servers

Usage
${lines.join('\n')}

  Every command takes --help and --version. The default of --config is gateway.config.yaml.
  Variables come from the environment, else from --env-file FILE, else from .env next to the configuration.
  Exit codes: 0 success, 1 a problem was found, 2 wrong usage.`
}

/** What a command does, or a group of them. */
export function summaryOf(name: string): string {
  return (groups[name] ?? all[name])?.summary ?? ''
}

/** The command line of a command in the overview; of a group, that of its first command. */
function firstLine(name: string): string {
  if (name === 'serve') return '[serve] [--config FILE]'
  const [first = name] = namesIn(name, all)
  const command = all[first]
  return command ? [first, ...argumentWords(command), ...neededWords(command)].join(' ') : first
}

/** The output of `--help` for one command, or a group of them. */
export function helpOf(name: string): string {
  const own = namesIn(name, all)
  const whole: Partial<Command> = { ...groups[name], ...all[name] }
  const isGroup = all[name] === undefined
  return [
    ...(isGroup
      ? [`Usage: gatehouse ${name} COMMAND`, '', ...own.map(commandLines)]
      : usageLines(name, all[name])),
    '',
    ...paragraphs(`${isGroup ? '' : `${sentence(whole.summary ?? '')} `}${whole.about ?? ''}`),
    ...optionLines(own.flatMap((each) => Object.entries(all[each]?.options ?? {}))),
    ...(whole.exitCodes === undefined ? [] : wrapped(`Exit codes: ${whole.exitCodes}.`, 0)),
  ].join('\n')
}

/** A command of a group, with what it does. */
function commandLines(name: string): string {
  const { about, summary } = all[name] ?? { summary: '' }
  const words = usageOf(name, all[name])
  const text = about === undefined ? summary : `${summary}. ${about}`
  return columns(words.replaceAll(NO_BREAK, ' '), text, MAX_COLUMN)
}

function usageLines(name: string, command: Command | undefined): string[] {
  if (!command) return []
  const words = Object.values(command.arguments)
  const others = words.filter(({ isServer, isCommand }) => !isServer && !isCommand).map(argumentWord)
  const needed = neededWords(command)
  const lines = [usageOf(name, command)]
  if (words.some(({ isServer }) => isServer)) {
    lines.push([name, 'URL', ...others, ...needed].join(' '))
    lines.push([name, ...others, ...needed, '-- COMMAND…'].join(' '))
  }
  return lines.flatMap((line, at) =>
    wrapped(`${at === 0 ? 'Usage:' : '      '} gatehouse ${line}`, `Usage: gatehouse ${name} `.length),
  )
}

/** The options without which a command is not run. */
function neededWords({ options }: Command): string[] {
  return Object.entries(options).flatMap(([name, option]) =>
    option.isRequired ? [optionWords(name, option)] : [],
  )
}

/** The words of a command line: its arguments, and the options that few other commands have. */
function usageOf(name: string, command: Command | undefined): string {
  if (!command) return name
  const options = Object.entries(command.options).filter(
    ([, option]) => !option.isCommon && !option.isIgnored,
  )
  return [name, ...argumentWords(command), ...options.map((each) => optionWords(...each))].join(' ')
}

/** An option in a usage line, which is not broken inside of it. */
function optionWords(name: string, { value, isRequired, isRepeated }: Option): string {
  const words = value === undefined ? `--${name}` : `--${name}${NO_BREAK}${value}`
  return `${isRequired ? words : `[${words}]`}${isRepeated ? '…' : ''}`
}

/** The options of a command, or of all of a group; those that many commands have come last. */
function optionLines(options: readonly (readonly [string, Option])[]): string[] {
  const shown = options.filter(([, { isIgnored }]) => !isIgnored)
  const abouts = new Map<string, Set<string>>()
  for (const [name, { value, short, about }] of shown.toSorted(commonLast)) {
    const names = short === undefined ? `--${name}` : `-${short}, --${name}`
    const left = value === undefined ? names : `${names} ${value}`
    abouts.set(left, (abouts.get(left) ?? new Set()).add(about))
  }
  const width = Math.max(...[...abouts.keys()].map((left) => left.length))
  return [...abouts].map(([left, about]) => columns(left, [...about].join('; '), width + 2))
}

function commonLast([, one]: readonly [string, Option], [, other]: readonly [string, Option]): number {
  return Number(one.isCommon ?? false) - Number(other.isCommon ?? false)
}

/** A line with two columns; the right one is wrapped, and below the left one if that is too long. */
function columns(left: string, right: string, width: number): string {
  const lines = wrapped(`${' '.repeat(width + 2)}${folded(right)}`, width + 2)
  const [first = ''] = lines
  return left.length > width - 2
    ? [`  ${left}`, ...lines].join('\n')
    : [`  ${left.padEnd(width)}${first.trimStart()}`, ...lines.slice(1)].join('\n')
}

function paragraphs(text: string): string[] {
  return text.split(/\n\s*\n/).flatMap((each) => wrapped(folded(each), 0))
}

function folded(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').trim()
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`
}

/** A text in lines; all but the first are indented. */
function wrapped(text: string, indent: number): string[] {
  if (text.length <= MAX_LINE) return text === '' ? [] : [text.replaceAll(NO_BREAK, ' ')]
  const at = text.lastIndexOf(' ', MAX_LINE)
  const rest = text.slice(at + 1)
  return [text.slice(0, at).replaceAll(NO_BREAK, ' '), ...wrapped(`${' '.repeat(indent)}${rest}`, indent)]
}

/** A page of the manual with the commands as they are: a table between two marks, and the help of each between two others. */
export function withManual(page: string): string {
  const rows = names.map((name) => {
    const about = (groups[name] ?? all[name])?.page
    const more = about === undefined ? '' : ` See [${about.replace(/#.*/, '')}](${about}).`
    const line = firstLine(name).replaceAll(NO_BREAK, ' ').replaceAll('|', '\\|')
    return `| \`gatehouse ${line}\` | ${sentence(summaryOf(name))}${more} |`
  })
  const texts = names.map((name) => `### gatehouse ${name}\n\n\`\`\`text\n${helpOf(name)}\n\`\`\``)
  const table = ['| Command | What it does |', '|---|---|', ...rows].join('\n')
  return between(between(page, 'commands', table), 'help', texts.join('\n\n'))
}

function between(page: string, mark: string, text: string): string {
  const [before = '', after = ''] = page.split(
    new RegExp(`(?<=<!-- ${mark}:.*-->\n)[^]*(?=<!-- end of ${mark} -->)`),
  )
  return `${before}\n${text}\n\n${after}`
}
