/** What owners say of servers and tools for descriptions. */
import type { About, Cost } from '../../core/descriptor.ts'
import type { IntentRule, Recommendation } from '../../core/settings.ts'
import { sizeSchema } from '../../core/time/units.ts'

/** The JSON Schema of a list of names. */
export const list = {
  type: ['array', 'string'],
  items: { type: 'string', minLength: 1, errorMessage: 'must be text' },
  errorMessage: 'must be a list of names or globs',
}
const sentence = { type: 'string', minLength: 1, maxLength: 2000, errorMessage: 'must be text' }
const url = {
  type: 'string',
  pattern: '^(https?://|\\$\\{)',
  errorMessage: 'must start with http:// or https://',
}
const sentences = { ...list, errorMessage: 'must be a list of texts' }

/** The JSON Schema of what the owner of a server says of it. */
export const aboutProperties = {
  about: { ...sentence, description: 'What the server is for, in a sentence.' },
  use_when: { ...sentences, description: 'What users ask for when it is the right one.' },
  not_for: { ...sentences, description: 'What it is not for.' },
  emoji: { type: 'string', minLength: 1, maxLength: 16, description: 'One emoji for it.' },
  access: {
    enum: ['read', 'interact', 'full'],
    description: 'How far it reaches, for documents alone; by default it follows from its tools.',
  },
  cli: { ...url, description: 'Where a command line tool for the same is found.' },
  api: { ...url, description: 'Where an API for the same is described.' },
  web: { ...url, description: 'A web page for the same.' },
  install: {
    type: 'object',
    errorMessage: 'must be a mapping such as { npm: "npm install -g some-server" }',
    additionalProperties: sentence,
    description: 'How it is installed, by package manager; by default read from `command`.',
  },
  requires: {
    type: 'object',
    additionalProperties: false,
    errorMessage: 'must be a mapping of auth, env and scopes to lists',
    properties: {
      auth: { ...sentences, description: 'How callers prove who they are.' },
      env: { ...sentences, description: 'Names of environment variables.' },
      scopes: { ...sentences, description: 'Scopes of the service behind it.' },
    },
    description: 'What it needs; by default read from the settings of the server.',
  },
  homepage: { ...url, description: 'Its home page.' },
  repository: { ...url, description: 'Where its source is.' },
  status_page: { ...url, description: 'The page that shows its status.' },
  documentation: { ...url, description: 'Where it is documented.' },
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
        when: { ...sentence, description: 'Words that all stand in the intent, or a /regular expression/.' },
        on: {
          type: 'string',
          default: '*',
          'x-names': 'tool',
          description: 'The tools it holds for, by name or glob.',
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
        capability: { ...sentence, description: 'What is wanted.' },
        server: { ...sentence, description: 'The server that has it.' },
        registry_url: { ...url, description: 'Where it is found.' },
        auth_flow: { ...sentence, description: 'How one signs in there.' },
        confidence: { enum: ['high', 'medium', 'low'], default: 'high' },
      },
    },
    description: 'Other servers, for what this one cannot do.',
  },
}

/** What kinds of cost there are. */
const costCategories = ['free', 'metered', 'requires_approval'] as const

/** The JSON Schema of what the owner of a tool says of it. */
export const toolWords = {
  category: { ...sentence, description: 'What it belongs to, for documents.' },
  effects: { ...sentences, description: 'What else it changes, for documents.' },
  cli: { ...sentence, description: 'The same on a command line, such as `gh issue create --title {title}`.' },
  api: { ...sentence, description: 'The same as a request, such as `POST /repos/{owner}/{repo}/issues`.' },
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
    description: 'Calls of it, for documents.',
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
    description: 'How it fails, for documents.',
  },
  cost: {
    type: ['object', 'string'],
    minLength: 1,
    additionalProperties: false,
    required: ['category'],
    properties: {
      category: { enum: costCategories, description: 'What kind of cost it is.' },
      units: {
        type: 'number',
        minimum: 0,
        errorMessage: 'must be a number',
        description: 'About how much one call costs.',
      },
      label: { ...sentence, description: 'What is counted.' },
    },
    errorMessage:
      'must be such as `5 API credits`, free, or a mapping such as { category: metered, units: 5, label: API credits }',
    description: 'What a call costs; one that requires approval is asked about.',
    examples: ['5 API credits'],
  },
  latency: {
    enum: ['instant', 'seconds', 'minutes'],
    description: 'How long it takes; by default found out from its calls.',
  },
  accepts: { ...sentences, description: 'The media types it takes.' },
  returns: { ...sentences, description: 'The media types it gives.' },
  max_input: { ...sizeSchema, description: 'The largest binary argument, once decoded.' },
  provenance: {
    type: 'object',
    additionalProperties: false,
    errorMessage: 'must be a mapping such as { source: "file:{path}" }',
    properties: {
      source: {
        ...sentence,
        'x-names': 'template',
        description:
          'Where results come from: a text in which `{argument}` stands for its value, or a path such as $.result.url.',
      },
      version: { ...sentence, description: 'Its version, in the same words, such as $.result.sha.' },
      json_path: { ...sentence, description: 'What of the source a result is.' },
    },
    description: 'Where results come from, in the words of its owner.',
  },
  deprecated: {
    ...sentence,
    'x-names': 'successor',
    description:
      'What to use instead, and until when it is there: `use` and the name of a tool, and a date. It stands in front of the description of the tool; until that day, calls are answered even where its server dropped the tool.',
    examples: ['use log_work, support ends 2027-03-31'],
  },
}

/** What the owner of a server says of it, as it is written. */
export interface AboutValues {
  readonly about?: string
  readonly use_when?: string | readonly string[]
  readonly not_for?: string | readonly string[]
  readonly emoji?: string
  readonly access?: About['access']
  readonly cli?: string
  readonly api?: string
  readonly web?: string
  readonly install?: About['install']
  readonly requires?: Readonly<Partial<Record<'auth' | 'env' | 'scopes', string | readonly string[]>>>
  readonly homepage?: string
  readonly repository?: string
  readonly status_page?: string
  readonly documentation?: string
  readonly intent: readonly IntentRule[]
  readonly recommend: readonly (Omit<Recommendation, 'registryUrl' | 'authFlow'> & {
    readonly registry_url?: string
    readonly auth_flow?: string
  })[]
}

/** What the owner of a server says of it. */
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

/** Other servers, for what one cannot do. */
export function recommendSettings(values: AboutValues['recommend']): Recommendation[] {
  return values.map(({ registry_url: registryUrl, auth_flow: authFlow, ...rest }) => {
    return { ...rest, ...given({ registryUrl, authFlow }) }
  })
}

/** A cost in its short form: a kind of cost, or a number and what is counted. */
export function costSettings(cost: string | Cost): Cost {
  if (typeof cost !== 'string') return cost
  const category = costCategories.find((each) => each === cost)
  if (category !== undefined) return { category }
  const [, units, label] = /^(\d+(?:\.\d+)?)\s+(.+)$/.exec(cost) ?? []
  if (units === undefined || label === undefined) return { category: 'metered', label: cost }
  return { category: 'metered', units: Number(units), label }
}

/** The members that have a value. */
export function given<Values extends object>(
  values: Values,
): { [Key in keyof Values]?: Exclude<Values[Key], undefined> } {
  // A mapped type cannot follow entries: each member is as it was, or gone.
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never
}
