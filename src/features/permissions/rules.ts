/** The configured rules on arguments: allowed and denied globs, over every reading of a value. */
import type { Descriptor } from '../../core/descriptor.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import { isObject } from '../../core/json/json.ts'
import type { ArgumentRules, UpstreamSettings } from '../../core/settings.ts'
import {
  fullyDecoded,
  fold,
  resolveFrom,
  isAbsolute,
  isWellEncoded,
  loosePathVariants,
  pathVariants,
  normalisePath,
  uriReadings,
} from './path-variants.ts'
import { isNumber, numberOf, plainDigits } from '../../core/json/exact-number.ts'

/** What the configuration permits of a tool, prompt or resource, whatever the scopes of the caller. */
export interface Rules {
  /** Whether no arguments are permitted at all. */
  readonly isClosed: boolean
  /** It is a resource with an ambiguous URI. */
  readonly isMalformed?: true
  permits(args: unknown): boolean
}

/** The rules for a name; undefined if every call is permitted. */
export function rulesFor(
  settings: UpstreamSettings,
  name: string,
  kind: Descriptor['kind'] = 'tool',
): Rules | undefined {
  const isUri = kind === 'resource'
  const isLimited = hasRules(settings) || Object.keys(settings.scopes).length > 0
  if (isUri && isLimited && !isWellEncoded(name)) return malformed
  const denying = Object.keys(settings.deny).filter((glob) => appliesTo(glob, name, isUri))
  const [allowing] = fitting(Object.keys(settings.allow), name)
  const denied = denying.flatMap((glob) => ruleOf(settings.deny, glob))
  const allowed = allowing === undefined ? [] : ruleOf(settings.allow, allowing)
  if (denied.includes(true)) return closed
  const directories = directoriesOf(settings)
  const denials = denied.flatMap((rule) => (rule === true ? [] : argumentsOf(rule, directories, denies)))
  const conditions = allowed.flatMap((rule) => (rule === true ? [] : argumentsOf(rule, directories, allows)))
  if (denials.length === 0 && conditions.length === 0) return undefined
  return {
    isClosed: false,
    permits: (args = {}) =>
      isObject(args) &&
      !denials.some((matches) => matches(args)) &&
      conditions.every((matches) => matches(args)),
  }
}

/** Whether a server has any rules. */
export function hasRules({ allow, deny }: UpstreamSettings): boolean {
  return Object.keys(allow).length > 0 || Object.keys(deny).length > 0
}

const closed: Rules = { isClosed: true, permits: () => false }
const malformed: Rules = { ...closed, isMalformed: true }

/** The limits on texts of one argument: number, length of one, and total length. Arguments beyond them are not permitted. */
const MAX_TEXTS = 1000
const MAX_LENGTH = 65_536
const MAX_TOTAL_LENGTH = 131_072

type Args = Readonly<Record<string, unknown>>
type Test = (args: Args) => boolean

function ruleOf(rules: ArgumentRules, glob: string): (Readonly<Record<string, string>> | true)[] {
  const rule = rules[glob]
  return rule === undefined ? [] : [rule]
}

/** Rules apply to a resource however its URI is spelled. */
function appliesTo(glob: string, name: string, isUri: boolean): boolean {
  if (fits(glob, name)) return true
  return (isUri || name.includes('/')) && denies(glob, [])([name])
}

function argumentsOf(
  rule: Readonly<Record<string, string>>,
  directories: readonly string[],
  make: (glob: string, directories: readonly string[]) => (texts: readonly string[]) => boolean,
): Test[] {
  return Object.entries(rule).map(([argument, glob]) => {
    const test = make(glob, directories)
    const isDenial = make === denies
    const named = JSON_NUMBER.test(glob) ? plainDigits(numberOf(glob)) : undefined
    // Rules name the number, however it is written, there and in the call.
    const written = (digits: string): string => (digits === named ? glob : digits)
    return (args) => {
      const values = valuesOf(args, argument)
      const texts = textsOf(values, isDenial, written)
      const totalLength = texts.reduce((sum, { length }) => sum + length, 0)
      const isTooLong = totalLength > MAX_TOTAL_LENGTH || texts.some(({ length }) => length > MAX_LENGTH)
      if (texts.length > MAX_TEXTS || isTooLong) return isDenial
      return texts.length > 0 && test(texts)
    }
  })
}

const JSON_NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Some servers ignore the case of argument names. */
function valuesOf(args: Args, argument: string): unknown[] {
  const name = fold(argument)
  return Object.keys(args).flatMap((key) => (key === argument || fold(key) === name ? [args[key]] : []))
}

/** Every text and number inside values, and for a denial the keys of objects and the spelling of numbers. */
function textsOf(
  values: readonly unknown[],
  isDenial: boolean,
  written: (digits: string) => string,
): string[] {
  const found: string[] = []
  const pending = [...values]
  while (pending.length > 0 && found.length <= MAX_TEXTS) {
    const value = pending.pop()
    if (Array.isArray(value)) for (const each of value) pending.push(each)
    else if (isObject(value)) {
      if (isDenial) found.push(...Object.keys(value).slice(0, MAX_TEXTS + 1))
      for (const key in value) pending.push(value[key])
    } else if (typeof value === 'string') found.push(value)
    else if (isNumber(value)) found.push(written(plainDigits(value)), ...(isDenial ? [String(value)] : []))
    else if (typeof value === 'boolean') found.push(String(value))
  }
  return found
}

/** Whether one of the texts could be read as something that the glob covers. */
function denies(glob: string, directories: readonly string[]): (texts: readonly string[]) => boolean {
  const plain = fold(glob)
  const normalised = fold(normalisePath(glob.replaceAll('\\', '/')))
  const globs = [...new Set([plain, normalised, fold(normalisePath(fullyDecoded(glob)))])]
  const ends = endsOf(normalised)
  return (texts) =>
    texts.some((text) =>
      [...loosePathVariants(text, directories), ...uriReadings(text).map(fold)].some((path) =>
        (isAbsolute(path) ? globs : [...globs, ...ends]).some((each) => covers(each, path)),
      ),
    )
}

/** Whether all texts can only be read as something that the glob covers. */
function allows(glob: string, directories: readonly string[]): (texts: readonly string[]) => boolean {
  const normalised = normalisePath(glob)
  const isPath = isAbsolute(glob)
  const resolutions = (text: string): string[] =>
    isPath && !isAbsolute(text)
      ? directories.map((directory) => normalisePath(resolveFrom(directory, text)))
      : [text]
  return (texts) =>
    texts.every((text) => {
      const read = pathVariants(text).flatMap(resolutions)
      return read.length > 0 && read.every((each) => covers(glob, each) || covers(normalised, each))
    })
}

/** A glob for the content of a directory covers the directory too. */
function covers(glob: string, path: string): boolean {
  return fits(glob, path) || fits(glob, `${path}/`)
}

/** The remainders of an absolute glob relative to each directory on its way. */
function endsOf(glob: string): string[] {
  if (!isAbsolute(glob)) return []
  const segments = glob.split('/')
  return segments.flatMap((segment, index) =>
    index > 0 && segment !== '' && !segment.includes('*') ? [segments.slice(index).join('/')] : [],
  )
}

/** Where a server may resolve relative paths: its working directory, and the directories in its arguments. */
function directoriesOf({ reach }: UpstreamSettings): string[] {
  if (reach.kind === 'url') return []
  const named = reach.args.filter((argument) => isAbsolute(argument))
  return [...(reach.cwd === undefined ? [] : [reach.cwd]), ...named]
}
