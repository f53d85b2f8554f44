/** Converts single values: secrets, variables and inputs of clients. */
import { basename, sep } from 'node:path'
import { holdsPassword, looksLikeToken, looksRandom, namesSecret } from '../configured-secrets.ts'
import { hasReference } from '../secrets.ts'

/** The values of variables in a client's configuration. */
interface TextContext {
  readonly workspace: string
  readonly inputs: ReadonlyMap<string, string>
  readonly variables: Variables
  readonly note: (text: string) => void
}

/** Converts the `${…}` forms of Claude Code, Cursor and VS Code to those of the gateway's configuration. */
export function convertText(text: string, context: TextContext): string {
  return text.replaceAll(/\$\{([^}]*)\}?/g, (whole: string, body: string) => converted(whole, body, context))
}

function converted(whole: string, body: string, { workspace, inputs, variables, note }: TextContext): string {
  const [, name, fallback] = /^(?:env:)?([A-Za-z_]\w*)(:-.*)?$/s.exec(body) ?? []
  const known = places(workspace)[body]
  if (known !== undefined) return known
  if (name !== undefined && whole.endsWith('}')) {
    if (fallback === undefined) variables.refer(name, 'the client’s configuration refers to it')
    return `\${${name}${fallback ?? ''}}`
  }
  if (body.startsWith('input:')) {
    const id = body.slice('input:'.length)
    const input = variableName(id)
    variables.refer(input, inputs.get(id) || `the editor input ${JSON.stringify(id)}`)
    return `\${${input}}`
  }
  note(`${JSON.stringify(whole)} is not supported and was kept as plain text`)
  return `$${whole}`
}

function places(workspace: string): Readonly<Record<string, string>> {
  return {
    workspaceFolder: workspace,
    workspaceFolderBasename: basename(workspace),
    cwd: workspace,
    userHome: '${HOME}',
    pathSeparator: sep,
    '/': sep,
  }
}

/** The server whose values are converted, and the context. */
export interface SecretContext extends TextContext {
  readonly server: string
}

/** Converts an environment value: a reference if it is a secret. */
export function convertEnv(name: string, value: string, context: SecretContext): string {
  const isSecret = (namesSecret(name) && !isPath(value)) || looksSecret(value)
  if (value === '' || hasReference(value) || !isSecret) return convertText(value, context)
  return reference(value, name, `env ${name}`, context)
}

/** Converts a header value: a reference unless it is known not to be secret. */
export function convertHeader(name: string, value: string, context: SecretContext): string {
  if (value === '' || hasReference(value) || harmless.test(name)) return convertText(value, context)
  const [, scheme = '', rest = value] = /^((?:Bearer|Basic|Token)\s+)(.*)$/is.exec(value) ?? []
  const preferredName = /^authorization$/i.test(name)
    ? `${context.server}_TOKEN`
    : `${context.server}_${name}`
  return scheme + reference(rest, preferredName, `header ${name}`, context)
}

/** Converts the arguments of a command; secrets in options become references. */
export function convertArguments(words: readonly string[], context: SecretContext): string[] {
  return words.map((word, index) => {
    const [, option, value] = /^(--?[\w-]+=|[A-Z_][A-Z0-9_]*=)(.+)$/s.exec(word) ?? []
    if (option !== undefined && value !== undefined) return option + convertArgument(value, option, context)
    return convertArgument(word, words[index - 1] ?? '', context)
  })
}

/** Moves the user and password of a URL to a header: a URL in the file must not contain them. */
export function withoutUser(
  url: string,
  context: SecretContext,
): { readonly url: string; readonly authorization?: string } {
  const [, start = '', user = '', rest = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]*)@(.*)$/is.exec(url) ?? []
  if (start === '' || user === '') return { url }
  if (hasReference(user)) {
    context.note('has a user in its URL, which is not allowed: write it in `headers` as authorization')
    return { url: start + rest }
  }
  const value = Buffer.from(decoded(user)).toString('base64')
  const name = `${context.server}_BASIC`
  return { url: start + rest, authorization: `Basic ${reference(value, name, IN_URL, context)}` }
}

const IN_URL = 'its URL before the @, as base64'

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Converts a URL; a secret in its query becomes a reference. */
export function convertUrl(url: string, context: SecretContext): string {
  const [start = '', query] = url.split(/\?(.*)/s)
  if (query === undefined) return convertText(url, context)
  const parameters = query.split('&').map((parameter) => {
    const [name = '', value = ''] = parameter.split(/=(.*)/s)
    const isSecret = value !== '' && !hasReference(value) && (namesSecret(name) || looksSecret(value))
    const preferredName = `${context.server}_${name}`
    return isSecret
      ? `${name}=${reference(value, preferredName, `${name} in its URL`, context)}`
      : convertText(parameter, context)
  })
  return `${convertText(start, context)}?${parameters.join('&')}`
}

const harmless = /^(accept|accept-language|cache-control|content-type|user-agent|x-mcp-[\w-]+)$/i

function convertArgument(value: string, before: string, context: SecretContext): string {
  const option = optionName(before)
  const isOption = value.startsWith('-') && !before.endsWith('=')
  const isNamed = namesSecret(option) && !isOption && !isPath(value)
  // A header on the command line, such as `--header "Authorization: Bearer …"`.
  const [, header, content] = /^([A-Za-z][\w-]*):\s*(\S.*)$/s.exec(value) ?? []
  if (hasReference(value)) return convertText(value, context)
  if (header !== undefined && content !== undefined && namesSecret(header)) {
    return `${header}: ${convertHeader(header, content, context)}`
  }
  if (!isNamed && !looksLikeToken(value) && !holdsPassword(value)) return convertText(value, context)
  return reference(value, `${context.server}_${option || 'SECRET'}`, 'one of its arguments', context)
}

function optionName(before: string): string {
  const [, option, variable] = /^(?:--?([\w-]+)=?|([A-Z_][A-Z0-9_]*)=)$/.exec(before) ?? []
  return option ?? variable ?? ''
}

function reference(
  value: string,
  preferredName: string,
  place: string,
  { server, variables }: SecretContext,
): string {
  const meaning = `the value that ${server} has in ${place}`
  return `\${${variables.forValue(value, { name: preferredName, server, meaning })}}`
}

function looksSecret(value: string): boolean {
  return looksLikeToken(value) || holdsPassword(value) || looksRandom(value)
}

function isPath(value: string): boolean {
  return /^(~|\.{1,2}|\/(home|Users|etc|opt|var|tmp|srv|usr|root|mnt|Applications|Library)|[A-Za-z]:)[\\/]/.test(
    value,
  )
}

/** Collects the environment variables of an imported configuration. */
interface Variables {
  /** Assigns a variable to a secret value; equal values get the same variable. */
  forValue(value: string, preferred: PreferredVariable): string
  /** Records a variable that the file already refers to. */
  refer(name: string, meaning: string): void
  /** All variables, with the meaning of their values. */
  list(): readonly (readonly [name: string, meaning: string])[]
}

/** The preferred name of a variable, its server, and the meaning of its value. */
interface PreferredVariable {
  readonly name: string
  readonly server: string
  readonly meaning: string
}

/** Creates an empty collection. */
export function variables(): Variables {
  const known = new Map<string, { readonly value: string | undefined; readonly meaning: string }>()

  const free = (name: string, value: string): boolean => {
    const other = known.get(name)
    return other === undefined || other.value === value
  }
  return {
    forValue(value, { name, server, meaning }) {
      const plain = variableName(name)
      const names = [plain, variableName(`${server}_${name}`)]
      for (let number = 2; !names.some((candidate) => free(candidate, value)); number += 1) {
        names.push(`${plain}_${number}`)
      }
      const chosen = names.find((candidate) => free(candidate, value)) ?? plain
      if (!known.has(chosen)) known.set(chosen, { value, meaning })
      return chosen
    },
    refer(name, meaning) {
      if (!known.has(name)) known.set(name, { value: undefined, meaning })
    },
    list: () => [...known].map(([name, { meaning }]) => [name, meaning]),
  }
}

/** Converts a text to the name of an environment variable. */
function variableName(text: string): string {
  const name = text
    .toUpperCase()
    .replaceAll(/[^A-Z0-9_]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  return /^[A-Z]/.test(name) ? name : `MCP_${name}`
}
