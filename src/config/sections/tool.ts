/** A tool under `tools` of a server: schema and settings. */
import type { Cost } from '../../core/descriptor.ts'
import { rememberSchema } from '../../core/remember.ts'
import { scopeListSchema } from '../../core/principal.ts'
import type { ToolSettings } from '../../core/settings.ts'
import { durationSchema, rateSchema, timeoutSchema } from '../../core/time/units.ts'
import { costSettings, given, list } from './about.ts'

const expression = {
  type: 'string',
  minLength: 1,
  errorMessage: 'must be a call such as delete_issue(id=$.result.id)',
}

/**
 * A word that is a switch, or a question: not one word, which is a typing error or a boolean of YAML 1.1, nor a phrase such as
 * `never ask`. People would be asked it literally.
 */
const QUESTION =
  '^(?:on|off|true|false|never)$|^(?!\\s*(?:[Aa]lways|[Nn]ever|[Nn]o|[Nn]one|[Nn]ot|[Oo]ff|[Oo]n|[Yy]es)(?:\\s+[a-z]+){0,2}\\s*[.!]?\\s*$)[\\s\\S]*(?:[^\\w.!/\\s-]|\\S\\s+\\S)'

/** Not a word that other settings have as a switch. */
const ARGUMENT_NAME =
  '^(?!(?:on|off|true|false|yes|no|always|never|none|null|enabled?|disabled?|On|Off|ON|OFF|Yes|No|YES|NO)$)[\\s\\S]+$'

/** The JSON Schema of the settings of a tool. */
export const toolSchema = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping of settings',
  properties: {
    hide: {
      type: 'boolean',
      description: 'Hide the tool: it is not listed, and a call of it fails like that of an unknown tool.',
    },
    rename: {
      type: 'string',
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      errorMessage: 'must be 1 to 128 letters, digits, or characters of "_.-"',
      description:
        'The exposed name of the tool. All other settings refer to it by this name, except the settings next to this one.',
    },
    op: { enum: ['read', 'write', 'delete', 'admin', 'execute'], description: 'The effect of the tool.' },
    risk: { enum: ['safe', 'reversible', 'destructive'], description: 'The risk of the tool.' },
    idempotent: { type: 'boolean', description: 'Whether two equal calls have the same effect as one.' },
    scopes: { ...scopeListSchema, description: 'The scopes a caller needs, instead of the derived ones.' },
    rate: {
      ...rateSchema,
      description: 'The rate limit per caller. Each tool that matches a glob is counted separately.',
    },
    timeout: { ...timeoutSchema, description: 'How long a call may take without a response or progress.' },
    retry: {
      type: 'integer',
      minimum: 0,
      maximum: 5,
      errorMessage: 'must be a number from 0 to 5',
      description: 'How often a call that was not sent is retried, if the tool is read-only or idempotent.',
    },
    undo: {
      type: ['string', 'object'],
      minLength: 1,
      additionalProperties: false,
      properties: {
        call: { ...expression, description: 'The call that undoes the tool call.' },
        exact: {
          type: 'boolean',
          default: true,
          description: 'Whether undoing restores the exact previous state.',
        },
        description: { type: 'string', description: 'A description of the undo operation.' },
        snapshot: { ...expression, description: 'The read call that runs before the tool call.' },
        restore: {
          ...expression,
          description: 'The call that restores the snapshot, which is `$.snapshot`.',
        },
        absent: {
          ...expression,
          description:
            'The call that undoes the tool call if the snapshot found nothing; `none` if it cannot be undone.',
        },
      },
      errorMessage:
        'must be a call such as delete_issue(id=$.result.id), none, or a mapping with snapshot and restore',
      description:
        'How a call is undone: a call whose values are JSON or paths that begin with `$.args` or `$.result`; `none` if it cannot be undone.',
      examples: ['delete_issue(id=$.result.id)'],
    },
    pivot: {
      type: 'boolean',
      description: 'The tool cannot be undone: in a transaction, confirmation is required before it.',
    },
    verify: {
      ...expression,
      description:
        'How to find out whether a call with a lost response took effect: a read call, and a path that its result contains if it did.',
      examples: ['list_issues(title=$.args.title) -> $.result.items[0]'],
    },
    key_argument: {
      type: ['string', 'boolean'],
      pattern: `^(?:off|false)$|${ARGUMENT_NAME}`,
      not: { const: true },
      'x-words': ['off'],
      'x-names': 'argument',
      errorMessage: 'must be the name of an argument, or off',
      description:
        'The argument for the idempotency key. Default: one named idempotency_key, idempotencyKey, client_token or request_id.',
    },
    forward_key: {
      type: 'boolean',
      description: 'Send the idempotency key as the header `Idempotency-Key`, to a server over HTTP.',
    },
    auto_key: {
      ...durationSchema,
      description:
        'The time in which equal calls without an idempotency key count as one. Off by default, because two equal calls may be intended.',
    },
    confirm: {
      type: ['string', 'boolean'],
      pattern: QUESTION,
      'x-words': ['on', 'never'],
      'x-names': 'template',
      errorMessage: 'must be on, never, or a question of more than one word such as "Delete {owner}/{repo}?"',
      description: 'Whether confirmation is required, or the confirmation message.',
      examples: ['Permanently delete {owner}/{repo}?'],
    },
    type_to_confirm: {
      type: 'string',
      pattern: ARGUMENT_NAME,
      'x-names': 'argument',
      errorMessage: 'must be the name of an argument; leave the line out if nothing has to be typed',
      description: 'The argument whose value must be typed to confirm.',
    },
    approval: {
      enum: ['inline', 'out_of_band'],
      description: 'Whether the user of the client confirms, or other people on a page of the gateway.',
    },
    approvals: {
      type: 'integer',
      minimum: 1,
      maximum: 20,
      errorMessage: 'must be a number from 1 to 20',
      description: 'How many people must approve, out of band.',
    },
    approvers: {
      ...list,
      errorMessage: 'must be a list of names',
      description: 'Who may approve, out of band. Default: everyone who signs in, except the caller.',
    },
    remember: {
      ...rememberSchema,
      description:
        'Require confirmation once for several calls of the tool in one session. The message says so or, with `offer: on`, offers it as a choice. `off` requires confirmation for each call.',
    },
    alias: {
      type: 'boolean',
      description:
        'If the tool is deprecated and its server has removed it, redirect calls to its replacement until the end of support. By default, the error of such a call names the replacement.',
    },
  },
}

/** The settings of a tool as written in the file. */
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

/** The settings of a tool. */
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

/** The exposed names of renamed tools, by their names on the server. */
export function renamesOf(tools: Readonly<Record<string, ToolValues>>): Readonly<Record<string, string>> {
  const renamed = Object.entries(tools).map(([name, { rename }]) => [name, rename])
  return Object.fromEntries(renamed.filter(([, rename]) => rename !== undefined))
}

function provenanceSettings({ json_path: jsonPath, ...rest }: NonNullable<ToolValues['provenance']>) {
  return { ...rest, ...(jsonPath !== undefined && { jsonPath }) }
}
