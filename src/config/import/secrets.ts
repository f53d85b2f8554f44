/** Finds secrets in the values of imported servers, and gives them variables: no secret is written into the configuration. */
import {
  holdsPassword,
  looksGenerated,
  looksLikeToken,
  looksRandom,
  namesSecret,
} from '../configured-secrets.ts'
import { variableName } from './dialects.ts'
import { literal, literalText, type Part, type Template } from './model.ts'

/** The server whose values are converted, and the variables for its secrets. */
export interface SecretContext {
  readonly server: string
  readonly variables: Variables
}

/** Converts an environment value: a reference if it is a secret. */
export function convertEnv(name: string, value: Template, context: SecretContext): Template {
  return convert(value, context, {
    name,
    place: `env ${name}`,
    isSecret: (text) => (namesSecret(name) && !isPath(text)) || looksSecret(text),
  })
}

/** Converts a header value: a reference unless it is known not to be secret. */
export function convertHeader(name: string, value: Template, context: SecretContext): Template {
  if (harmless.test(name)) return value
  const preferred = /^authorization$/i.test(name) ? `${context.server}_TOKEN` : `${context.server}_${name}`
  const place = { name: preferred, place: `header ${name}`, isSecret: () => true }
  const text = literalText(value)
  if (text === undefined) return convert(value, context, { ...place, isSecret: looksSecret })
  const [, scheme = '', rest = text] = /^((?:Bearer|Basic|Token)\s+)(.*)$/is.exec(text) ?? []
  return [...literal(scheme), ...convert(literal(rest), context, place)]
}

/** Converts the arguments of a command; secrets in options become references. */
export function convertArguments(words: readonly Template[], context: SecretContext): Template[] {
  return words.map((word, index) => {
    const [start = '', ...rest] = word
    if (typeof start !== 'string') return word
    const [, option, value] = /^(--?[\w-]+=|[A-Z_][A-Z0-9_]*=)(.*)$/s.exec(start) ?? []
    if (option === undefined || value === undefined) {
      const before = literalText(words[index - 1] ?? [])
      return convertArgument(word, before ?? '', context)
    }
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
  const value = Buffer.from(decoded(user)).toString('base64')
  const place = { name: `${context.server}_BASIC`, place: 'its URL before the @, as base64' }
  return { url: bare, authorization: ['Basic ', reference(value, context, place)] }
}

/** Converts a URL; a secret in its path or query becomes a reference. */
export function convertUrl(url: Template, context: SecretContext): Template {
  return url.flatMap((part): Template => {
    if (typeof part !== 'string') return [part]
    const [path = '', query] = part.split(/\?(.*)/s)
    const start = path.split(/(\/)/).map((step) => {
      const isSecret = looksLikeToken(step) || looksGenerated(step)
      return isSecret
        ? reference(step, context, { name: `${context.server}_SECRET`, place: 'the path of its URL' })
        : step
    })
    if (query === undefined) return start
    const parameters = query.split('&').flatMap((parameter, index): Part[] => {
      const [name = '', value = ''] = parameter.split(/=(.*)/s)
      const before = `${index === 0 ? '?' : '&'}${name}`
      const isSecret = value !== '' && (namesSecret(name) || looksSecret(value))
      if (!isSecret) return [parameter.includes('=') ? `${before}=${value}` : before]
      const place = { name: `${context.server}_${name}`, place: `${name} in its URL` }
      return [`${before}=`, reference(value, context, place)]
    })
    return [...start, ...parameters]
  })
}

const harmless = /^(accept|accept-language|cache-control|content-type|user-agent|x-mcp-[\w-]+)$/i

function convertArgument(word: Template, before: string, context: SecretContext): Template {
  const text = literalText(word)
  const option = optionName(before)
  const name = `${context.server}_${option || 'SECRET'}`
  const place = { name, place: 'one of its arguments' }
  const looks = (value: string): boolean => looksLikeToken(value) || holdsPassword(value)
  if (text === undefined) return convert(word, context, { ...place, isSecret: looks })
  // A header on the command line, such as `--header "Authorization: Bearer …"`.
  const [, header, content] = /^([A-Za-z][\w-]*):\s*(\S.*)$/s.exec(text) ?? []
  if (header !== undefined && content !== undefined && namesSecret(header)) {
    const start = text.slice(0, text.length - content.length)
    return [start, ...convertHeader(header, literal(content), context)]
  }
  if (/^https?:\/\//i.test(text) && !holdsPassword(text)) return convertUrl(word, context)
  const isNamed = namesSecret(option) && !(text.startsWith('-') && !before.endsWith('=')) && !isPath(text)
  return convert(word, context, { ...place, isSecret: (value) => isNamed || looks(value) })
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

/** Literal parts that are secrets become references. In a text with references, what is secret shows by its look alone. */
function convert(
  value: Template,
  context: SecretContext,
  { isSecret, ...place }: Place & { readonly isSecret: (text: string) => boolean },
): Template {
  const text = literalText(value)
  // What the command replaces is no secret itself.
  if (text === '' || /^\$\{\w+\}$/.test(text ?? '')) return value
  if (text !== undefined) return isSecret(text) ? [reference(text, context, place)] : value
  return value.map((part) => {
    if (typeof part === 'string')
      return looksSecret(part) || holdsPassword(`${part}@`) ? reference(part, context, place) : part
    if ('path' in part || part.fallback === undefined || part.fallback === '') return part
    // Like a default, what is in .env counts where the environment has no value.
    const { variable, fallback } = part
    return isSecret(fallback) && context.variables.setDefault(variable, fallback) ? { variable } : part
  })
}

/** A text in which references are of a character that no URL has. */
function marked(value: Template): string {
  return value.map((part) => (typeof part === 'string' ? part : '\0')).join('')
}

function reference(value: string, { server, variables }: SecretContext, { name, place }: Place): Part {
  return {
    variable: variables.forValue(value, { name, server }),
    meaning: `the value that ${server} has in ${place}`,
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function looksSecret(value: string): boolean {
  return looksLikeToken(value) || holdsPassword(value) || looksRandom(value)
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
  /** Gives a variable of the client's file a value for when it is not set; false if it has another one. */
  setDefault(name: string, value: string): boolean
  /** The values of the assigned variables, in order. */
  readonly values: ReadonlyMap<string, string>
}

/** The preferred name of a variable, and its server. */
interface PreferredVariable {
  readonly name: string
  readonly server: string
}

/** Creates an empty collection. `valueOf` is the value that a name has in the environment, `referred` are names of the file. */
export function createVariables(
  valueOf: (name: string) => string | undefined,
  referred: ReadonlySet<string>,
): Variables {
  const values = new Map<string, string>()
  const isFree = (name: string, value: string): boolean => {
    const other = values.get(name) ?? valueOf(name)
    return other === undefined ? !referred.has(name) : other === value
  }
  return {
    values,
    setDefault(name, value) {
      if (values.has(name)) return values.get(name) === value
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
