/** Finds secrets in the values of imported servers, and gives them variables: no secret is written into the configuration. */
import {
  containsPassword,
  looksGenerated,
  looksLikeToken,
  looksRandom,
  namesSecret,
} from '../configured-secrets.ts'
import { variableName } from './dialects.ts'
import { literal, literalText, type Part, type Template } from './model.ts'
import { percentDecoded } from '../../core/text/escape.ts'

/** The server whose values are converted, and the variables for its secrets. */
export interface SecretContext {
  readonly server: string
  readonly variables: Variables
  readonly note: (message: string) => void
}

/** Converts an environment value: a reference if it is a secret. */
export function convertEnv(name: string, value: Template, context: SecretContext): Template {
  return convert(value, context, {
    name,
    place: `env ${name}`,
    isNamed: (text) => namesSecret(name) && !isPath(text),
    looks: looksSecret,
  })
}

/** Converts a header value: a reference unless it is known not to be secret. */
export function convertHeader(name: string, value: Template, context: SecretContext): Template {
  const preferred = /^authorization$/i.test(name) ? `${context.server}_TOKEN` : `${context.server}_${name}`
  const isHarmless = harmless.test(name) && !namesSecret(name)
  const looks = isHarmless ? looksLikeToken : looksSecret
  const place = { name: preferred, place: `header ${name}`, isNamed: () => !isHarmless, looks }
  const text = literalText(value)
  if (text === undefined) return convert(value, context, place)
  const [, scheme = '', rest = text] = /^((?:Bearer|Basic|Token)\s+)(.*)$/is.exec(text) ?? []
  return [...literal(scheme), ...convert(literal(rest), context, place)]
}

/** Converts the arguments of a command; secrets in options become references. */
export function convertArguments(words: readonly Template[], context: SecretContext): Template[] {
  return words.map((word, index) => {
    const [start = '', ...rest] = word
    const before = literalText(words[index - 1] ?? []) ?? ''
    if (typeof start !== 'string') return convertArgument(word, before, context)
    const [, option, value] = /^(--?[\w-]+=|[A-Z_][A-Z0-9_]*=)(.*)$/s.exec(start) ?? []
    if (option === undefined || value === undefined) return convertArgument(word, before, context)
    return [option, ...convertArgument([...literal(value), ...rest], option, context)]
  })
}

/** Moves the user and password of a URL to a header: a URL in the file must not contain them. */
export function withoutUser(
  url: Template,
  context: SecretContext,
): { readonly url: Template; readonly authorization?: Template } | { readonly problem: string } {
  const text = literalText(url)
  if (text === undefined)
    return /@/.test(marked(url).split(/[/?#]/)[2] ?? '')
      ? { problem: 'has a user in its URL, which belongs into a header `Authorization`,' }
      : { url }
  const [, start = '', user = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@(.*)$/is.exec(text) ?? []
  if (start === '') return { url }
  const bare = literal(start + rest)
  if (user === '') return { url: bare }
  const value = Buffer.from(percentDecoded(user)).toString('base64')
  const place = { name: `${context.server}_BASIC`, place: 'its URL before the @, as base64' }
  return { url: bare, authorization: ['Basic ', reference(value, context, place)] }
}

/** Converts a URL; a secret in its path or query becomes a reference. */
export function convertUrl(url: Template, context: SecretContext): Template {
  return url.flatMap((part, index): Template => {
    const before = marked(url.slice(0, index))
    const placeOf = (name: string): Place =>
      name === ''
        ? { name: `${context.server}_SECRET`, place: 'the path of its URL' }
        : { name: `${context.server}_${name}`, place: `${name} in its URL` }
    if (typeof part === 'string')
      return piecesOf(part, before).map(({ text, secret }) =>
        secret === undefined ? text : reference(text, context, placeOf(secret)),
      )
    if ('path' in part || part.fallback === undefined) return [part]
    const secret = piecesOf(part.fallback, before).find((piece) => piece.secret !== undefined)?.secret
    return [
      secret === undefined ? part : withoutDefault(part.variable, part.fallback, context, placeOf(secret)),
    ]
  })
}

/** A piece of a URL; if it is a secret, the name of its parameter, which is empty in the path. */
interface Piece {
  readonly text: string
  readonly secret?: string
}

/** The pieces of a part of a URL. `before` is the URL up to there. */
function piecesOf(text: string, before: string): readonly Piece[] {
  const start = before.includes('?') ? 0 : text.search(/[?&]/)
  const path = start === -1 ? text : text.slice(0, start)
  const steps = path
    .split(/(\/)/)
    .map((step) =>
      looksLikeToken(step) || looksGenerated(step) ? { text: step, secret: '' } : { text: step },
    )
  const parameters = text.slice(path.length).split(/(?=&)/)
  return [
    ...steps,
    ...parameters.flatMap((parameter): Piece[] => {
      const [, key = '', value = ''] = /^((?:[?&](?:[^=&]*=)?)?)(.*)$/s.exec(parameter) ?? []
      const name = /[?&]([^=&]*)=[^&]*$/.exec(key === '' ? before : key)?.[1] ?? ''
      const isSecret = value !== '' && (namesSecret(name) || looksSecret(value))
      return [{ text: key }, isSecret ? { text: value, secret: name } : { text: value }]
    }),
  ]
}

const harmless = /^(accept|accept-language|cache-control|content-type|user-agent|x-mcp-[\w-]+)$/i

function convertArgument(word: Template, before: string, context: SecretContext): Template {
  const text = marked(word)
  const [start = '', ...rest] = word
  // A header on the command line, such as `--header "Authorization: Bearer …"`.
  const [label, header = ''] = (typeof start === 'string' && /^([A-Za-z][\w-]*):\s*/.exec(start)) || []
  if (typeof start === 'string' && label !== undefined && namesSecret(header))
    return [label, ...convertHeader(header, [...literal(start.slice(label.length)), ...rest], context)]
  const isUrl = /^https?:\/\//i.test(text)
  if (isUrl && !containsPassword(text)) return convertUrl(word, context)
  const option = optionName(before)
  const isOption = text.startsWith('-') && !before.endsWith('=')
  const isNamed = namesSecret(option) && !isOption && !isPath(text)
  const found = convert(word, context, {
    name: `${context.server}_${option || 'SECRET'}`,
    place: 'one of its arguments',
    isNamed: () => isNamed,
    looks: (value) => looksLikeToken(value) || containsPassword(value),
  })
  return isUrl ? convertUrl(found, context) : found
}

function optionName(before: string): string {
  const [, option, variable] = /^(?:--?([\w-]+)=?|([A-Z_][A-Z0-9_]*)=)$/.exec(before) ?? []
  return option ?? variable ?? ''
}

interface Place {
  /** The preferred name of a variable. */
  readonly name: string
  readonly place: string
}

/** How a value is known to be a secret: by where it is, or by its look. */
interface Signs extends Place {
  readonly isNamed: (text: string) => boolean
  readonly looks: (text: string) => boolean
}

/** Literal parts and defaults that are secrets become references. A text beside references is one by its look alone. */
function convert(value: Template, context: SecretContext, { isNamed, looks, ...place }: Signs): Template {
  const text = literalText(value)
  // What the command replaces is no secret itself.
  if (text === '' || /^\$\{\w+\}$/.test(text ?? '')) return value
  if (text !== undefined) return isNamed(text) || looks(text) ? [reference(text, context, place)] : value
  return value.map((part, index) => {
    const start = /\w:\/\/[^/@\s]*$/.exec(marked(value.slice(0, index)))?.[0] ?? ''
    const rest = marked(value.slice(index + 1))
    const isPassword = (some: string): boolean =>
      !some.startsWith('@') &&
      containsPassword(`${start}${some}@`) &&
      containsPassword(`${start}${some}${rest}`)
    if (typeof part === 'string')
      return looks(part) || isPassword(part) ? reference(part, context, place) : part
    if ('path' in part || part.fallback === undefined || part.fallback === '') return part
    const { variable, fallback } = part
    const isSecret = isNamed(fallback) || looks(fallback) || isPassword(fallback)
    return isSecret ? withoutDefault(variable, fallback, context, place) : part
  })
}

/** A reference whose default is a secret. Like a default, what is in .env counts where the environment has no value. */
function withoutDefault(variable: string, fallback: string, context: SecretContext, place: Place): Part {
  if (context.variables.setDefault(variable, fallback)) return { variable }
  context.note(
    `the default of ${variable} in ${place.place} is a secret, and ${variable} has another value elsewhere: the secret got a variable of its own, and ${variable} has no effect there`,
  )
  return reference(fallback, context, place)
}

/** A text in which references are their defaults, or a character that no URL has. */
function marked(value: Template): string {
  return value
    .map((part) => (typeof part === 'string' ? part : ('variable' in part && part.fallback) || '\0'))
    .join('')
}

function reference(value: string, { server, variables }: SecretContext, { name, place }: Place): Part {
  return {
    variable: variables.forValue(value, { name, server }),
    meaning: `the value that ${server} has in ${place}`,
  }
}

function looksSecret(value: string): boolean {
  return looksLikeToken(value) || containsPassword(value) || looksRandom(value)
}

function isPath(value: string): boolean {
  return /^(~|\.{1,2}|\/(home|Users|etc|opt|var|tmp|srv|usr|root|mnt|Applications|Library)|[A-Za-z]:)[\\/]/.test(
    value,
  )
}

/** Names for the secrets of a configuration: none of them means something else in the environment. */
export interface Variables {
  /** Assigns a variable to a secret value; equal values get the same variable. */
  forValue(value: string, preferred: PreferredVariable): string
  /** Gives a variable of the client's file a value for when it is not set; false if that cannot be its only one. */
  setDefault(name: string, value: string): boolean
  /** The values of the assigned variables, in order. */
  readonly values: ReadonlyMap<string, string>
}

/** The preferred name of a variable, and its server. */
interface PreferredVariable {
  readonly name: string
  readonly server: string
}

/**
 * Creates an empty collection. `valueOf` is the value that a name has in the environment, `referred` are the references of
 * the files by name.
 */
export function createVariables(
  valueOf: (name: string) => string | undefined,
  referred: ReadonlyMap<string, readonly { readonly fallback?: string }[]>,
): Variables {
  const values = new Map<string, string>()
  const isFree = (name: string, value: string): boolean => {
    const other = values.get(name) ?? valueOf(name)
    return other === undefined ? !referred.has(name) : other === value
  }
  return {
    values,
    setDefault(name, value) {
      const given = valueOf(name)
      if (given !== undefined) return given !== ''
      const references = referred.get(name) ?? []
      if (references.some(({ fallback = value }) => fallback !== value)) return false
      values.set(name, value)
      return true
    },
    forValue(value, { name, server }) {
      const plain = variableName(name)
      const names = [plain, variableName(`${server}_${name}`)]
      for (let number = 2; !names.some((each) => isFree(each, value)); number += 1)
        names.push(`${plain}_${number}`)
      const chosen = names.find((each) => isFree(each, value)) ?? plain
      values.set(chosen, value)
      return chosen
    },
  }
}
