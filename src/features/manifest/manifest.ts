import type { Call, Handler } from '../../core/call.ts'
import { isApart } from '../../documents/endpoints.ts'
import { manifestOf, manifestVersion } from '../../documents/manifest.ts'
import type { ServerDescription } from '../../documents/portrait.ts'
import { cardType, catalogEntry, serverCard } from '../../documents/registry.ts'
import { NS } from '../../wire/extensions.ts'
import { introducing, descriptionSoon } from '../discovered.ts'
import type { Deps, Feature, BuiltinPage, BuiltinTool } from '../feature.ts'
import { answered, pageOf } from '../own-tool.ts'
import { describedList } from '../portrayed.ts'
import { telling } from './changes.ts'
import { type Asked, withRemainingQuota } from './left.ts'
import { type Settings, settingsSchema } from './settings.ts'

const NAME = 'manifest'

/** Tells programs what a server does, costs and needs, before they call it. */
export const manifest: Feature<Settings | false> = {
  name: NAME,
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const said = introducing(async (call) => {
      const own = settings(call.target.upstream)
      if (own === false) return undefined
      const description = await descriptionSoon(NAME, call, deps)
      const path = call.target.upstream === undefined ? '' : `/${call.target.upstream}`
      const url = deps.page(`/capabilities${path}`)
      const made = description && (await smallManifest(description, own.inline, { call, deps }))
      return {
        extensions: {
          [META_KEY]: {
            manifestVersion,
            ttlSeconds: Math.round(own.ttl / 1000),
            ...(url !== undefined && { url }),
            ...(deps.hasTools && { tool: definition.name }),
          },
        },
        ...(made && { meta: { [META_KEY]: made } }),
      }
    })
    const changes = telling(deps, (upstream) => settings(upstream) !== false)
    return {
      tools: [toolOf(settings, deps)],
      pages: pagesOf(settings, deps),
      rewriteResult: (method) => {
        if (method === 'server/discover') return (next) => said(changes.declared(next))
        return method === 'subscriptions/listen' ? changes.heard : undefined
      },
      close: async () => changes.close(),
    }
  },
}

type Json = Readonly<Record<string, unknown>>

/** The manifest with what is left, where it is no larger than so many bytes. */
async function smallManifest(
  description: ServerDescription,
  most: number,
  asked: Asked,
): Promise<Json | undefined> {
  const fits = (value: Json): boolean => Buffer.byteLength(JSON.stringify(value)) <= most
  const lasting = asked.deps.document(description, 'manifest', manifestOf)
  // What is left is only counted where it will be told.
  const made = fits(lasting) ? await withRemainingQuota(lasting, description, asked) : undefined
  return made && fits(made) ? made : undefined
}

const META_KEY = `${NS}/manifest`

const definition = {
  name: 'get_manifest',
  title: 'Manifest of this server',
  description:
    'Returns the service manifest: every tool with its risk, confirmation, scopes, cost, latency and limits, as data.',
  inputSchema: { type: 'object', properties: {} },
  annotations: { readOnlyHint: true, idempotentHint: true },
}

type SettingsFor = (upstream?: string) => Settings | false

function toolOf(settings: SettingsFor, deps: Deps): BuiltinTool {
  return {
    definition,
    isListed: (upstream) => listedBy(settings(upstream)),
    handle: async (call) => {
      const own = settings(call.target.upstream)
      const { whole: made } = await manifestFor(call, deps)
      const { _meta: meta, ...members } = made
      const ttl = own === false ? 0 : own.ttl
      return answered({
        ...(own !== false && own.compat && members),
        content: [{ type: 'text', text: JSON.stringify(made) }],
        structuredContent: made,
        _meta: { ...Object(meta), ttlMs: ttl, cacheScope: 'private' },
      })
    },
  }
}

function listedBy(settings: Settings | false): boolean | undefined {
  return settings === false ? undefined : settings.listed
}

async function manifestFor(
  call: Call,
  deps: Deps,
): Promise<{ readonly lasting: Json; readonly whole: Json }> {
  const description = await describedList(NAME, call, deps)
  const lasting = deps.document(description, 'manifest', manifestOf)
  return { lasting, whole: await withRemainingQuota(lasting, description, { call, deps }) }
}

function pagesOf(settings: SettingsFor, deps: Deps): BuiltinPage[] {
  const maxAge = (call: Call): number => {
    const own = settings(call.target.upstream)
    return own === false ? 0 : Math.round(own.ttl / 1000)
  }
  const capabilities: Handler = async (call) => {
    const { lasting, whole } = await manifestFor(call, deps)
    return pageOf({
      text: JSON.stringify(whole),
      type: 'application/json',
      maxAge: maxAge(call),
      ...(whole !== lasting && { lasting: JSON.stringify(lasting) }),
    })
  }
  const card: Handler = async (call) => {
    const found = deps.document(await describedList(NAME, call, deps), 'card', serverCard)
    return pageOf({ text: JSON.stringify(found), type: cardType, maxAge: maxAge(call) })
  }
  const catalogue: Handler = async (call) =>
    pageOf({
      text: JSON.stringify({ specVersion: '1.0', entries: await entriesOf(deps) }),
      type: 'application/json',
      maxAge: maxAge(call),
    })
  return [
    { path: '/capabilities', handle: capabilities },
    { path: '/capabilities/*', handle: capabilities },
    { path: '/mcp/server-card', handle: card },
    { path: '/mcp/*/server-card', handle: card },
    // It names where cards are, and is found before anybody could have a token.
    { path: '/.well-known/mcp/catalog.json', isOpen: () => true, handle: catalogue },
  ]
}

/** An entry for all servers together where there are several, and one for each. */
async function entriesOf(deps: Deps): Promise<unknown[]> {
  const names = deps.servers().filter((name) => deps.isOn(NAME, name))
  const asked = names.length > 1 ? [undefined, ...names] : names
  const descriptions = await Promise.all(asked.map(async (name) => deps.description(name)))
  return descriptions.flatMap((description: ServerDescription, index) => {
    // There is nothing to connect to that all of them are at.
    if (isApart(description)) return []
    const name = asked[index]
    const url = deps.page(name === undefined ? '/mcp/server-card' : `/mcp/${name}/server-card`)
    return url === undefined ? [] : [deps.document(description, 'entry', (each) => catalogEntry(each, url))]
  })
}
