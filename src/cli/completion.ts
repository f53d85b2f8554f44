/** `gatehouse completion`: the scripts with which shells complete command lines, and what a word of one can be. */
import { type Argument, type Command, type Given, namesIn, type Option } from './command.ts'
import { commands, names } from './commands.ts'
import { summaryOf } from './help.ts'
import type { Output } from './output.ts'

type Shell = keyof typeof scripts

// The scripts pass the words up to the one that is completed. The answer is a word on each line, behind a colon what it is; or
// `:files` for the names of files.

const scripts = {
  bash: `_gatehouse() {
  local IFS=$'\\n' found
  found=$("\${COMP_WORDS[0]}" completion bash -- "\${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
  COMPREPLY=()
  if [[ $found == :files ]]; then compopt -o default 2>/dev/null; else COMPREPLY=($found); fi
}
complete -F _gatehouse gatehouse`,
  zsh: `#compdef gatehouse
_gatehouse() {
  local found
  found=$("\${words[1]}" completion zsh -- "\${(@)words[1,CURRENT]}" 2>/dev/null)
  compset -P '--*='
  if [[ $found == :files ]]; then
    _files
  elif [[ -n $found ]]; then
    local -a lines=("\${(@f)found}")
    _describe gatehouse lines
  fi
}
compdef _gatehouse gatehouse`,
  fish: `function __gatehouse_complete
  set -l before (commandline -opc)
  set -l current (commandline -ct)
  set -l found ($before[1] completion fish -- $before "$current" 2>/dev/null)
  if test "$found" = :files
    __fish_complete_path "$current"
  else
    string replace ':' \\t -- $found
  end
end
complete -c gatehouse -f -a '(__gatehouse_complete)'`,
}

/** `gatehouse completion SHELL`: prints the script of a shell; with words behind `--`, what the last one can be. */
export async function completion({ shell, command }: Given<typeof commands.completion>): Promise<Output> {
  const text = command === undefined ? scripts[shell] : linesFor(shell, command)
  return text === '' ? 0 : { json: undefined, text }
}

function linesFor(shell: Shell, line: readonly string[]): string {
  // Bash makes a word of its own of an equals sign.
  const words = line.flatMap((word, at) => (word === '=' ? (at === line.length - 1 ? [''] : []) : [word]))
  const found = candidates(words.slice(1))
  if (found === 'files') return ':files'
  return found
    .map(({ word, about }) => {
      const [first = ''] = about.split(/[:;.] |\n/)
      return shell === 'bash' || first === '' ? word : `${word}:${first.replaceAll(':', ' ')}`
    })
    .join('\n')
}

/** What a word can be. */
interface Candidate {
  readonly word: string
  readonly about: string
}

/** What the last of the words behind `gatehouse` can be: words, or the names of files. */
export function candidates(words: readonly string[]): readonly Candidate[] | 'files' {
  const current = words.at(-1) ?? ''
  const before = words.slice(0, -1)
  if (before.includes('--')) return 'files'
  const [first = ''] = before
  const name = names.includes(first) ? first : 'serve'
  const own: Readonly<Record<string, Command>> = commands
  const ofGroup = namesIn(name, own)
  const options: Command['options'] = Object.assign({}, ...ofGroup.map((each) => own[each]?.options))
  const [, given = '', value] = /^(--[\w-]+)=(.*)$/s.exec(current) ?? []
  const pending = optionOf(value === undefined ? before.at(-1) : given, options)
  if (pending?.value !== undefined) return valuesOf(pending, value ?? current)
  const positional = positionals(before.slice(name === first ? 1 : 0), options)
  const found = [2, 1, 0].map((count) => [name, ...positional.slice(0, count)].join(' '))
  const leaf = found.find((each) => Object.hasOwn(own, each))
  const command = leaf === undefined ? undefined : own[leaf]
  if (current.startsWith('-')) return startingWith(current, optionNames(command?.options ?? options))
  const actions = actionsAfter([name, ...positional].join(' '), ofGroup)
  const starts = first === '' || name !== first ? [...names, 'help'].map(ofName) : []
  const isHelp = first === 'help' && before.length === 1
  if (isHelp) return startingWith(current, names.map(ofName))
  const words_ = [...(before.length === 0 ? starts : []), ...actions]
  const matching = startingWith(current, words_)
  if (matching.length > 0 || !command || leaf === undefined) return matching
  const at = positional.length - (leaf.split(' ').length - 1)
  return argumentAt(Object.values(command.arguments), at, current)
}

function ofName(word: string): Candidate {
  return { word, about: word === 'help' ? 'print the help of a command' : summaryOf(word) }
}

function startingWith(start: string, all: readonly Candidate[]): readonly Candidate[] {
  return all.filter(({ word }) => word.startsWith(start))
}

/** The words that make a command of a group of what was given. */
function actionsAfter(given: string, ofGroup: readonly string[]): readonly Candidate[] {
  const all: Readonly<Record<string, Command>> = commands
  return ofGroup
    .filter((each) => each.startsWith(`${given} `))
    .map((each) => ({ word: each.slice(given.length + 1), about: all[each]?.summary ?? '' }))
    .filter(({ word }) => !word.includes(' '))
}

function optionNames(options: Command['options']): readonly Candidate[] {
  const shown = Object.entries(options).filter(([, { isIgnored }]) => !isIgnored)
  return [
    ...shown.map(([name, { about }]) => ({ word: `--${name}`, about })),
    { word: '--help', about: 'print help' },
  ]
}

function optionOf(word: string | undefined, options: Command['options']): Option | undefined {
  return Object.entries(options).find(
    ([name, { short }]) => word === `--${name}` || word === `-${short}`,
  )?.[1]
}

/** The words that are neither options nor their values. */
function positionals(words: readonly string[], options: Command['options']): readonly string[] {
  return words.filter((word, at) => {
    const pending = optionOf(words[at - 1], options)
    return !word.startsWith('-') && pending?.value === undefined
  })
}

function argumentAt(all: readonly Argument[], at: number, current: string): readonly Candidate[] | 'files' {
  const last = all.at(-1)
  const found = all[at] ?? (last?.count === 'any' || last?.count === 'some' ? last : undefined)
  return found ? valuesOf(found, current) : []
}

/** The placeholders of values that are files or folders. */
const FILES = /^(?:FILE|FOLDER|PLACE)$/

function valuesOf(
  { value = '', choices }: Pick<Option, 'value' | 'choices'>,
  current: string,
): readonly Candidate[] | 'files' {
  if (choices)
    return startingWith(
      current,
      choices.map((word) => ({ word, about: '' })),
    )
  return FILES.test(value) ? 'files' : []
}
