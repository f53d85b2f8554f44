/** Events that the configuration declares, of one server or of none: schema, checks and settings. */
import type { Fields } from '../../core/payload.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { parseSteps } from '../../core/json/path.ts'
import { scopeNameSchema } from '../../core/principal.ts'
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type { DeclaredEvent, DeclaredEvents } from '../../core/settings.ts'
import { isWebhookSecret } from '../../core/standard-webhooks.ts'
import { durationSchema } from '../../core/time/units.ts'
import { parseExpression, parsePath, serverTool, uses } from '../../core/undo/expression.ts'
import { atKey, atValue, type Finding } from '../problem.ts'
import { list } from './about.ts'
import { isPersonal } from './upstream-oauth.ts'

/** The names of events that the gateway has itself, and those of entries in its logs that are none. */
const ownNames = [
  'confirmation_pending',
  'contract_changed',
  'listening_began',
  'logging_began',
  'prompts_changed',
  'quota_low',
  'relay_ended',
  'relay_gap',
  'resource_updated',
  'resources_changed',
  'tools_changed',
  'transaction_timed_out',
  'upstream_down',
  'upstream_up',
  'watching_began',
]

const text = { type: 'string', minLength: 1, errorMessage: 'must be text: put it in quotes' } as const
const values = {
  type: ['string', 'array'],
  minLength: 1,
  minItems: 1,
  items: text,
  errorMessage: 'must be a text or a list of texts; * stands for any text',
} as const

/** The JSON Schema of declared events, by name. */
export const eventsSchema = {
  type: 'object',
  default: {},
  errorMessage: 'must be a mapping of names of events to settings',
  propertyNames: {
    pattern: `^(?!(?:${ownNames.join('|')})$)(?!.*\\.succeeded$)[A-Za-z][A-Za-z0-9_.-]{0,63}$`,
    errorMessage:
      'must be letters, digits, dots, dashes and underscores, begin with a letter, and not be that of an event that the gateway has itself',
  },
  additionalProperties: {
    type: 'object',
    additionalProperties: false,
    errorMessage: 'must be a mapping with `watch:` or `hook:`',
    properties: {
      watch: {
        ...text,
        errorMessage: 'must be a call such as list_issues(state="open")',
        description:
          'The call that is made again and again to find what changed. Its tool must be read-only; its values are JSON. Among `events` at the top level, the name of the tool begins with that of its server, as in `github.list_issues()`.',
        examples: ['list_issues(state="open")'],
      },
      every: {
        ...durationSchema,
        'x-least': 1000,
        'x-most': 86_400_000,
        default: '60s',
        description: 'How often the call is made: 1s to 24h.',
      },
      items: {
        ...text,
        default: '$.result',
        description:
          'Where the items are in the result: a list, or a text that is JSON or has an item on each line.',
        examples: ['$.result.issues'],
      },
      id: {
        ...text,
        description:
          'What identifies an item, as a path in it; `$` is the item itself. Required for `watch`.',
        examples: ['$.number'],
      },
      changed: {
        ...text,
        description:
          'What is different once an item has changed, as a path in it. By default the whole item is compared.',
        examples: ['$.updated_at'],
      },
      removed: {
        type: 'boolean',
        default: false,
        description:
          'Whether an item that is not in the result any more is an event too. Only for calls that return all items.',
      },
      hook: {
        type: 'object',
        required: ['secret', 'form'],
        additionalProperties: false,
        errorMessage: 'must be a mapping such as { secret: "${SECRET}", form: github }',
        description:
          'Another service sends these events, to `/hooks/<server>/<name>`, or to `/hooks/<name>` if they are declared at the top level.',
        properties: {
          secret: {
            type: ['string', 'array'],
            minLength: 1,
            minItems: 1,
            items: { ...text, 'x-secret': true },
            'x-secret': true,
            errorMessage: 'must be the secret that the service signs with, and not be empty',
            description:
              'The secret that the service signs with; several while it is replaced. See [Webhooks of other services](events-reference.md#webhooks-of-other-services).',
            examples: ['${GITHUB_HOOK_SECRET}'],
          },
          form: {
            enum: ['github', 'stripe', 'standard'],
            description: 'How the service signs: as GitHub, as Stripe, or by Standard Webhooks.',
          },
        },
      },
      when: {
        type: 'object',
        propertyNames: {
          pattern: "^(\\$.*|[A-Za-z0-9!#%&'*+.^_`|~-]+)$",
          errorMessage: 'must be a path in the body, such as $.action, or the name of a header',
        },
        additionalProperties: values,
        errorMessage: 'must be a mapping such as { x-github-event: issues, $.action: opened }',
        description:
          'Which webhooks are events: each path in the body, or header, must have one of the values. All by default; the others are accepted and dropped.',
        examples: [{ 'x-github-event': 'issues', '$.action': ['opened', 'reopened'] }],
      },
      description: { ...text, maxLength: 2000, description: 'What the event is, for clients.' },
      fields: {
        ...list,
        description:
          'The fields of an item or of a body that clients receive, and can narrow events by; a dot leads into a field. All by default.',
        examples: [['number', 'title', 'user.login']],
      },
      scope: { ...scopeNameSchema, description: 'The scope that receivers must have, besides access.' },
    },
  },
} as const

type Path = readonly string[]

/** What a check knows about the rest of the configuration. */
interface Surroundings {
  /** The names of the servers, for events that belong to none. */
  readonly servers?: readonly string[]
  /** Whether `features.events` is on. */
  readonly isOn: boolean
}

/** Checks the events of one server, or of none. */
export function eventProblems(events: unknown, path: Path, around: Surroundings): Finding[] {
  if (!isObject(events) || Object.keys(events).length === 0) return []
  const message =
    around.servers === undefined
      ? 'have no effect: events are off for this server; write `features.events: on` under it'
      : 'have no effect: turn on `features.events`'
  const found = Object.entries(events).flatMap(([name, event]) =>
    isObject(event) ? ofEvent(event, [...path, name], around) : [],
  )
  return [...atKey(path, !around.isOn && message), ...found]
}

/** Whether events are on for what belongs to no single server. */
export function areEventsOn(features: unknown): boolean {
  return isOn(writtenIn(features))
}

/** Whether events are on for a server, as `events` of the features leaves them to some servers. */
export function areServerEventsOn(upstream: Fields, common: unknown): boolean {
  const own = writtenIn(upstream.features)
  if (own !== undefined) return isOn(own)
  const ofAll = writtenIn(common)
  if (upstream.gateway_key !== undefined || (ofAll === undefined && isPersonal(upstream))) return false
  return isOn(ofAll)
}

function writtenIn(features: unknown): unknown {
  if (features === 'none') return 'off'
  return isObject(features) ? features.events : undefined
}

function isOn(written: unknown): boolean {
  return written !== 'off' && written !== false
}

function ofEvent(event: Fields, path: Path, around: Surroundings): Finding[] {
  const { watch, hook } = event
  if (watch !== undefined && hook !== undefined)
    return atKey([...path, 'hook'], '`watch` is also set: keep one of the two')
  if (watch === undefined && hook === undefined) return atKey(path, 'needs `watch` or `hook`')
  const isHook = watch === undefined
  const others = isHook ? ['every', 'items', 'id', 'changed', 'removed'] : ['when']
  const misplaced = others.flatMap((key) =>
    atKey([...path, key], event[key] !== undefined && `requires \`${isHook ? 'watch' : 'hook'}\`: remove it`),
  )
  return [...misplaced, ...(isHook ? ofHook(event, path) : ofWatch(event, path, around))]
}

function ofWatch({ watch, items, id, changed }: Fields, path: Path, around: Surroundings): Finding[] {
  return [
    ...atKey(path, id === undefined && 'needs `id`, the path of what identifies an item, such as $.id'),
    ...atValue([...path, 'watch'], callProblem(watch, around)),
    ...atValue([...path, 'items'], itemsProblem(items)),
    ...atValue([...path, 'id'], stepsProblem(id)),
    ...atValue([...path, 'changed'], stepsProblem(changed)),
  ]
}

function callProblem(watch: unknown, { servers }: Surroundings): string | undefined {
  if (typeof watch !== 'string' || watch === '') return undefined
  try {
    const expression = parseExpression(watch)
    if (expression.find) return '`->` is not allowed here: write the path under `items`'
    if (uses(expression).size > 0) return 'values must be JSON: there is nothing that a path could refer to'
    if (!servers) return undefined
    const { server, tool } = serverTool(expression.tool)
    if (server !== undefined && servers.includes(server)) return undefined
    return `must begin with the name of a server, as in ${servers[0] ?? 'server'}.${tool}()`
  } catch (error) {
    if (error instanceof TypeError) return `is not a valid call: ${error.message}`
    throw error
  }
}

function itemsProblem(items: unknown): string | undefined {
  if (typeof items !== 'string' || items === '') return undefined
  try {
    return parsePath(items).root === 'result' ? undefined : 'must begin with $.result'
  } catch (error) {
    if (error instanceof TypeError) return `is not a valid path: ${error.message}`
    throw error
  }
}

function stepsProblem(path: unknown): string | undefined {
  if (typeof path !== 'string' || path === '') return undefined
  const steps = parseSteps(path)
  if (!steps) return 'must be a path in an item, such as $.id or $.user.login'
  return steps.includes(null) ? 'must lead to one value, so [*] is not allowed' : undefined
}

function ofHook({ hook, when }: Fields, path: Path): Finding[] {
  const paths = Object.keys(asObject(when)).flatMap((key) => {
    const isWrong = key.startsWith('$') && stepsProblem(key) !== undefined
    return atKey([...path, 'when', key], isWrong && 'must be a path such as $.action')
  })
  if (!isObject(hook) || hook.form !== 'standard') return paths
  const secrets: readonly unknown[] = [hook.secret].flat()
  const isSound = secrets.every(
    (secret) => typeof secret !== 'string' || secret === '' || isWebhookSecret(secret),
  )
  const message = 'must be whsec_ and 24 to 64 bytes in base64, as Standard Webhooks defines secrets'
  return [...paths, ...atValue([...path, 'hook', 'secret'], !isSound && message)]
}

/** Declared events in a file, with defaults. */
export type EventValues = Readonly<Record<string, EventValue>>
type EventValue = FromSchema<(typeof eventsSchema)['additionalProperties']>

/** The settings of all declared events. */
export function declaredEvents(
  common: EventValues,
  upstreams: Readonly<Record<string, { readonly events: EventValues }>>,
): DeclaredEvents {
  const all = new Map<string | undefined, DeclaredByName>([[undefined, declared(common)]])
  for (const [name, { events }] of Object.entries(upstreams)) all.set(name, declared(events))
  return all
}

type DeclaredByName = ReadonlyMap<string, DeclaredEvent>

function declared(values: EventValues): DeclaredByName {
  const found = Object.entries(values).map(([name, event]) => [name, declaredEvent(event)] as const)
  return new Map(found.filter((entry): entry is [string, DeclaredEvent] => entry[1] !== undefined))
}

function declaredEvent({
  description,
  fields,
  scope,
  watch,
  id,
  hook,
  when = {},
  ...event
}: EventValue): DeclaredEvent | undefined {
  const both = {
    ...(description !== undefined && { description }),
    ...(fields !== undefined && { fields: [fields].flat() }),
    ...(scope !== undefined && { scope }),
  }
  if (hook) {
    const { form, secret } = hook
    const conditions = Object.entries(when).map(([key, value]) => [key, [value].flat()] as const)
    const secrets = [secret].flat()
    return { ...both, kind: 'hook', form, secrets, when: Object.fromEntries(conditions) }
  }
  return watch === undefined || id === undefined ? undefined : { ...both, ...event, kind: 'watch', watch, id }
}
