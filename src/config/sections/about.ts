/** Descriptions of servers and tools by their owners. */
import type { About, Cost } from '../../core/descriptor.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type { Recommendation } from '../../core/settings.ts'
import { pauseSchema, sizeSchema } from '../../core/time/units.ts'

/** The JSON Schema of a list of names. */
export const list = {
  type: ['array', 'string'],
  items: { type: 'string', minLength: 1, errorMessage: 'must be text' },
  errorMessage: 'must be a list of names or globs',
} as const
const sentence = { type: 'string', minLength: 1, maxLength: 2000, errorMessage: 'must be text' } as const
const url = {
  type: 'string',
  pattern: '^(https?://|\\$\\{)',
  errorMessage: 'must start with http:// or https://',
} as const
const sentences = { ...list, errorMessage: 'must be a list of texts' } as const

/** The JSON Schema of the description of a server. */
export const aboutProperties = {
  about: { ...sentence, description: 'The purpose of the server, in one sentence.' },
  use_when: { ...sentences, description: 'Requests of users for which this server is the right one.' },
  not_for: { ...sentences, description: 'What the server is not suitable for.' },
  emoji: {
    type: 'string',
    minLength: 1,
    maxLength: 16,
    description: 'One emoji that represents the server.',
  },
  access: {
    enum: ['read', 'interact', 'full'],
    description: 'The level of access, for documents only. By default derived from its tools.',
  },
  cli: { ...url, description: 'The URL of an equivalent command line tool.' },
  api: { ...url, description: 'The URL of the documentation of an equivalent API.' },
  web: { ...url, description: 'The URL of an equivalent web page.' },
  install: {
    type: 'object',
    errorMessage: 'must be a mapping such as { npm: "npm install -g some-server" }',
    additionalProperties: sentence,
    description:
      'Installation commands of the server itself by package manager, for documents. Clients need none: they connect to the gateway.',
  },
  requires: {
    type: 'object',
    additionalProperties: false,
    errorMessage: 'must be a mapping of auth, env and scopes to lists',
    properties: {
      auth: { ...sentences, description: 'How callers authenticate; by default as `auth` says.' },
      env: {
        ...sentences,
        description:
          "The names of environment variables that callers need; by default none. Those under `env` are the gateway's business.",
      },
      scopes: { ...sentences, description: 'Scopes of the underlying service.' },
    },
    description:
      'What callers need. Default: derived from `auth` of the gateway, and the scopes of the tools.',
  },
  homepage: { ...url, description: 'The home page of the server.' },
  repository: { ...url, description: 'The source code repository.' },
  status_page: { ...url, description: 'The status page of the service.' },
  documentation: { ...url, description: 'The documentation of the server.' },
  intent: {
    type: 'array',
    default: [],
    errorMessage: 'must be a list of rules such as { when: recent incident, suggest: list_issues }',
    items: {
      type: 'object',
      required: ['when', 'suggest'],
      additionalProperties: false,
      errorMessage: 'must be a rule such as { when: recent incident, suggest: list_issues }',
      properties: {
        when: {
          ...sentence,
          description: 'Words that must all be in the intent, or a /regular expression/.',
        },
        on: {
          type: 'string',
          default: '*',
          'x-names': 'tool',
          description: 'The tools to which the rule applies, by name or glob.',
        },
        suggest: { ...sentence, description: 'The tool to use instead.' },
        reason: { ...sentence, description: 'Why.' },
      },
    },
    description: 'Which tool to suggest for which intent.',
  },
  recommend: {
    type: 'array',
    default: [],
    errorMessage: 'must be a list such as { capability: wiki, server: confluence }',
    items: {
      type: 'object',
      required: ['capability', 'server'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { capability: wiki, server: confluence }',
      properties: {
        capability: { ...sentence, description: 'The capability.' },
        server: { ...sentence, description: 'The server with this capability.' },
        registry_url: { ...url, description: 'The URL of the server in a registry.' },
        auth_flow: { ...sentence, description: 'How to authenticate there.' },
        confidence: { enum: ['high', 'medium', 'low'], default: 'high' },
      },
    },
    description: 'Other servers, for what this one cannot do.',
  },
} as const

/** The kinds of cost. */
const costCategories = ['free', 'metered', 'requires_approval'] as const

/** The JSON Schema of the description of a tool. */
export const toolWords = {
  category: { ...sentence, description: 'The category of the tool, for documents.' },
  effects: { ...sentences, description: 'Side effects, for documents.' },
  cli: { ...sentence, description: 'An equivalent command line, such as `gh issue create --title {title}`.' },
  api: {
    ...sentence,
    description: 'An equivalent HTTP request, such as `POST /repos/{owner}/{repo}/issues`.',
  },
  examples: {
    type: 'array',
    errorMessage: 'must be a list such as { input: { title: Broken } }',
    items: {
      type: 'object',
      required: ['input'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { input: { title: Broken } }',
      properties: {
        description: sentence,
        input: {
          type: 'object',
          propertyNames: { 'x-names': 'argument' },
          errorMessage: 'must be a mapping of arguments to values',
        },
        output: {},
      },
    },
    description:
      'Example calls, for documents and `gatehouse test`: a call with the input has to give a result that contains the output.',
  },
  errors: {
    type: 'array',
    errorMessage: 'must be a list such as { code: NOT_FOUND, description: No such issue }',
    items: {
      type: 'object',
      required: ['code', 'description'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { code: NOT_FOUND, description: No such issue }',
      properties: { code: sentence, description: sentence, resolution: sentence },
    },
    description: 'Error codes, for documents.',
  },
  cost: {
    type: ['object', 'string'],
    minLength: 1,
    additionalProperties: false,
    required: ['category'],
    properties: {
      category: { enum: costCategories, description: 'The kind of cost.' },
      units: {
        type: 'number',
        minimum: 0,
        errorMessage: 'must be a number',
        description: 'The approximate cost of one call.',
      },
      label: { ...sentence, description: 'The unit of the cost.' },
    },
    errorMessage:
      'must be such as `5 API credits`, free, or a mapping such as { category: metered, units: 5, label: API credits }',
    description: 'The cost of a call. Calls with a cost that requires approval need confirmation.',
    examples: ['5 API credits'],
  },
  latency: {
    enum: ['instant', 'seconds', 'minutes'],
    description: 'The latency of a call. Default: measured.',
  },
  accepts: { ...sentences, description: 'The media types of its input.' },
  returns: { ...sentences, description: 'The media types of its output.' },
  max_input: {
    ...sizeSchema,
    'x-least': 1,
    description: 'The maximum size of a binary argument, after decoding.',
  },
  provenance: {
    type: 'object',
    additionalProperties: false,
    errorMessage: 'must be a mapping such as { source: "file:{path}" }',
    properties: {
      source: {
        ...sentence,
        'x-names': 'template',
        description:
          'The source of results: a text in which `{argument}` is replaced by its value, or a path such as $.result.url.',
      },
      version: {
        ...sentence,
        description: 'The version of the source, in the same syntax, such as $.result.sha.',
      },
      json_path: { ...sentence, description: 'The part of the source that a result represents.' },
    },
    description: 'The source of results, as described by the owner.',
  },
  deprecated: {
    ...sentence,
    'x-names': 'successor',
    description:
      'The replacement, and the end of support: `use` and the name of a tool, and a date. The notice is added before the description of the tool. Until that date, calls are answered even if the server has removed the tool.',
    examples: ['use log_work, support ends 2027-03-31'],
  },
}

/** The JSON Schema of the description of a resource. */
export const resourceWords = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { type: project, cache: 5m }',
  properties: {
    type: { ...sentence, description: 'What kind of thing the resource is, such as `project`.' },
    refreshable: { type: 'boolean', description: 'Whether its content changes.' },
    cache: { ...pauseSchema, description: 'How long its content may be cached.' },
    web: {
      ...url,
      description:
        'The URL of an equivalent web page. `{uri}` is replaced by the URI of the resource, `{1}` by what the first `*` of the glob stands for.',
    },
    api: {
      ...sentence,
      description: 'An equivalent HTTP request, such as `GET /projects/{1}`, with the same replacements.',
    },
  },
} as const

/** The description of a server as written in the file. */
type AboutValues = FromSchema<{
  readonly type: 'object'
  readonly properties: typeof aboutProperties
}>

/** The settings of the description of a server. */
export function aboutSettings(values: AboutValues): About {
  const { about, emoji, access, cli, api, web, install, homepage, repository, documentation } = values
  const { use_when: useWhen, not_for: notFor, requires, status_page: statusPage } = values
  const links = { cli, api, web, homepage, repository, documentation, statusPage }
  return {
    ...given({ about, emoji, access, install, ...links }),
    ...(useWhen !== undefined && { useWhen: [useWhen].flat() }),
    ...(notFor !== undefined && { notFor: [notFor].flat() }),
    ...(requires && {
      requires: Object.fromEntries(Object.entries(requires).map(([key, names]) => [key, [names].flat()])),
    }),
  }
}

/** The settings of recommended servers. */
export function recommendSettings(values: AboutValues['recommend']): Recommendation[] {
  return values.map(({ registry_url: registryUrl, auth_flow: authFlow, ...rest }) => {
    return { ...rest, ...given({ registryUrl, authFlow }) }
  })
}

/** Parses the short form of a cost: a kind of cost, or a number and a unit. */
export function costSettings(cost: string | Cost): Cost {
  if (typeof cost !== 'string') return cost
  const category = costCategories.find((each) => each === cost)
  if (category !== undefined) return { category }
  const [, units, label] = /^(\d+(?:\.\d+)?)\s+(.+)$/.exec(cost) ?? []
  if (units === undefined || label === undefined) return { category: 'metered', label: cost }
  return { category: 'metered', units: Number(units), label }
}

/** The members with a value. */
export function given<Values extends object>(
  values: Values,
): { [Key in keyof Values]?: Exclude<Values[Key], undefined> } {
  // Mapped types cannot be inferred from entries: each member is unchanged or removed.
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never
}
