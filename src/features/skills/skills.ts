import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { unknownResource } from '../../core/unknown.ts'
import type { Portrait } from '../../documents/portrait.ts'
import { type SkillFile, skillFile, skillName, skillOf, skillUri } from '../../documents/skill.ts'
import { self } from '../../core/self.ts'
import { introducing } from '../discovered.ts'
import type { Deps, Feature, OwnEntry } from '../feature.ts'
import { createRelay, type Relay } from './relay.ts'
import { type Settings, settingsSchema } from './settings.ts'

/** Publishes a skill for each server, and those servers publish themselves (SEP-2640). */
export const skills: Feature<Settings | false> = {
  name: 'skills',
  place: 'features',
  schema: settingsSchema,
  create: (settings, deps) => {
    const relay = createRelay(deps)
    const shelf: Shelf = { deps, relay, isListed: (upstream) => listedBy(settings(upstream)) }
    return {
      methods: { 'skills/list': listing(shelf), 'skills/get': getting(shelf) },
      resources: (upstream) => resourcesOf(upstream, shelf),
      pages: [
        { path: `/skills/${self.name}/SKILL.md`, handle: reading(deps) },
        { path: '/skills/*/SKILL.md', handle: reading(deps) },
      ],
      shown: introducing(async ({ target: { upstream } }) =>
        settings(upstream) === false ? undefined : { extensions: { [EXTENSION]: { directoryRead: false } } },
      ),
    }
  },
}

const EXTENSION = 'io.modelcontextprotocol/skills'

/** How long skills may be kept, in milliseconds. */
const TTL = 60_000
const TYPE = 'text/markdown'

interface Shelf {
  readonly deps: Deps
  readonly relay: Relay
  isListed(upstream?: string): boolean
}

/** A skill as it is listed. */
interface Skill {
  readonly uri: string
  readonly frontmatter: Readonly<Record<string, unknown>>
  readonly resources: readonly unknown[]
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
    const own = (await portraitsFor(call, shelf.deps)).map((portrait) => skillFor(portrait, shelf.deps))
    return done({
      skills: [...own.filter(({ uri }) => !taken.has(uri)), ...relayed],
      ttlMs: TTL,
      cacheScope: 'private',
    })
  }
}

function getting({ deps, relay }: Shelf): Handler {
  return async (call) => {
    const { uri } = call.params.fields
    if (typeof uri !== 'string')
      throw new GatewayError('INVALID_INPUT', 'Invalid params: uri must be a string.')
    const relayed = await relay.get(call, uri)
    const skill = relayed ?? (await ownSkill(call, uri, deps))
    if (skill) return done({ skill, ttlMs: TTL, cacheScope: 'private' })
    throw new GatewayError('INVALID_INPUT', `Invalid params: there is no skill ${uri}.`, { data: { uri } })
  }
}

async function ownSkill(call: Call, uri: string, deps: Deps): Promise<Skill | undefined> {
  const found = (await portraitsFor(call, deps)).find((portrait) => skillUri(portrait) === uri)
  return found && skillFor(found, deps)
}

/** Of all servers together there is one skill, beside those of each. */
async function portraitsFor(call: Call, deps: Deps): Promise<readonly Portrait[]> {
  const portrait = await deps.portrait(call.target.upstream, call)
  return [portrait, ...portrait.parts]
}

function fileOf(portrait: Portrait, deps: Deps): SkillFile {
  const { text, frontmatter } = deps.document(portrait, 'skill', skillOf)
  return skillFile(text, frontmatter)
}

function skillFor(portrait: Portrait, deps: Deps): Skill {
  const { digest, size, frontmatter } = fileOf(portrait, deps)
  const uri = skillUri(portrait)
  return { uri, frontmatter, resources: [{ uri, digest, size }] }
}

function resourcesOf(upstream: string | undefined, { deps, relay, isListed }: Shelf): readonly OwnEntry[] {
  const names = upstream === undefined ? [self.name, ...deps.servers()] : [upstream]
  const own = names.map((name): OwnEntry => {
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
        const found = (await portraitsFor(call, deps)).find((portrait) => skillUri(portrait) === uri)
        if (!found) throw unknownResource(uri)
        const { text } = fileOf(found, deps)
        return done({ contents: [{ uri, mimeType: TYPE, text }], ttlMs: TTL, cacheScope: 'private' })
      },
    }
  })
  return upstream === undefined ? [...own, relay.files] : own
}

function reading(deps: Deps): Handler {
  return async (call) => {
    const portrait = await deps.portrait(call.target.upstream, call)
    const { text } = fileOf(portrait, deps)
    return done({ text, type: `${TYPE}; charset=utf-8`, maxAge: TTL / 1000 })
  }
}

function done(result: Record<string, unknown>): Outcome {
  return { kind: 'result', result: Payload.of(result) }
}
