/** Assertions about resources and prompts. */
import { isObject } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { errorText, type Reading } from './asking.ts'
import { type Assertion, each, fail, notApplicable, pass, type Subject } from './subject.ts'

const NONE = 'it has no resources'

/** Assertions about resources, their templates, and some of their contents. */
export const resources: readonly Assertion[] = [
  {
    id: 'C161',
    level: 'must',
    text: "The server's own resources use a URI scheme with its name.",
    fix: 'Use <name of the server>://… for its own resources.',
    check: (subject) =>
      eachAddress(subject, (uri, scheme) =>
        isOwn(subject, scheme) || isReserved(scheme) || scheme === SKILL ? [] : [uri],
      ),
  },
  {
    id: 'C162',
    level: 'forbidden',
    text: 'No resource uses a URI scheme that belongs to others.',
    fix: 'Move it under a scheme of the server.',
    check: (subject) =>
      eachAddress(subject, (uri, scheme) => (FOREIGN.has(scheme) && !isOwn(subject, scheme) ? [uri] : [])),
  },
  {
    id: 'C163',
    level: 'must',
    text: 'The schemes use, project and doc keep their fixed meaning.',
    fix: 'Use them for the documents they are for, as text.',
    check: (subject) => {
      const reserved = addressesOf(subject).filter((uri) => isReserved(schemeOf(uri)))
      return each(reserved, 'it does not use these schemes', (uri) => {
        const reading = subject.readings.find((each) => each.uri === uri)
        const { contents } = reading ?? {}
        const isText =
          !Array.isArray(contents) || contents.every((each) => isObject(each) && each.text !== undefined)
        return isText && !reading?.error ? [] : [`${uri}: cannot be read as text`]
      })
    },
  },
  {
    id: 'C164',
    level: 'forbidden',
    text: 'The schemes use, project and doc contain only their defined resources.',
    fix: 'Move it under a scheme of the server.',
    check: (subject) =>
      eachAddress(subject, (uri, scheme) => (isReserved(scheme) && !FIXED.has(uri) ? [uri] : [])),
  },
  {
    id: 'C170',
    level: 'must',
    text: 'Each resource has a URI and a name.',
    fix: 'Add the missing fields.',
    check: ({ resources: all }) =>
      each(all, NONE, ({ uri, name }) => {
        if (typeof uri !== 'string' || schemeOf(uri) === '')
          return [`${JSON.stringify(uri) ?? 'one'}: no URI`]
        return typeof name === 'string' && name !== '' ? [] : [`${uri}: no name`]
      }),
  },
  {
    id: 'C171',
    level: 'must',
    text: 'A read returns a list of contents, each with its URI, its type, and text or bytes.',
    fix: 'Fill uri, mimeType, and text or blob of each.',
    check: ({ readings }) => each(readings, 'nothing was read', contentProblems),
  },
  {
    id: 'C172',
    level: 'must',
    text: 'Resource templates have a URI template and a name, and the capability is declared.',
    fix: 'Add the missing fields, and declare the capability resources.',
    check: ({ templates, capabilities }) =>
      each(templates, 'it has no resource templates', ({ uriTemplate, name }) => {
        if (!isObject(capabilities.resources)) return [`${String(uriTemplate)}: resources are not declared`]
        if (typeof uriTemplate !== 'string' || !isTemplate(uriTemplate)) {
          return [`${JSON.stringify(uriTemplate) ?? 'one'}: no URI template`]
        }
        return typeof name === 'string' && name !== '' ? [] : [`${uriTemplate}: no name`]
      }),
  },
  {
    id: 'C173',
    level: 'must',
    text: 'subscribe and listChanged are declared as booleans.',
    fix: 'Make subscribe and listChanged booleans.',
    check: ({ capabilities }) => {
      const { resources: declared } = capabilities
      if (!isObject(declared)) return notApplicable('resources are not declared')
      const odd = ['subscribe', 'listChanged'].filter(
        (key) => declared[key] !== undefined && typeof declared[key] !== 'boolean',
      )
      if (odd.length > 0) return fail(...odd.map((key) => `${key} is ${JSON.stringify(declared[key])}`))
      return pass(declared.subscribe === true ? 'subscriptions declared' : 'no subscriptions declared')
    },
  },
  {
    id: 'C177',
    level: 'must',
    text: 'Bytes are base64, with a matching type.',
    fix: 'Send bytes in blob, with their mimeType.',
    check: ({ readings }) => each(readings, 'nothing was read', byteProblems),
  },
]

/** Schemes with an established meaning. */
const FOREIGN = new Set(
  'file http https git ftp ftps sftp ssh mailto data blob urn tel ws wss s3 gs jdbc ldap ui skill'.split(' '),
)
/** The resources of the skills extension. */
const SKILL = 'skill'
const RESERVED = new Set(['use', 'project', 'doc'])
/** The defined URIs of the reserved schemes. */
const FIXED = new Set(['use://http-headers', 'use://auth', 'project://version', 'doc://readme'])

function eachAddress(subject: Subject, problemsOf: (uri: string, scheme: string) => readonly string[]) {
  return each(addressesOf(subject), NONE, (uri) => problemsOf(uri, schemeOf(uri)))
}

function addressesOf({ resources: all, templates }: Subject): string[] {
  const found = [...all.map(({ uri }) => uri), ...templates.map(({ uriTemplate }) => uriTemplate)]
  return found.filter((each) => typeof each === 'string')
}

function schemeOf(uri: string): string {
  return (/^([a-z][a-z0-9+.-]*):/i.exec(uri)?.[1] ?? '').toLowerCase()
}

function isOwn({ upstream, serverInfo: { name } }: Subject, scheme: string): boolean {
  return [upstream, name].some((each) => typeof each === 'string' && plain(each) === plain(scheme))
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

function isReserved(scheme: string): boolean {
  return RESERVED.has(scheme)
}

/** Whether braces are balanced and not empty (RFC 6570). */
function isTemplate(text: string): boolean {
  return /^(?:[^{}]|\{[^{}]+\})+$/.test(text)
}

function contentsOf({ uri, error, contents }: Reading): readonly Fields[] | string {
  if (error) return `${uri}: ${errorText(error)}`
  if (!Array.isArray(contents) || !contents.every(isObject))
    return `${uri}: contents is not a list of objects`
  return contents
}

function contentProblems(reading: Reading): string[] {
  const contents = contentsOf(reading)
  if (typeof contents === 'string') return [contents]
  return contents.flatMap(({ uri, mimeType, text, blob }) => {
    const missing = [
      ...(typeof uri === 'string' ? [] : ['uri']),
      ...(typeof mimeType === 'string' && mimeType !== '' ? [] : ['mimeType']),
      ...(typeof text === 'string' || typeof blob === 'string' ? [] : ['text or blob']),
    ]
    return missing.length === 0 ? [] : [`${reading.uri}: no ${missing.join(', ')}`]
  })
}

function byteProblems(reading: Reading): string[] {
  const contents = contentsOf(reading)
  if (typeof contents === 'string') return []
  return contents.flatMap(({ mimeType, text, blob }) => {
    const type = typeof mimeType === 'string' ? mimeType.toLowerCase() : ''
    if (typeof blob === 'string' && !isBase64(blob)) return [`${reading.uri}: blob is not base64`]
    const isBytes = /^(?:image|audio|video|font)\/(?!svg)/.test(type)
    return typeof text === 'string' && isBytes ? [`${reading.uri}: text of type ${type}`] : []
  })
}

/** Whether a text is base64 with its padding. */
export function isBase64(text: string): boolean {
  return text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)
}

/** Assertions about prompts. */
export const prompts: readonly Assertion[] = [
  {
    id: 'C152',
    level: 'must',
    text: 'A server with prompts declares, lists and returns them.',
    fix: 'Declare the capability prompts, and answer prompts/list and prompts/get.',
    check: ({ capabilities, prompts: all, lists, prompt }) => {
      const error = lists.get('prompts/list')?.error
      if (!isObject(capabilities.prompts)) {
        return all.length > 0
          ? fail(`${all.length} prompts, not declared`)
          : notApplicable('it has no prompts')
      }
      if (error) return fail(`prompts/list: ${errorText(error)}`)
      if (prompt?.error) return fail(`prompts/get ${prompt.name}: ${errorText(prompt.error)}`)
      return pass(
        `${all.length} listed`,
        prompt ? `${prompt.name} fetched` : 'none fetched: all need arguments',
      )
    },
  },
  {
    id: 'C158',
    level: 'must',
    text: 'The arguments of a prompt are a list of names, descriptions and whether each is required.',
    fix: 'List each argument as {"name", "description", "required"}.',
    check: (subject) => eachPrompt(subject, shapeProblems),
  },
  {
    id: 'C159',
    level: 'must',
    text: 'The arguments of a prompt are not a JSON Schema.',
    fix: 'Use the list of the protocol instead of a schema.',
    check: (subject) =>
      eachPrompt(subject, ({ name, arguments: given }) => {
        const isSchema =
          isObject(given) && ['type', 'properties', '$schema'].some((key) => Object.hasOwn(given, key))
        return isSchema ? [String(name)] : []
      }),
  },
  {
    id: 'C160',
    level: 'should',
    text: 'The arguments of prompts are described.',
    fix: 'Describe the argument.',
    check: (subject) =>
      eachPrompt(subject, ({ name, arguments: given }) =>
        (Array.isArray(given) ? given : [])
          .filter(
            (each) => !isObject(each) || typeof each.description !== 'string' || each.description === '',
          )
          .map((each) => `${String(name)}: ${nameOf(each)}`),
      ),
  },
]

function eachPrompt({ prompts: all }: Subject, problemsOf: (prompt: Fields) => readonly string[]) {
  const taking = all.filter(({ arguments: given }) => given !== undefined)
  return each(taking, all.length === 0 ? 'it has no prompts' : 'no prompt takes arguments', problemsOf)
}

function shapeProblems({ name, arguments: given }: Fields): string[] {
  if (!Array.isArray(given)) return [`${String(name)}: arguments is not a list`]
  return given.flatMap((each) => {
    if (!isObject(each) || typeof each.name !== 'string')
      return [`${String(name)}: an argument without a name`]
    const isOdd = each.required !== undefined && typeof each.required !== 'boolean'
    return isOdd ? [`${String(name)}: required of ${each.name} is not a boolean`] : []
  })
}

function nameOf(argument: unknown): string {
  return isObject(argument) && typeof argument.name === 'string' ? argument.name : 'an argument'
}
