/** A tool under `tools` of a server: schema and settings. */
import type { Cost } from '../../core/descriptor.ts'
import { rememberSchema } from '../../core/remember.ts'
import { scopeListSchema } from '../../core/principal.ts'
import type { ToolSettings } from '../../core/settings.ts'
import { durationSchema, rateSchema } from '../../core/time/units.ts'
import { costSettings, given, list } from './about.ts'

const expression = {
  type: 'string',
  minLength: 1,
  errorMessage: 'must be a call such as delete_issue(id=$.result.id)',
}

/** The JSON Schema of what is special about a tool. */
export const toolSchema = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping of settings',
  properties: {
    hide: {
      type: 'boolean',
      description:
        'Whether it is left out: it is not listed, and calling it is calling a tool that is not there.',
    },
    rename: {
      type: 'string',
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      errorMessage: 'must be 1 to 128 letters, digits, or characters of "_.-"',
      description:
        'What it is called here. All other settings name it like that; those beside this one are its own.',
    },
    op: { enum: ['read', 'write', 'delete', 'admin', 'execute'], description: 'What kind of action it is.' },
    risk: { enum: ['safe', 'reversible', 'destructive'], description: 'How much harm it can do.' },
    idempotent: { type: 'boolean', description: 'Whether doing it twice is the same as doing it once.' },
    scopes: { ...scopeListSchema, description: 'The scopes a caller needs, instead of those derived.' },
    rate: {
      ...rateSchema,
      description: 'How often each caller may call it; a glob counts each tool it fits by itself.',
    },
    timeout: { ...durationSchema, description: 'How long a call may be silent.' },
    retry: {
      type: 'integer',
      minimum: 0,
      maximum: 5,
      errorMessage: 'must be a number from 0 to 5',
      description:
        'How often a call that was not sent is tried again, where the tool only reads or is idempotent.',
    },
    undo: {
      type: ['string', 'object'],
      minLength: 1,
      additionalProperties: false,
      properties: {
        call: { ...expression, description: 'The call that undoes it.' },
        exact: {
          type: 'boolean',
          default: true,
          description: 'Whether everything is as before once it is undone.',
        },
        description: { type: 'string', description: 'What undoing it does, for people.' },
        snapshot: { ...expression, description: 'What is read before the call.' },
        restore: { ...expression, description: 'What puts back what was read: `$.snapshot` stands for it.' },
        absent: {
          ...expression,
          description: 'What undoes the call where there was nothing to read; `none` where nothing can.',
        },
      },
      errorMessage:
        'must be a call such as delete_issue(id=$.result.id), none, or a mapping with snapshot and restore',
      description:
        'How a call is undone: a call whose values are JSON or paths that begin with `$.args` or `$.result`; `none` where it cannot be.',
      examples: ['delete_issue(id=$.result.id)'],
    },
    pivot: {
      type: 'boolean',
      description: 'There is no way back after it: in a transaction a person is asked first.',
    },
    verify: {
      ...expression,
      description:
        'Finds out whether a call took effect whose answer was lost: a call that reads, and a path of its result that is there if it did.',
      examples: ['list_issues(title=$.args.title) -> $.result.items[0]'],
    },
    key_argument: {
      type: ['string', 'boolean'],
      minLength: 1,
      not: { enum: [true, 'on', 'true'] },
      'x-names': 'argument',
      errorMessage: 'must be the name of an argument, or off',
      description:
        'The argument that takes the idempotency key; by default one named idempotency_key, idempotencyKey, client_token or request_id.',
    },
    forward_key: {
      type: 'boolean',
      description: 'Send the idempotency key as the header `Idempotency-Key`, to a server over HTTP.',
    },
    auto_key: {
      ...durationSchema,
      description:
        'For how long equal calls without an idempotency key count as one. Two equal calls can be meant, so this is off unless set.',
    },
    confirm: {
      type: ['string', 'boolean'],
      minLength: 1,
      'x-names': 'template',
      errorMessage: 'must be on, never, or a question such as "Delete {owner}/{repo}?"',
      description: 'Whether a person is asked first, or what the person is asked.',
      examples: ['Permanently delete {owner}/{repo}?'],
    },
    type_to_confirm: {
      type: 'string',
      minLength: 1,
      'x-names': 'argument',
      errorMessage: 'must be the name of an argument',
      description: 'The argument whose value the person has to type.',
    },
    approval: {
      enum: ['inline', 'out_of_band'],
      description: 'Whether the person at the client is asked, or others are, on a page of the gateway.',
    },
    approvals: {
      type: 'integer',
      minimum: 1,
      maximum: 20,
      errorMessage: 'must be a number from 1 to 20',
      description: 'How many people have to approve, out of band.',
    },
    approvers: {
      ...list,
      errorMessage: 'must be a list of names',
      description: 'Who may approve, out of band; by default everyone who signs in but the caller.',
    },
    remember: {
      ...rememberSchema,
      description:
        'Ask once for several calls of the tool in one session; the question says so, or with `offer: on` may choose it. `off` asks about each call.',
    },
    alias: {
      type: 'boolean',
      description:
        'Where the tool is deprecated and its server dropped it, make calls of it with the tool to use instead until its time is over; by default the error of such a call names it.',
    },
  },
}

/** What the configuration says of a tool, as it is written. */
export type ToolValues = Pick<ToolSettings, Unchanged> & {
  readonly rename?: string
  readonly scopes?: string | readonly string[]
  readonly approvers?: string | readonly string[]
  readonly key_argument?: string | false
  readonly forward_key?: boolean
  readonly auto_key?: number
  readonly type_to_confirm?: string
  readonly cost?: string | Cost
  readonly max_input?: number
  readonly provenance?: { readonly source?: string; readonly version?: string; readonly json_path?: string }
} & Readonly<Partial<Record<'effects' | 'accepts' | 'returns', string | readonly string[]>>>
type Unchanged = Exclude<
  keyof ToolSettings,
  | 'scopes'
  | 'approvers'
  | 'effects'
  | 'accepts'
  | 'returns'
  | 'cost'
  | 'maxInput'
  | 'provenance'
  | 'keyArgument'
  | 'forwardKey'
  | 'autoKey'
  | 'typeToConfirm'
>

/** What the configuration says of a tool. */
export function toolSettings(values: ToolValues): ToolSettings {
  const {
    key_argument: keyArgument,
    forward_key: forwardKey,
    auto_key: autoKey,
    rename: _rename,
    ...others
  } = values
  const { type_to_confirm: typeToConfirm, max_input: maxInput, cost, provenance, ...more } = others
  const { scopes, approvers, effects, accepts, returns, ...rest } = more
  const lists = { scopes, approvers, effects, accepts, returns }
  const found = { keyArgument, forwardKey, autoKey, typeToConfirm, maxInput }
  return {
    ...rest,
    ...given(found),
    ...Object.fromEntries(Object.entries(given(lists)).map(([key, names]) => [key, [names].flat()])),
    ...(cost !== undefined && { cost: costSettings(cost) }),
    ...(provenance && { provenance: provenanceSettings(provenance) }),
  }
}

/** The new names of tools, by the names their server has for them. */
export function renamesOf(tools: Readonly<Record<string, ToolValues>>): Readonly<Record<string, string>> {
  const renamed = Object.entries(tools).map(([name, { rename }]) => [name, rename])
  return Object.fromEntries(renamed.filter(([, rename]) => rename !== undefined))
}

function provenanceSettings({ json_path: jsonPath, ...rest }: NonNullable<ToolValues['provenance']>) {
  return { ...rest, ...(jsonPath !== undefined && { jsonPath }) }
}
