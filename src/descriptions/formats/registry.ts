/** Entries and cards for MCP registries. */
import { NS } from '../../protocol/meta-keys.ts'
import { revisionNames } from '../../protocol/revisions.ts'
import { alternativeAccess, specVersion } from './dashdash.ts'
import { installationOf } from '../model/connecting.ts'
import { endpointsOf } from '../model/facts.ts'
import { asksForToken, type ServerDescription } from '../model/description.ts'
import { clipped } from '../model/text.ts'

type Json = Record<string, unknown>

/** The media type of a server card. */
export const cardType = 'application/mcp-server-card+json'

/** The entry of a server for an MCP registry; unverified. */
export function registryEntry(server: ServerDescription): Json {
  const { name, description, tools } = server
  return {
    name,
    description,
    specVersion,
    install: installationOf(server),
    alternativeAccess: alternativeAccess(server),
    categories: [...new Set(tools.map(({ category }) => category))].toSorted(),
    verified: false,
  }
}

/** The server card, for discovery before connecting: SEP-2127, without tools. */
export function serverCard(server: ServerDescription): Json {
  const { name, version, title, purpose, links, front } = server
  const isSigned = asksForToken(front)
  const authorization = {
    name: 'Authorization',
    isRequired: true,
    isSecret: true,
    placeholder: 'Bearer <token>',
  }
  const remotes = Object.values(endpointsOf(server)).map((url) => ({
    type: 'streamable-http',
    url,
    ...(isSigned && { headers: [authorization] }),
    supportedProtocolVersions: revisionNames,
  }))
  return {
    $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
    name: `${NS}/${name}`,
    version,
    description: clipped(purpose, 100),
    title: clipped(title, 100),
    ...(links.homepage !== undefined && { websiteUrl: links.homepage }),
    ...(links.repository !== undefined && { repository: repositoryOf(links.repository) }),
    ...(remotes.length > 0 && { remotes }),
  }
}

/** The media type of an AI Catalog. */
export const catalogType = 'application/ai-catalog+json'

/** The version of the AI Catalog format that SEP-2127 describes. */
export const catalogVersion = '1.0'

/** An entry of the AI Catalog of a domain (SEP-2127): the card has the title, description and version. */
export function catalogEntry({ name }: ServerDescription, cardUrl: string): Json {
  return { identifier: identifierOf(cardUrl, `mcp:${name}`), type: cardType, url: cardUrl }
}

/** The same as drafts of SEP-2127 had it, for `/.well-known/mcp/catalog.json`. */
export function draftCatalogEntry({ name, title }: ServerDescription, cardUrl: string): Json {
  return { identifier: identifierOf(cardUrl, name), displayName: title, type: cardType, url: cardUrl }
}

function identifierOf(cardUrl: string, path: string): string {
  return `urn:air:${new URL(cardUrl).hostname}:${path}`
}

function repositoryOf(url: string): Json {
  const [source = ''] = new URL(url).hostname.replace(/^www\./, '').split('.')
  return { url, source }
}
