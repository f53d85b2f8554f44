/** The settings that `references` and `largeResults` share, and values derived from them. */
import type { Principal } from '../../core/principal.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { NS } from '../../protocol/meta-keys.ts'
import type { Reference, ReferenceLimits, References } from '../../records/references.ts'
import type { SettingsOf } from '../feature.ts'
import type { ImportSettings } from './exchange.ts'
import type { Keeping } from './keep.ts'
import type { DataUrls } from './urls.ts'

/** The settings of references. Sizes are in bytes, times in milliseconds. */
export interface ReferenceSettings extends ImportSettings {
  readonly over: number
  readonly ttl: number
  readonly argument: number
  readonly total: number
  readonly folder?: string
  readonly urls: boolean
  readonly url_ttl: number
  readonly upload: number
  readonly file_hosts: readonly string[]
}

// Where references are on for single servers only.
const DEFAULT_TOTAL_BYTES = 4 * 1024 * 1024 * 1024
export const DEFAULT_UPLOAD_BYTES = 100 * 1024 * 1024
export const DEFAULT_TTL_MS = 900_000
/** The `_meta` key of a request whose result is kept whatever its size, and of the id that it gets. */
export const AS_REFERENCE = `${NS}/as_reference`
export const REFERENCE_ID = `${NS}/ref_id`

/** What both features have in common. */
export const common = {
  name: 'references',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    default: 'off',
    description:
      'Whether large results are kept in the gateway. Clients get references to them, which they can read in parts and send as arguments of tools.',
    properties: {
      over: {
        ...sizeSchema,
        default: '64KB',
        description: 'The size from which a result is kept. Callers can have smaller ones kept too.',
      },
      ttl: { ...durationSchema, default: '15m', description: 'How long data is kept.' },
      argument: {
        ...sizeSchema,
        default: '64MB',
        description: 'The maximum size of the data that the references in the arguments of a call stand for.',
      },
      total: {
        ...sizeSchema,
        default: '4GB',
        'x-gateway': true,
        description:
          'The maximum size of all kept data, for all servers. One caller may use a quarter of it, if callers are authenticated.',
      },
      folder: {
        type: 'string',
        pattern: '^(?:/|[A-Za-z]:[\\\\/])',
        errorMessage: 'must be an absolute path',
        description:
          'Where data is put as files, for servers on this machine whose tools take a path: a folder that only the gateway writes to. By default one among the temporary files. Set it to a folder in which the servers may read.',
      },
      imports: {
        type: 'object',
        'x-gateway': true,
        additionalProperties: {
          type: 'object',
          additionalProperties: false,
          properties: {
            tool: { type: 'string', minLength: 1, description: 'The tool, by its name at `/mcp`.' },
            argument: { type: 'string', minLength: 1, description: 'Its argument that gets the data.' },
          },
          required: ['tool', 'argument'],
        },
        description:
          'The tools to which `import_from_ref` gives data, by the `target_format` that a caller names.',
      },
      allow_hosts: {
        type: 'array',
        items: { type: 'string', pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$' },
        'x-gateway': true,
        description:
          'The hosts from which `import_from_ref` may download data of servers that are not behind the gateway, over https. None by default.',
      },
      urls: {
        type: 'boolean',
        default: false,
        'x-gateway': true,
        description:
          'Whether clients get a URL with each reference, at which whoever has it can read the data for a short time.',
      },
      url_ttl: {
        ...durationSchema,
        default: '5m',
        'x-gateway': true,
        description: 'How long such a URL works.',
      },
      upload: {
        ...sizeSchema,
        default: '100MB',
        'x-gateway': true,
        description: 'The maximum size of a file that callers or people send.',
      },
      file_hosts: {
        type: 'array',
        items: { type: 'string', pattern: '^[a-z0-9.-]+$', errorMessage: 'must be a host name' },
        default: [],
        description:
          'Hosts, besides that of the server, at which a server with the draft extension `files` may have clients transfer files.',
      },
    },
  },
} as const

/** What makes a URL for each reference, if that is on. */
export function urlsOf(
  urls: DataUrls,
  settings: ReferenceSettings | false,
): { urlOf?(principal: Principal, reference: Reference): string | undefined } {
  if (!settings || !settings.urls) return {}
  return { urlOf: (principal, reference) => urls.of(principal, reference, { ttl: settings.url_ttl }) }
}

/** How results of each server are kept; undefined for those whose results are not. */
export function keeper(
  settings: SettingsOf<ReferenceSettings | false>,
  { references: kept, urls }: { readonly references: References; readonly urls: DataUrls },
): (upstream: string) => Keeping | undefined {
  const withUrls = urlsOf(urls, settings())
  return (upstream) => {
    const own = settings(upstream)
    if (own === false) return undefined
    return { references: kept, over: own.over, ttl: own.ttl, ...withUrls }
  }
}

/** The limits on kept data. */
export function limitsOf(settings: Pick<ReferenceSettings, 'total'> | false): ReferenceLimits {
  return { total: settings ? settings.total : DEFAULT_TOTAL_BYTES }
}
