/** Skills of servers and of the gateway, as resources and documents. */
import { type Call, type Handler, type Outcome, resultOf } from '../../core/call.ts'
import { GatewayError, unknownResource } from '../../core/error.ts'
import { self } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { within } from '../../core/time/waiting.ts'
import { type SkillFile, skillName, skillOf, skillUri, stampOf } from '../../descriptions/formats/skill.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { answered, pageOf } from '../builtin-tool.ts'
import { introducing, describedList } from '../describing.ts'
import type { Feature, BuiltinEntry } from '../feature.ts'
import type { Services } from '../feature.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'descriptions' | 'features'>

/** The settings of skills. */
interface Settings {
  readonly listed: boolean
}

/** The JSON Schema of the settings of skills. */
const settingsSchema = {
  type: 'object',
  description: 'A SKILL.md for each server, for agents that load skills.',
  properties: {
    listed: {
      type: 'boolean',
      default: true,
      description: 'Whether each SKILL.md stands in lists of resources too, for clients that know no skills.',
    },
  },
} as const

const NAME = 'skills'

/** Publishes a skill for each server, and those servers publish themselves (SEP-2640). */
export const skills: Feature<Settings | false> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const relay = createRelay(deps)
    const said = introducing(async ({ target: { upstream } }) =>
      settings(upstream) === false ? undefined : { extensions: { [EXTENSION]: { directoryRead: false } } },
    )
    const shelf: Shelf = { deps, relay, isListed: (upstream) => listedBy(settings(upstream)) }
    return {
      methods: { 'skills/list': listing(shelf), 'skills/get': getting(shelf) },
      resources: (upstream) => resourcesOf(upstream, shelf),
      pages: [
        { path: `/skills/${self.name}/SKILL.md`, handle: reading(deps) },
        { path: '/skills/*/SKILL.md', handle: reading(deps) },
      ],
      responseMiddleware: (method) => (method === 'server/discover' ? said : undefined),
    }
  },
}

/** How long skills may be kept, in milliseconds. */
const CACHE_TTL_MS = 60_000
const TYPE = 'text/markdown'

interface Shelf {
  readonly deps: Deps
  readonly relay: Relay
  isListed(upstream?: string): boolean
}

function listedBy(settings: Settings | false): boolean {
  return settings !== false && settings.listed
}

function listing(shelf: Shelf): Handler {
  return async (call) => {
    if (call.params.fields.cursor !== undefined)
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so the cursor is not valid.',
      )
    const relayed = await shelf.relay.list(call)
    const taken = new Set(relayed.map(({ uri }) => uri))
    const own = (await descriptionsFor(call, shelf.deps)).map((description) =>
      skillFor(description, shelf.deps),
    )
    return answered({
      skills: [...own.filter(({ uri }) => !taken.has(uri)), ...relayed],
      ttlMs: CACHE_TTL_MS,
      cacheScope: 'private',
    })
  }
}

function getting({ deps, relay }: Shelf): Handler {
  return async (call) => {
    const { uri } = call.params.fields
    if (typeof uri !== 'string')
      throw new GatewayError('INVALID_INPUT', 'Invalid params: uri must be a string.')
    const own = await ownSkill(call, uri, deps)
    const relayed = await relay.get(call, uri).catch((error: unknown) => {
      if (!own) throw error
    })
    const skill = relayed ?? own
    if (skill) return answered({ skill, ttlMs: CACHE_TTL_MS, cacheScope: 'private' })
    throw new GatewayError('INVALID_INPUT', `Invalid params: there is no skill ${uri}.`, { data: { uri } })
  }
}

async function ownSkill(call: Call, uri: string, deps: Deps): Promise<Skill | undefined> {
  const found = (await descriptionsFor(call, deps)).find((description) => skillUri(description) === uri)
  return found && skillFor(found, deps)
}

/** Of all servers together there is one skill, beside those of each. */
async function descriptionsFor(call: Call, deps: Deps): Promise<readonly ServerDescription[]> {
  const description = await describedList(NAME, call, deps)
  return [description, ...description.parts]
}

function fileOf(description: ServerDescription, deps: Deps): SkillFile {
  return deps.descriptions.document(description, 'skill', skillOf)
}

function skillFor(description: ServerDescription, deps: Deps): Skill {
  const { text, frontmatter } = fileOf(description, deps)
  const uri = skillUri(description)
  return { uri, frontmatter, resources: [{ uri, ...stampOf(text) }] }
}

function resourcesOf(
  upstream: string | undefined,
  { deps, relay, isListed }: Shelf,
): readonly BuiltinEntry[] {
  const names =
    upstream === undefined
      ? [self.name, ...deps.servers.names().filter((each) => deps.features.isOn(NAME, each))]
      : [upstream]
  const own = names.map((name): BuiltinEntry => {
    const folder = skillName({ name })
    const uri = skillUri({ name })
    return {
      definition: {
        uri,
        name: `${folder}/SKILL.md`,
        title: `Skill: ${folder}`,
        description: `How and when to use ${folder}.`,
        mimeType: TYPE,
      },
      isListed: isListed(upstream),
      handle: async (call) => {
        const found = (await descriptionsFor(call, deps)).find((description) => skillUri(description) === uri)
        if (!found) throw unknownResource(uri)
        const { text } = fileOf(found, deps)
        return answered({
          contents: [{ uri, mimeType: TYPE, text }],
          ttlMs: CACHE_TTL_MS,
          cacheScope: 'private',
        })
      },
    }
  })
  return upstream === undefined ? [...own, relay.files] : own
}

function reading(deps: Deps): Handler {
  return async (call) => {
    const description = await describedList(NAME, call, deps)
    const { text } = fileOf(description, deps)
    return pageOf({ text, type: `${TYPE}; charset=utf-8`, maxAge: CACHE_TTL_MS / 1000 })
  }
}

// Relays the skills that servers list themselves, under names of the gateway.

/** A skill as clients know it. */
interface Skill {
  readonly uri: string
  readonly frontmatter: Readonly<Record<string, unknown>>
  /** A list, or a word for files that are only known when they are read. */
  readonly resources: unknown
}

/** The skills servers publish themselves; where they are offered together, the name of the server goes in front. */
interface Relay {
  list(call: Call): Promise<readonly Skill[]>
  /** Nothing where its server says there is none. @throws what keeps its server from answering */
  get(call: Call, uri: string): Promise<Skill | undefined>
  /** Reads the files of these skills where servers are offered together. */
  readonly files: BuiltinEntry
}

const SCHEME = 'skill://'
/** What the extension is called (SEP-2640). */
const EXTENSION = 'io.modelcontextprotocol/skills'

/** The limits of a server's list of skills: entries, pages, and time in milliseconds. */
const MAX_SKILLS = 512
const MAX_PAGES = 100
const LIST_TIMEOUT_MS = 5000

/** Relays the skills of servers that declare the skills extension. */
export function createRelay(deps: Deps): Relay {
  return new SkillRelay(deps)
}

class SkillRelay implements Relay {
  readonly #deps: Deps
  readonly files: BuiltinEntry

  constructor(deps: Deps) {
    this.#deps = deps
    this.files = {
      definition: { uri: SCHEME, name: 'skills' },
      isListed: false,
      matches: (uri) => locate(uri, deps.servers.names()) !== undefined,
      handle: (call) => this.#readFile(call),
    }
  }

  async list(call: Call): Promise<readonly Skill[]> {
    const lists = (await this.#publishers(call)).map((name) =>
      // A server whose list fails does not hide the skills of the others.
      within(
        this.#listOf(call, name).catch(() => []),
        LIST_TIMEOUT_MS,
        [],
      ),
    )
    return (await Promise.all(lists)).flat()
  }

  async get(call: Call, uri: string): Promise<Skill | undefined> {
    const { upstream } = call.target
    const location = upstream === undefined ? locate(uri, this.#deps.servers.names()) : { upstream, uri }
    if (!location || !(await this.#publishesSkills(location.upstream))) return undefined
    const outcome = await this.#request(call, location.upstream, { uri: location.uri }).catch(unlessRefused)
    const [skill] = outcome ? parseSkill(resultOf(outcome).fields.skill) : []
    return skill && upstream === undefined ? withServerPrefix(skill, location.upstream) : skill
  }

  async #readFile(call: Call): Promise<Outcome> {
    const { uri } = call.params.fields
    const location = locate(String(uri), this.#deps.servers.names())
    if (!location) return this.#deps.invoker.relay(call)
    const outcome = await this.#deps.invoker.relay({
      ...call,
      params: call.params.with({ uri: location.uri }),
      target: { method: call.method, upstream: location.upstream, name: location.uri },
    })
    return outcome.kind === 'input_required'
      ? outcome
      : { kind: 'result', result: withContentUri(outcome.result, uri) }
  }

  async #publishesSkills(upstream: string): Promise<boolean> {
    const { capabilities } = await this.#deps.servers.records().of(upstream)
    return isObject(capabilities.extensions) && isObject(capabilities.extensions[EXTENSION])
  }

  async #publishers({ target: { upstream } }: Call): Promise<readonly string[]> {
    const names = upstream === undefined ? this.#deps.servers.names() : [upstream]
    const isPublisher = await Promise.all(names.map((name) => this.#publishesSkills(name)))
    return names.filter((_name, index) => isPublisher[index])
  }

  #request(call: Call, upstream: string, params: Readonly<Record<string, unknown>>): Promise<Outcome> {
    const { inputResponses: _responses, ...rest } = call
    return this.#deps.invoker.relay({
      ...rest,
      params: Payload.of(params).withMeta(call.meta),
      target: { method: call.method, upstream },
      requestState: {},
    })
  }

  async #listOf(call: Call, upstream: string): Promise<Skill[]> {
    const found: Skill[] = []
    let cursor: unknown
    for (let page = 0; page < MAX_PAGES && found.length < MAX_SKILLS; page++) {
      const params = cursor === undefined ? {} : { cursor }
      const { fields } = resultOf(await this.#request(call, upstream, params))
      found.push(...(Array.isArray(fields.skills) ? fields.skills : []).flatMap(parseSkill))
      cursor = fields.nextCursor
      if (typeof cursor !== 'string' || cursor === '') break
    }
    const skills = found.slice(0, MAX_SKILLS)
    return call.target.upstream === undefined
      ? skills.map((skill) => withServerPrefix(skill, upstream))
      : skills
  }
}

function unlessRefused(error: unknown): undefined {
  if (!(error instanceof GatewayError) || error.extra.relayed === undefined) throw error
}

/** `skill://github/acme/git/SKILL.md` is `skill://acme/git/SKILL.md` of the server `github`. */
function locate(
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

function withServerPrefix(skill: Skill, upstream: string): Skill {
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

function withContentUri(result: Payload, uri: unknown): Payload {
  const { contents } = result.fields
  if (!Array.isArray(contents)) return result
  return result.with({ contents: contents.map((each) => (isObject(each) ? { ...each, uri } : each)) })
}

function parseSkill(value: unknown): Skill[] {
  if (!isObject(value) || typeof value.uri !== 'string' || !isObject(value.frontmatter)) return []
  return [{ ...value, uri: value.uri, frontmatter: value.frontmatter, resources: value.resources }]
}
