/**
 * The sections `profiles` and `lists`, and the key `for_models`: which tools clients find at an address, and how long their
 * list may be. The key `profile`, which is the profile of the whole gateway, is something else.
 */
import { asObject, isObject } from '../../core/json/json.ts'
import type { Fields } from '../../core/payload.ts'
import { CALL_TOOL, type ListSettings, type ProfileSettings, SEARCH_TOOL } from '../../core/settings.ts'
import { prefixOf } from '../../core/text/alias.ts'
import { nearest } from '../../core/text/words.ts'
import { rateSchema } from '../../core/time/units.ts'
import { atKey, atValue, type Finding } from '../problem.ts'
import { modelDefaults } from './profile.ts'

const glob = { type: 'string', minLength: 1, errorMessage: 'must be the name of a tool, or a glob' } as const
const globs = {
  type: ['array', 'string'],
  minLength: 1,
  items: glob,
  errorMessage: 'must be a list of names of tools, or of globs such as files_*',
} as const
const TOOL_NAME = '^[A-Za-z0-9_.-]{1,64}$'

const listProperties = {
  budget: {
    type: ['integer', 'string', 'boolean'],
    minimum: 100,
    pattern: '^(?:off|false)$',
    not: { const: true },
    errorMessage: 'must be a number of tokens from 100 on, or off',
    description:
      'The most tokens that a list of tools may take, where four characters of its JSON count as one token. A longer list is replaced by `search_tools` and `call_tool`. By default `off`, and 20000 with `for_models`.',
    examples: [20_000],
  },
  search: {
    enum: ['auto', 'always', 'off', false],
    default: 'auto',
    errorMessage: 'must be auto, always or off',
    description:
      'Whether models find tools by `search_tools` and call them by `call_tool`, in place of the list: `auto` if the list is over its `budget`, `always`, or `off`.',
  },
  always: {
    ...globs,
    default: [],
    description: 'Tools that are listed in any case, also beside `search_tools`.',
    examples: [['files_read_*']],
  },
} as const

/** The JSON Schema of `lists`. */
export const listsSchema = {
  type: 'object',
  default: {},
  errorMessage: 'must be a mapping such as { budget: 20000 }',
  description:
    'How long lists of tools may be at /mcp and /mcp/<server>. See [Lists that fit the client](lists.md).',
  properties: listProperties,
  additionalProperties: false,
} as const

/** The JSON Schema of `for_models`. */
export const forModelsSchema = {
  type: 'boolean',
  description:
    'Sets the defaults of lists for clients that give them to a model: `schemas: repair`, and `budget: 20000` under `lists` and in each of the `profiles`. What is written in the file takes precedence, and calls stay the same. By default `off`.',
} as const

/** The JSON Schema of `profiles`. */
export const profilesSchema = {
  type: 'object',
  default: {},
  errorMessage:
    'must be a mapping of names to lists, such as { coding: { servers: [files] } }; the profile of the whole gateway is the key `profile`',
  propertyNames: {
    pattern: '^[a-z][a-z0-9-]{0,30}$',
    errorMessage: 'must be lower-case letters, digits and dashes, and start with a letter',
  },
  description:
    'Lists of tools for single clients, by name: each has the URL /mcp/p/<name>. They say what is found there, and are no permissions: whoever may use /mcp may use each of them. See [Lists that fit the client](lists.md).',
  examples: [{ coding: { servers: ['files', 'github'], hide: ['*_delete_*'] } }],
  additionalProperties: {
    type: 'object',
    errorMessage: 'must be a mapping such as { servers: [files] }',
    additionalProperties: false,
    'x-instead': {
      tools:
        'write `show`, `hide`, `rename` or `describe`; other settings of tools are those of their server',
    },
    properties: {
      servers: {
        type: ['array', 'string'],
        minItems: 1,
        minLength: 1,
        items: { type: 'string', minLength: 1 },
        errorMessage: 'must be a list of names of servers',
        description: 'The servers in it. Default: all.',
      },
      show: { ...globs, description: 'The tools in it, by the names that clients see. Default: all.' },
      hide: {
        ...globs,
        default: [],
        description:
          'Tools that are not in it, by the names that clients see, also those of the gateway itself. They are not listed, and calls of them fail as those of unknown tools.',
      },
      rename: {
        type: 'object',
        default: {},
        errorMessage: 'must be a mapping of names in the list to other names',
        additionalProperties: {
          type: 'string',
          pattern: TOOL_NAME,
          errorMessage: 'must be a name of at most 64 letters, digits, _, - and .',
        },
        description:
          'Names of tools in place of those in the list at /mcp. The other settings of the profile refer to these names, and everything else to the names on the servers.',
        examples: [{ files_read_text_file: 'read' }],
      },
      describe: {
        type: 'object',
        default: {},
        errorMessage: 'must be a mapping of names of tools to descriptions',
        additionalProperties: { type: 'string', minLength: 1, errorMessage: 'must be a text' },
        description:
          'Descriptions of tools in place of those of their servers, by the names that clients see.',
      },
      rate: {
        ...rateSchema,
        description: 'How often each caller may call tools by this URL, in addition to the other limits.',
      },
      for_models: { ...forModelsSchema, description: '`for_models` for this profile alone.' },
      ...listProperties,
    },
  },
} as const

/** Values of `lists` in a file. */
export interface ListValues {
  readonly budget?: number | false
  readonly search: 'auto' | 'always' | 'off' | false
  readonly always: string | readonly string[]
}

/** Values of one of `profiles` in a file. */
export interface ProfileValues extends ListValues {
  readonly servers?: string | readonly string[]
  readonly show?: string | readonly string[]
  readonly hide: string | readonly string[]
  readonly rename: Readonly<Record<string, string>>
  readonly describe: Readonly<Record<string, string>>
  readonly rate?: string | readonly string[]
  readonly for_models?: boolean
}

/** How tools are listed, with the defaults of `for_models`; undefined where there is nothing to do. */
export function listSettings(
  { budget, search, always }: ListValues,
  isForModels: boolean,
): ListSettings | undefined {
  const limit = budget ?? (isForModels ? modelDefaults.budget : false)
  if (search === false || search === 'off' || (search === 'auto' && limit === false)) return undefined
  return { ...(limit !== false && { budget: limit }), search, always: [always].flat() }
}

/** The settings of the profiles. */
export function profileSettings(
  values: Readonly<Record<string, ProfileValues>>,
  servers: readonly string[],
  isForModels: boolean,
): readonly ProfileSettings[] {
  return Object.entries(values).map(([name, profile]) => {
    const { show, hide, rename, describe, rate, for_models: own } = profile
    const lists = listSettings(profile, own ?? isForModels)
    return {
      name,
      servers: profile.servers === undefined ? servers : [...new Set([profile.servers].flat())],
      ...(show !== undefined && { show: [show].flat() }),
      hide: [hide].flat(),
      rename,
      describe,
      ...(rate !== undefined && { rate }),
      ...(own === true && { isForModels: true }),
      ...(lists && { lists }),
    }
  })
}

/** Checks of `profiles` that a schema cannot express. */
export function profileProblems({ profiles, upstreams, prefix }: Fields): Finding[] {
  const servers = asObject(upstreams)
  return Object.entries(asObject(profiles)).flatMap(([name, profile]) => {
    const path = ['profiles', name]
    return isObject(profile) ? problemsOf(profile, path, { servers, prefix }) : []
  })
}

interface Surroundings {
  readonly servers: Readonly<Record<string, unknown>>
  readonly prefix: unknown
}

function problemsOf(profile: Fields, path: readonly string[], { servers, prefix }: Surroundings): Finding[] {
  const all = Object.keys(servers)
  const given = profile.servers === undefined ? all : [profile.servers].flat()
  const written = given.filter((each) => typeof each === 'string')
  const unknown = written.flatMap((server, index) => {
    const similar = nearest(server, all)
    const fix = similar === undefined ? `write one of ${all.join(', ')}` : `did you mean ${similar}?`
    const at = Array.isArray(profile.servers) ? [String(index)] : []
    return atValue(
      [...path, 'servers', ...at],
      !Object.hasOwn(servers, server) && `no server has this name: ${fix}`,
    )
  })
  const isBare = (server: string): boolean => {
    const own = asObject(servers[server]).prefix ?? prefix ?? 'auto'
    return own === 'never' || (own === 'auto' && written.length === 1)
  }
  const isAnyBare = written.some(isBare)
  const renames = Object.entries(asObject(profile.rename))
  const renamed = renames.flatMap(([name, to]) => {
    const at = [...path, 'rename', name]
    const owner = ownerOf(name, written)
    const taker = typeof to === 'string' ? ownerOf(to, all) : undefined
    const first = renames.find(([, each]) => each === to)?.[0]
    return [
      ...atKey(
        at,
        owner === undefined &&
          !isAnyBare &&
          `begins with the name of no server of this profile: write it as in the list, such as ${prefixOf(written[0] ?? 'server')}NAME`,
      ),
      ...atValue(at, first !== name && `is also the name of ${first ?? ''}: choose another name`),
      ...atValue(
        at,
        taker !== undefined &&
          taker !== owner &&
          `such names belong to the server ${taker}: choose a name that does not begin with ${prefixOf(taker)}`,
      ),
      ...atValue(
        at,
        typeof to === 'string' &&
          [SEARCH_TOOL, CALL_TOOL].includes(to) &&
          'is the name of a tool of the gateway: choose another name',
      ),
    ]
  })
  return [...unknown, ...renamed]
}

function ownerOf(name: string, servers: readonly string[]): string | undefined {
  return servers
    .filter((server) => name.startsWith(prefixOf(server)))
    .toSorted((one, other) => other.length - one.length)[0]
}
