/**
 * A tool under `tools` of a server: schema, settings, and checks of expressions and masking rules. Regular expressions of a
 * configuration are matched against text of servers, so only those are accepted whose matching time is bounded.
 */
import type { Cost } from '../../core/descriptor.ts'
import { rememberSchema } from '../../core/remember.ts'
import { scopeListSchema } from '../../core/principal.ts'
import type { ToolSettings } from '../../core/settings.ts'
import { durationSchema, rateSchema, timeoutSchema } from '../../core/time/units.ts'
import { costSettings, given, list } from './about.ts'
import { isObject } from '../../core/json/json.ts'
import { type Root, parseSteps } from '../../core/json/path.ts'
import { compilePattern, type Pattern } from '../../core/text/pattern.ts'
import { type Expression, parseExpression, parsePath, uses } from '../../core/undo/expression.ts'
import { atKey, atValue, type Finding } from '../problem.ts'

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
      description:
        'Hide the tool: it is in no list or document, and a call of it fails like that of an unknown tool.',
    },
    rename: {
      type: 'string',
      pattern: '^[A-Za-z0-9_.-]{1,128}$',
      errorMessage: 'must be 1 to 128 letters, digits, or characters of "_.-"',
      description:
        'The exposed name of the tool. Everything else (rules, scopes, `undo`, logs, documents, clients) uses this name; only the settings next to this one are under the old one. If the server lists another tool under the new name, that tool is left out (`upstream.name_taken` in the log).',
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
        'How a call is undone: a call whose values are JSON or paths that begin with `$.args` or `$.result`; `call` with `exact` and `description`; `snapshot`, `restore` and `absent`; or `none` if it cannot be undone.',
      examples: ['delete_issue(id=$.result.id)'],
    },
    pivot: {
      type: 'boolean',
      description: 'The tool cannot be undone: in a transaction, confirmation is required before it.',
    },
    verify: {
      ...expression,
      description:
        'How to find out whether a call with a lost response took effect: a read call, and a path that its result contains if it did, as in `list_issues(title=$.args.title) -> $.result.items[0]`.',
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

type Path = readonly string[]

/** Checks the expressions of the tools of one upstream: their syntax, and the roots of their paths. */
export function expressionProblems(tools: unknown, path: Path): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) => {
    if (!isObject(tool)) return []
    const at = [...path, glob]
    return [
      ...undoProblems(tool.undo, [...at, 'undo']),
      ...verifyProblems(tool.verify, [...at, 'verify']),
      ...provenanceProblems(tool.provenance, [...at, 'provenance']),
    ]
  })
}

function undoProblems(undo: unknown, path: Path): Finding[] {
  if (typeof undo === 'string') {
    return undo === 'none' ? [] : expressionFindings(undo, path, { roots: ['args', 'result'] })
  }
  if (!isObject(undo)) return []
  const { call, restore, snapshot, absent } = undo
  if ((call === undefined) === (restore === undefined)) {
    return atKey(path, call === undefined ? 'needs `call`, or `snapshot` and `restore`' : TWICE)
  }
  const alone = ['snapshot', 'absent'].find((key) => call !== undefined && undo[key] !== undefined)
  if (alone !== undefined) return atKey([...path, alone], 'requires `restore`: remove it')
  if (call === undefined && snapshot === undefined)
    return atKey(path, 'needs `snapshot`, which reads what `restore` writes back')
  const given: readonly (readonly [string, unknown, readonly Root[]])[] = [
    ['call', call, ['args', 'result']],
    ['snapshot', snapshot, ['args']],
    ['restore', restore, ['args', 'result', 'snapshot']],
    ['absent', absent === 'none' ? undefined : absent, ['args', 'result']],
  ]
  return given.flatMap(([key, text, roots]) =>
    typeof text === 'string' ? expressionFindings(text, [...path, key], { roots }) : [],
  )
}

const TWICE = 'has `call` and `restore`: keep one of the two'

function verifyProblems(verify: unknown, path: Path): Finding[] {
  if (typeof verify !== 'string') return []
  return expressionFindings(verify, path, { roots: ['args'], isFound: true })
}

/** A source or version that begins like a path is checked as a path. */
function provenanceProblems(provenance: unknown, path: Path): Finding[] {
  if (!isObject(provenance)) return []
  return ['source', 'version'].flatMap((key) => {
    const text = provenance[key]
    if (typeof text !== 'string' || !text.startsWith('$')) return []
    return atValue([...path, key], pathProblem(text))
  })
}

function pathProblem(text: string): string | undefined {
  try {
    const { root } = parsePath(text)
    return root === 'snapshot' ? 'must begin with $.args or $.result: there is no snapshot' : undefined
  } catch (error) {
    if (error instanceof TypeError) return `is not a valid path: ${error.message}`
    throw error
  }
}

interface Demands {
  /** The allowed roots of paths. */
  readonly roots: readonly Root[]
  /** Whether it selects a part of the result. */
  readonly isFound?: true
}

function expressionFindings(text: string, path: Path, demands: Demands): Finding[] {
  // The schema reports empty values.
  if (text === '') return []
  try {
    return atValue(path, misuse(parseExpression(text), demands))
  } catch (error) {
    if (error instanceof TypeError) return atValue(path, `is not a valid call: ${error.message}`)
    throw error
  }
}

function misuse(expression: Expression, { roots, isFound }: Demands): string | undefined {
  const other = [...uses(expression)].find((root) => !roots.includes(root))
  if (other !== undefined)
    return `$.${other} is not available here: paths begin with ${roots.map((root) => `$.${root}`).join(' or ')}`
  const { find } = expression
  if (find && !isFound) return '`->` is not allowed here: remove it and the path after it'
  if (!isFound) return undefined
  if (find?.steps.includes(null)) return 'must select one value, so [*] is not allowed after `->`'
  if (find?.root === 'result') return undefined
  return 'must select what the result contains if the call took effect, such as -> $.result.items[0]'
}

/** Checks the rules of `features.mask`: each has one target, and its pattern has bounded matching time. */
export function maskProblems(features: unknown, path: Path): Finding[] {
  const mask = maskIn(features)
  const rules: readonly unknown[] = isObject(mask) && Array.isArray(mask.rules) ? mask.rules : []
  const replacements = rules.flatMap((rule) => {
    if (!isObject(rule)) return []
    return typeof rule.replace === 'string' ? [rule.replace] : ['***']
  })
  return rules.flatMap((rule, index) => {
    const at = [...path, 'mask', 'rules', String(index)]
    return isObject(rule) ? ruleProblems(rule, at, replacements) : []
  })
}

/** Checks the rules of `limits.arguments`: each adds up or counts one path, and has a limit that it can have. */
export function argumentLimitProblems(limits: unknown, path: Path): Finding[] {
  const rules: readonly unknown[] =
    isObject(limits) && Array.isArray(limits.arguments) ? limits.arguments : []
  return rules.flatMap((rule, index) => {
    if (!isObject(rule)) return []
    const at = [...path, 'arguments', String(index)]
    const { sum, count, most, in_all: inAll } = rule
    if ((sum === undefined) === (count === undefined))
      return atValue(at, 'needs `sum` or `count`, and not both')
    if (most === undefined && inAll === undefined) return atValue(at, 'needs `most` or `in_all`')
    const isForever = inAll !== undefined && !(typeof inAll === 'string' && inAll.includes('/'))
    if (isForever) return atValue([...at, 'in_all'], 'needs a period, such as 5000/day')
    const [key, text] = sum === undefined ? ['count', count] : ['sum', sum]
    if (typeof text !== 'string' || parseSteps(text)) return []
    return atValue(
      [...at, key],
      'must be a path such as $.amount or $.items[*].price, with .name, [0] and [*] steps',
    )
  })
}

/** Reports masking that is on without rules: it would have no effect. */
export function idleMasks(features: unknown, upstreams: readonly (readonly [string, unknown])[]): Finding[] {
  const common = { path: ['features'], mask: maskIn(features) }
  const own = upstreams.map(([name, upstream]) => {
    return { path: ['upstreams', name, 'features'], mask: maskIn(isObject(upstream) && upstream.features) }
  })
  // A server without rules uses the common ones; the common rules may be empty if the servers have rules.
  if (hasRules(common)) return []
  const idle = own.some(hasRules) ? own : [common, ...own]
  return idle
    .filter((each) => isOn(each) && !hasRules(each))
    .flatMap(({ path }) => atKey([...path, 'mask'], 'masks nothing: it needs `rules`'))
}

interface Masked {
  readonly mask: unknown
}

function isOn({ mask }: Masked): boolean {
  return isObject(mask) || mask === true || mask === 'on'
}

function hasRules({ mask }: Masked): boolean {
  return isObject(mask) && Array.isArray(mask.rules) && mask.rules.length > 0
}

function maskIn(features: unknown): unknown {
  return isObject(features) ? features.mask : undefined
}

function ruleProblems(
  { path, pattern }: Readonly<Record<string, unknown>>,
  at: Path,
  replacements: readonly string[],
): Finding[] {
  if ((path === undefined) === (pattern === undefined))
    return atValue(at, 'needs `path` or `pattern`, and not both')
  if (typeof path === 'string' && path !== '' && !parseSteps(path))
    return atValue([...at, 'path'], 'must be a path such as $.items[*].email, with .name, [0] and [*] steps')
  if (typeof pattern !== 'string' || pattern === '') return []
  return atValue([...at, 'pattern'], patternProblem(pattern, replacements))
}

function patternProblem(source: string, replacements: readonly string[]): string | undefined {
  const mistake = patternMistake(source)
  const pattern = mistake === undefined ? compilePattern(source) : undefined
  if (!pattern) return mistake
  if (probes.some((probe) => matchesNothing(pattern, probe))) return 'matches the empty string'
  if (replacements.some((each) => pattern.test(each, false))) {
    return 'matches the replacement of masked text: choose another `replace`'
  }
  return undefined
}

/** Texts in which a pattern with empty matches would match. */
const probes = ['', 'a', '0', ' ', 'a b', '\n']

/** Whether a pattern has an empty match: replacing it would insert text. */
function matchesNothing(pattern: Pattern, text: string): boolean {
  return pattern.replaceAll(text, '!').text.length > text.length
}

/** What is wrong with a regular expression, for the message of its setting; undefined if nothing is. */
export function patternMistake(source: string): string | undefined {
  try {
    return compilePattern(source) ? undefined : unbounded(source)
  } catch (error) {
    const cause = causeOf(error)
    return `must be a regular expression: ${cause}, at character ${placeOf(source, cause)}`
  }
}

/** `Invalid regular expression: /(/: Unterminated group` as `unterminated group`. */
function causeOf(error: unknown): string {
  const text = error instanceof Error ? (error.message.split(/\/\w*: /).at(-1) ?? '') : ''
  return text.charAt(0).toLowerCase() + text.slice(1)
}

/** Where a mistake is, counted from 1: at what is not closed, else at the end of the shortest beginning that has it. */
function placeOf(source: string, cause: string): number {
  const opened = cause.startsWith('unterminated') ? unclosed(source) : undefined
  if (opened !== undefined) return opened + 1
  for (let length = 1; length < source.length; length++) {
    try {
      RegExp(source.slice(0, length))
    } catch (error) {
      if (causeOf(error) === cause) return length
    }
  }
  return source.length
}

/** The index of the first bracket that is not closed. */
function unclosed(source: string): number | undefined {
  const groups: number[] = []
  let setAt: number | undefined
  for (let at = 0; at < source.length; at++) {
    const character = source[at]
    if (character === '\\') at++
    else if (setAt !== undefined) setAt = character === ']' ? undefined : setAt
    else if (character === '[') setAt = at
    else if (character === '(') groups.push(at)
    else if (character === ')') groups.pop()
  }
  return setAt ?? groups[0]
}

const MAX_LENGTH = 1000

function unbounded(source: string): string {
  if (source.length > MAX_LENGTH)
    return `cannot be matched in bounded time: it has ${source.length} characters, of at most ${MAX_LENGTH}`
  const [found = '', at] = unsupported(source)
  const what =
    found === '' ? 'it has syntax that RE2 does not know' : `it has ${found}, at character ${at + 1}`
  return `cannot be matched in bounded time: ${what}`
}

/** The first part that only engines with backtracking can match, and its index. */
function unsupported(source: string): readonly [string | undefined, number] {
  const kinds = [
    [/^\(\?[=!]/, 'a lookahead'],
    [/^\(\?<[=!]/, 'a lookbehind'],
    [/^\\(?:[1-9]|k<)/, 'a backreference'],
  ] as const
  for (let at = 0; at < source.length; at++) {
    const kind = kinds.find(([shape]) => shape.test(source.slice(at, at + 4)))?.[1]
    if (kind !== undefined) return [kind, at]
    if (source[at] === '\\') at++
  }
  return [undefined, 0]
}
