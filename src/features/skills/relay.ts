/** Relays the skills that servers list themselves, under names of the gateway. */
import { type Call, type Outcome, resultOf } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { within } from '../../core/time/waiting.ts'
import type { BuiltinEntry } from '../feature.ts'
import type { Services } from '../services.ts'

type RelayDeps = Pick<Services, 'servers' | 'invoker'>

/** A skill as clients know it. */
export interface Skill {
  readonly uri: string
  readonly frontmatter: Readonly<Record<string, unknown>>
  /** A list, or a word for files that are only known when they are read. */
  readonly resources: unknown
}

/** The skills servers publish themselves; where they are offered together, the name of the server goes in front. */
export interface Relay {
  list(call: Call): Promise<readonly Skill[]>
  /** Nothing where its server says there is none. @throws what keeps its server from answering */
  get(call: Call, uri: string): Promise<Skill | undefined>
  /** Reads the files of these skills where servers are offered together. */
  readonly files: BuiltinEntry
}

const SCHEME = 'skill://'
/** What the extension is called (SEP-2640). */
export const EXTENSION = 'io.modelcontextprotocol/skills'

/** The limits of a server's list of skills: entries, pages, and time in milliseconds. */
const MAX_SKILLS = 512
const MAX_PAGES = 100
const LIST_TIMEOUT_MS = 5000

/** Passes on what servers that know skills say of theirs. */
export function createRelay(deps: RelayDeps): Relay {
  const publishes = async (upstream: string): Promise<boolean> => {
    const { capabilities } = await deps.servers.records().of(upstream)
    return isObject(capabilities.extensions) && isObject(capabilities.extensions[EXTENSION])
  }
  const publishers = async ({ target: { upstream } }: Call): Promise<readonly string[]> => {
    const names = upstream === undefined ? deps.servers.names() : [upstream]
    const told = await Promise.all(names.map(publishes))
    return names.filter((_name, at) => told[at])
  }
  const ask = (call: Call, upstream: string, params: Readonly<Record<string, unknown>>): Promise<Outcome> => {
    const { inputResponses: _answers, ...rest } = call
    const payload = Payload.of(params).withMeta(call.meta)
    return deps.invoker.relay({
      ...rest,
      params: payload,
      target: { method: call.method, upstream },
      requestState: {},
    })
  }

  const skillsOf = async (call: Call, upstream: string): Promise<Skill[]> => {
    const found: Skill[] = []
    let cursor: unknown
    for (let page = 0; page < MAX_PAGES && found.length < MAX_SKILLS; page++) {
      const { fields } = resultOf(await ask(call, upstream, cursor === undefined ? {} : { cursor }))
      found.push(...(Array.isArray(fields.skills) ? fields.skills : []).flatMap(skillIn))
      cursor = fields.nextCursor
      if (typeof cursor !== 'string' || cursor === '') break
    }
    return found
      .slice(0, MAX_SKILLS)
      .map((skill) => (call.target.upstream === undefined ? moved(skill, upstream) : skill))
  }

  return {
    list: async (call) => {
      const lists = (await publishers(call)).map((name) =>
        // A server that fails to tell of its skills does not take away those of others.
        within(
          skillsOf(call, name).catch(() => []),
          LIST_TIMEOUT_MS,
          [],
        ),
      )
      return (await Promise.all(lists)).flat()
    },
    get: async (call, uri) => {
      const here = call.target.upstream
      const place = here === undefined ? placeOf(uri, deps.servers.names()) : { upstream: here, uri }
      if (!place || !(await publishes(place.upstream))) return undefined
      const outcome = await ask(call, place.upstream, { uri: place.uri }).catch(unlessRefused)
      const [skill] = outcome ? skillIn(resultOf(outcome).fields.skill) : []
      return skill && here === undefined ? moved(skill, place.upstream) : skill
    },
    files: {
      definition: { uri: SCHEME, name: 'skills' },
      isListed: false,
      matches: (uri) => placeOf(uri, deps.servers.names()) !== undefined,
      handle: async (call) => {
        const { uri } = call.params.fields
        const place = placeOf(String(uri), deps.servers.names())
        if (!place) return deps.invoker.relay(call)
        const { upstream } = place
        const target = { method: call.method, upstream, name: place.uri }
        const outcome = await deps.invoker.relay({
          ...call,
          params: call.params.with({ uri: place.uri }),
          target,
        })
        return outcome.kind === 'input_required'
          ? outcome
          : { kind: 'result', result: readAs(outcome.result, uri) }
      },
    },
  }
}

function unlessRefused(error: unknown): undefined {
  if (!(error instanceof GatewayError) || error.extra.relayed === undefined) throw error
}

/** `skill://github/acme/git/SKILL.md` is `skill://acme/git/SKILL.md` of the server `github`. */
function placeOf(
  uri: string,
  servers: readonly string[],
): { readonly upstream: string; readonly uri: string } | undefined {
  if (!uri.startsWith(SCHEME)) return undefined
  const path = uri.slice(SCHEME.length)
  const end = path.indexOf('/')
  const upstream = path.slice(0, end)
  const rest = path.slice(end + 1)
  // What follows the name of a skill of the gateway's own is one file.
  if (end === -1 || !rest.includes('/') || !servers.includes(upstream)) return undefined
  return { upstream, uri: `${SCHEME}${rest}` }
}

function moved(skill: Skill, upstream: string): Skill {
  const place = (uri: unknown): unknown =>
    typeof uri === 'string' && uri.startsWith(SCHEME)
      ? `${SCHEME}${upstream}/${uri.slice(SCHEME.length)}`
      : uri
  const { resources } = skill
  return {
    ...skill,
    uri: String(place(skill.uri)),
    resources: Array.isArray(resources)
      ? resources.map((each) => (isObject(each) ? { ...each, uri: place(each.uri) } : each))
      : resources,
  }
}

function readAs(result: Payload, uri: unknown): Payload {
  const { contents } = result.fields
  if (!Array.isArray(contents)) return result
  return result.with({ contents: contents.map((each) => (isObject(each) ? { ...each, uri } : each)) })
}

function skillIn(value: unknown): Skill[] {
  if (!isObject(value) || typeof value.uri !== 'string' || !isObject(value.frontmatter)) return []
  return [{ ...value, uri: value.uri, frontmatter: value.frontmatter, resources: value.resources }]
}
