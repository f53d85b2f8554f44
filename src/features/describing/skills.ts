/** Skills of servers and of the gateway, as resources and documents. */
import { type Call, type Handler, type Outcome, resultOf } from '../../core/call.ts'
import { GatewayError, unknownResource } from '../../core/error.ts'
import { self } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { within } from '../../core/time/waiting.ts'
import { skillName, skillOf, skillUri, stampOf } from '../../descriptions/formats/skill.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { answered } from '../builtin-tool.ts'
import type { Feature, BuiltinEntry, Services } from '../feature.ts'
import { type SkillSettings, skillsSchema } from '../settings/describe.ts'
import { describedList, type DescribingDeps, documentFor, extendDiscover, markdownPage } from './documents.ts'

type Deps = DescribingDeps & Pick<Services, 'invoker'>

const { name: NAME } = skillsSchema

/** Publishes a skill for each server, and relays the skills that servers publish themselves (SEP-2640). */
export const skills: Feature<SkillSettings | false> = {
  ...skillsSchema,
  create: (settings, deps) => {
    const relay = new SkillRelay(deps)
    const discoverMiddleware = extendDiscover(async ({ target: { upstream }, client }) => {
      if (settings(upstream) === false) return undefined
      const asked = client.capabilities.extensions
      const isAsked = isObject(asked) && Object.hasOwn(asked, EXTENSION)
      return {
        extensions: { [EXTENSION]: { directoryRead: false } },
        ...(isAsked && { kinds: ['resources'] }),
      }
    })
    const page = markdownPage(
      async (call) => (await documentFor(NAME, skillFile, call, deps)).text,
      CACHE_TTL_MS / 1000,
    )
    const context: SkillContext = {
      deps,
      relay,
      isListed: (upstream) => (settings(upstream) || { listed: false }).listed,
    }
    return {
      responseMiddleware: (method) => (method === 'server/discover' ? discoverMiddleware : undefined),
      builtins: {
        methods: { 'skills/list': listSkills(context), 'skills/get': getSkill(context) },
        resources: (upstream) => resourcesOf(upstream, context),
      },
      http: {
        pages: [
          { path: `/skills/${self.name}/SKILL.md`, handle: page },
          { path: '/skills/*/SKILL.md', handle: page },
        ],
      },
    }
  },
}

/** How long skills may be cached, in milliseconds. */
const CACHE_TTL_MS = 60_000
const TYPE = 'text/markdown'
const skillFile = { key: 'skill', make: skillOf }

interface SkillContext {
  readonly deps: Deps
  readonly relay: SkillRelay
  isListed(upstream?: string): boolean
}

function listSkills(context: SkillContext): Handler {
  return async (call) => {
    if (call.params.fields.cursor !== undefined)
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: this list has one page, so the cursor is not valid.',
      )
    const relayed = await context.relay.list(call)
    const taken = new Set(relayed.map(({ uri }) => uri))
    const descriptions = await descriptionsFor(call, context.deps)
    const gatewaySkills = descriptions.map((description) => skillFor(description, context.deps))
    return answered({
      skills: [...gatewaySkills.filter(({ uri }) => !taken.has(uri)), ...relayed],
      ttlMs: CACHE_TTL_MS,
      cacheScope: 'private',
    })
  }
}

function getSkill({ deps, relay }: SkillContext): Handler {
  return async (call) => {
    const { uri } = call.params.fields
    if (typeof uri !== 'string')
      throw new GatewayError('INVALID_INPUT', 'Invalid params: uri must be a string.')
    const gatewaySkill = await ownSkill(call, uri, deps)
    const relayed = await relay.get(call, uri).catch((error: unknown) => {
      if (!gatewaySkill) throw error
    })
    const skill = relayed ?? gatewaySkill
    if (skill) return answered({ skill, ttlMs: CACHE_TTL_MS, cacheScope: 'private' })
    throw new GatewayError('INVALID_INPUT', `Invalid params: there is no skill ${uri}.`, { data: { uri } })
  }
}

async function ownSkill(call: Call, uri: string, deps: Deps): Promise<Skill | undefined> {
  const found = (await descriptionsFor(call, deps)).find((description) => skillUri(description) === uri)
  return found && skillFor(found, deps)
}

/** At the combined endpoint there is one skill for all servers, besides those of each. */
async function descriptionsFor(call: Call, deps: Deps): Promise<readonly ServerDescription[]> {
  const description = await describedList(NAME, call, deps)
  return [description, ...description.parts]
}

function skillFor(description: ServerDescription, deps: Deps): Skill {
  const { text, frontmatter } = deps.descriptions.document(description, skillFile.key, skillOf)
  const uri = skillUri(description)
  return { uri, frontmatter, resources: [{ uri, ...stampOf(text) }] }
}

function resourcesOf(
  upstream: string | undefined,
  { deps, relay, isListed }: SkillContext,
): readonly BuiltinEntry[] {
  const names =
    upstream === undefined
      ? [self.name, ...deps.servers.names().filter((each) => deps.features.isOn(NAME, each))]
      : [upstream]
  const entries = names.map((name): BuiltinEntry => {
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
        const { text } = deps.descriptions.document(found, skillFile.key, skillOf)
        return answered({
          resultType: 'complete',
          contents: [{ uri, mimeType: TYPE, text }],
          ttlMs: CACHE_TTL_MS,
          cacheScope: 'private',
        })
      },
    }
  })
  return upstream === undefined ? [...entries, relay.files] : entries
}

/** A skill as clients know it. */
interface Skill {
  readonly uri: string
  readonly frontmatter: Readonly<Record<string, unknown>>
  /** A list, or a string for files that are only known when they are read. */
  readonly resources: unknown
}

const SCHEME = 'skill://'
/** The name of the extension (SEP-2640). */
const EXTENSION = 'io.modelcontextprotocol/skills'

/** The limits of a server's list of skills: entries, pages, and time in milliseconds. */
const MAX_SKILLS = 512
const MAX_PAGES = 100
const LIST_TIMEOUT_MS = 5000

/**
 * Relays the skills of servers that declare the skills extension; at the combined endpoint, the server's name is part of the URI.
 */
export class SkillRelay {
  readonly #deps: Deps
  /** Reads the files of these skills at the combined endpoint. */
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

  /** Undefined if the server has no such skill. @throws errors of the server */
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
    return outcome.kind !== 'result'
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
  // The gateway's own skills have a single file.
  if (end === -1 || !rest.includes('/') || !servers.includes(upstream)) return undefined
  return { upstream, uri: `${SCHEME}${rest}` }
}

function withServerPrefix(skill: Skill, upstream: string): Skill {
  const prefixed = (uri: unknown): unknown =>
    typeof uri === 'string' && uri.startsWith(SCHEME)
      ? `${SCHEME}${upstream}/${uri.slice(SCHEME.length)}`
      : uri
  const { resources } = skill
  return {
    ...skill,
    uri: String(prefixed(skill.uri)),
    resources: Array.isArray(resources)
      ? resources.map((each) => (isObject(each) ? { ...each, uri: prefixed(each.uri) } : each))
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
