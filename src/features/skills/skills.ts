/** Skills of servers and of the gateway, as resources and documents. */
import type { Call, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { self } from '../../core/identity.ts'
import { unknownResource } from '../../core/unknown.ts'
import { type SkillFile, skillName, skillOf, skillUri, stampOf } from '../../descriptions/formats/skill.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { answered, pageOf } from '../builtin-tool.ts'
import { introducing, describedList } from '../describing.ts'
import type { Feature, BuiltinEntry } from '../feature.ts'
import type { Services } from '../services.ts'
import { createRelay, EXTENSION, type Relay, type Skill } from './relay.ts'

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
        'Invalid params: this list has one page, so there is no such cursor.',
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
