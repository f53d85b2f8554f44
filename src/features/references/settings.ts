/** How references are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'

/** The schema of a tool and its argument; the description says by which name the tool is meant. */
function importTarget(description: string) {
  return {
    type: 'object',
    additionalProperties: false,
    properties: {
      tool: { type: 'string', minLength: 1, description },
      argument: { type: 'string', minLength: 1, description: 'Its argument that gets the data.' },
    },
    required: ['tool', 'argument'],
  } as const
}

/** The schema of the settings, which `references` and `largeResults` share. */
export const referencesSchema = defineSettings({
  name: 'references',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether large results are kept in the gateway. Clients get references to them, which they can read in parts and send as arguments of tools. See [References](references.md).',
  properties: {
    over: setting(
      sizeSchema,
      '64KB',
      'The size from which a result is kept. Callers can have smaller ones kept too.',
    ),
    ttl: setting(durationSchema, '15m', 'How long data is kept.'),
    argument: setting(
      { ...sizeSchema, 'x-least': 1 },
      '64MB',
      'The maximum size of the data that the references in the arguments of a call stand for.',
    ),
    total: setting(
      { ...sizeSchema, 'x-least': 1, 'x-gateway': true },
      '4GB',
      'The maximum size of all kept data, for all servers. One caller may use a quarter of it, if callers are authenticated.',
    ),
    folder: {
      type: 'string',
      pattern: '^(?:/|[A-Za-z]:[\\\\/])',
      errorMessage: 'must be an absolute path',
      description:
        'Where data is put as files, for servers on this machine whose tools take a path: a folder that only the gateway writes to. By default one among the temporary files. Set it to a folder in which the servers may read. See [Paths](references.md#paths).',
    },
    imports: {
      type: 'object',
      'x-gateway': true,
      additionalProperties: importTarget('The tool, by its name at `/mcp`.'),
      description:
        'The tools to which `import_from_ref` gives data, by the `target_format` that a caller names, with the name of the tool at /mcp.',
    },
    import: {
      ...importTarget('The tool, by the name that the server lists.'),
      description:
        'The tool of a server to which `import_from_ref` gives data if a caller names neither a tool nor a format, with the name that the server lists.',
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
    url_ttl: setting({ ...durationSchema, 'x-gateway': true }, '5m', 'How long such a URL works.'),
    upload: setting(
      { ...sizeSchema, 'x-least': 1, 'x-gateway': true },
      '100MB',
      'The maximum size of a file that callers or people send.',
    ),
    listed: flag(
      true,
      'Whether the tools for references are in lists, so that models find them. They can be called without. By default `on`, and `off` with `compat: proposals`.',
    ),
    file_hosts: {
      type: 'array',
      items: { type: 'string', pattern: '^[a-z0-9.-]+$', errorMessage: 'must be a host name' },
      default: [],
      description:
        'Hosts, besides that of the server, at which a server with the draft extension `files` may have clients transfer files.',
    },
  },
})

/** The settings of references. Sizes are in bytes, times in milliseconds. */
export type ReferenceSettings = SettingsIn<typeof referencesSchema>

/** A tool that imports, by its name at the address of all servers or at its own, and the argument that gets the data. */
export type ImportTarget = NonNullable<ReferenceSettings['import']>

/** The settings of imports. */
export type ImportSettings = Pick<ReferenceSettings, 'imports' | 'import' | 'allow_hosts'>

/** What applies to the gateway as a whole, also where references are on for single servers only. */
export function gatewayWide(
  settings: ReferenceSettings | false,
): Pick<ReferenceSettings, 'total' | 'ttl' | 'upload'> {
  return settings || { total: 4 * 1024 ** 3, ttl: 900_000, upload: 100 * 1024 ** 2 }
}
