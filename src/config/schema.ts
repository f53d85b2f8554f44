/** The JSON Schema of the whole file, composed of the sections and the features. */
import { asObject, isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import type { FeatureSchema } from '../core/settings.ts'
import { authSchema } from './sections/auth.ts'
import { eventsSchema } from './sections/events.ts'
import { bodySchema, listenSchema } from './sections/listen.ts'
import { namePattern, reservedNames } from './names.ts'
import { observeSchema } from './sections/observe.ts'
import { forModelsSchema, listsSchema, profilesSchema } from './sections/profiles.ts'
import { compatSchema, profileSchema, versionSchema } from './sections/profile.ts'
import { fleetSchema } from './sections/fleet.ts'
import { storeSchema } from './sections/store.ts'
import { workersSchema } from './sections/workers.ts'
import { withSwitches } from './schema-lookup.ts'
import { commonPrefixSchema, commonSchemasSchema, upstreamProperties } from './sections/upstream.ts'

/** The JSON Schema of the configuration file. */
export function fileSchema(features: readonly FeatureSchema[]): JsonSchema {
  const definitions = features.filter(isNamed).flatMap((feature): [string, JsonSchema][] => [
    [feature.name, definition(feature)],
    [`${feature.name}-override`, overrideOf(feature)],
  ])
  return withSwitches({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Gatehouse configuration',
    type: 'object',
    errorMessage: 'must be a mapping with `upstreams:`',
    properties: {
      version: versionSchema,
      profile: profileSchema,
      compat: compatSchema,
      listen: listenSchema,
      workers: workersSchema,
      prefix: commonPrefixSchema,
      schemas: commonSchemasSchema,
      for_models: forModelsSchema,
      auth: authSchema,
      ...placed(features, 'top', ''),
      limits: limitsSchema(features, { body: bodySchema }),
      store: storeSchema,
      fleet: fleetSchema,
      observe: observeSchema,
      meta_tools: {
        enum: ['hidden', 'listed', 'off', false],
        default: 'hidden',
        errorMessage: 'must be hidden, listed or off',
        description:
          "The gateway's own tools: `hidden` ones can be called, `listed` ones are also in lists, and with `off` they do not exist.",
      },
      methods: {
        type: 'boolean',
        default: true,
        errorMessage: 'must be on or off',
        description:
          "Whether the gateway answers methods that are not part of MCP, such as `ai_help`; with `off` they return -32601. Its built-in tools do the same. See [Names of the gateway's own tools and methods](usage.md#names-of-the-gateways-own-tools-and-methods).",
      },
      features: featuresSchema(features, ''),
      events: {
        ...eventsSchema,
        description: 'Events of no single server, by name: they exist at the address of all servers.',
      },
      upstreams: {
        type: 'object',
        minProperties: 1,
        errorMessage: 'must name at least one server, as in `files: npx -y some-server`',
        propertyNames: {
          pattern: namePattern,
          errorMessage: `must be lower-case letters, digits and dashes, start with a letter, and not be ${reservedNames.join(' or ')}`,
        },
        additionalProperties: upstreamSchema(features),
        description: 'The servers behind the gateway, by name.',
        examples: [{ files: 'npx -y @modelcontextprotocol/server-filesystem /srv/docs' }],
      },
      profiles: profilesSchema,
      lists: listsSchema,
    },
    required: ['upstreams'],
    additionalProperties: false,
    'x-instead': foreignKeys,
    $defs: Object.fromEntries(definitions),
  })
}

/** Keys of the configurations of MCP clients, and what is written here instead. */
const foreignKeys = {
  servers: 'servers are under `upstreams`',
  tools: 'settings of tools are under their server: `upstreams: { files: { tools: … } }`',
}
const URL_KEY = 'write `url`'
const HIDDEN = 'hide tools with `tools: { NAME: { hide: on } }`'
const UNASKED = 'to not be asked about a tool, write `tools: { NAME: { confirm: never } }`'
const foreignServerKeys = {
  type: 'remove it; `url` or `command` says how the server is reached, and `transport: sse` asks for the older HTTP transport',
  httpUrl: URL_KEY,
  serverUrl: URL_KEY,
  uri: URL_KEY,
  endpoint: URL_KEY,
  cmd: 'write `command`',
  environment: 'write `env`',
  envs: 'write `env`',
  envFile:
    'variables come from the environment, `--env-file`, or .env next to this file, and are written ${NAME}',
  workingDirectory: 'write `cwd`',
  auth: 'write `token`, `headers` or `oauth`',
  authorization: 'write `token`, or the header under `headers`',
  apiKey: 'write `token`, or the header under `headers`',
  disabled: 'to switch a server off, remove it or make its lines comments',
  enabled: 'every server in this file is on: remove it',
  disabledTools: HIDDEN,
  excludeTools: HIDDEN,
  includeTools: HIDDEN,
  alwaysAllow: UNASKED,
  autoApprove: UNASKED,
  confirm: 'confirmation is configured for each tool: `tools: { NAME: { confirm: on } }`',
  description: 'write `about`',
}

/** The schema as the text of the published file. Its descriptions lead to no pages of the manual, which is not beside it. */
export function schemaText(features: readonly FeatureSchema[]): string {
  const withoutPages = (key: string, value: unknown): unknown =>
    key === 'description' && typeof value === 'string'
      ? value.replace(/ See \[[^\]]+\]\([^)]+\)\./, '')
      : value
  return `${JSON.stringify(fileSchema(features), withoutPages, 2)}\n`
}

function upstreamSchema(features: readonly FeatureSchema[]): JsonSchema {
  return {
    type: ['object', 'string'],
    minLength: 1,
    errorMessage: 'must be a command line, a URL, or a mapping with `command:` or `url:`',
    properties: {
      ...upstreamProperties,
      compat: { ...compatSchema, description: '`compat` for this server alone.' },
      ...placed(features, 'top', '-override'),
      limits: limitsSchema(features),
      features: featuresSchema(features, '-override'),
    },
    additionalProperties: false,
    'x-instead': foreignServerKeys,
    description:
      'A URL if it starts with http:// or https://, a command line, or settings. Names consist of lower-case letters, digits and dashes; `gatehouse` and `server-card` are reserved.',
  }
}

function featuresSchema(features: readonly FeatureSchema[], suffix: string): JsonSchema {
  return {
    type: ['object', 'string'],
    pattern: '^none$',
    errorMessage: 'must be none, or a mapping of features to on, off or settings',
    properties: placed(features, 'features', suffix),
    additionalProperties: false,
    description:
      suffix === ''
        ? 'The settings of features; those not named here keep their defaults. `none` turns all off.'
        : 'Settings of features for this server alone.',
  }
}

function placed(
  features: readonly FeatureSchema[],
  place: FeatureSchema['place'],
  suffix: string,
): JsonSchema {
  const here = features.filter((feature) => feature.place === place)
  return Object.fromEntries(here.map(({ name }) => [name, { $ref: `#/$defs/${name}${suffix}` }]))
}

function limitsSchema(features: readonly FeatureSchema[], more?: JsonSchema): JsonSchema {
  const own = features.flatMap(({ place, schema: { properties } }) =>
    place === 'limits' && isObject(properties) ? Object.entries(properties) : [],
  )
  return {
    type: 'object',
    errorMessage: 'must be a mapping such as { timeout: 30s }',
    description: more
      ? 'Limits of rates, concurrency, sizes and times.'
      : 'Limits of this server alone. Rates and concurrency are counted for it separately, in addition to the common limits.',
    additionalProperties: false,
    ...(more && { default: {} }),
    properties: { ...more, ...Object.fromEntries(own) },
  }
}

/** Whether a feature's settings are under its own name. */
function isNamed({ place }: FeatureSchema): boolean {
  return place !== 'limits'
}

function definition({ schema, choice }: FeatureSchema): JsonSchema {
  if (choice !== undefined) return choiceOf(schema, choice)
  return {
    additionalProperties: false,
    ...schema,
    type: ['object', 'string', 'boolean'],
    pattern: '^(on|off)$',
    errorMessage: 'must be on, off, or a mapping of settings',
  }
}

/** The schema of a feature with one setting: its words, or `off`. */
function choiceOf({ description, default: fallback, properties }: JsonSchema, choice: string): JsonSchema {
  const { enum: words } = asObject(asObject(properties)[choice])
  const all: readonly unknown[] = ['off', ...(Array.isArray(words) ? words : [])]
  return {
    enum: [...all, false],
    errorMessage: `must be ${all.slice(0, -1).join(', ')} or ${String(all.at(-1))}`,
    default: fallback,
    description,
  }
}

// An override contains only differences, so no member is required, and none that belongs to the gateway is permitted.
function overrideOf(feature: FeatureSchema): JsonSchema {
  const { required: _required, default: _default, ...schema } = definition(feature)
  const { properties } = schema
  if (!isObject(properties)) return schema
  const place = feature.place === 'features' ? `features.${feature.name}` : feature.name
  const own = Object.entries(properties).map(([key, each]) => {
    const isOfGateway = isObject(each) && each['x-gateway'] === true
    return [key, isOfGateway ? notForServers(`${place}.${key}`) : each] as const
  })
  return { ...schema, properties: Object.fromEntries(own) }
}

function notForServers(place: string): JsonSchema {
  return {
    not: {},
    errorMessage: `cannot differ between servers: write it as \`${place}\` at the top level of the file`,
    description: 'Only for all servers.',
  }
}
