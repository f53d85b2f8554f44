/**
 * What the configuration says of single arguments of a tool. Such a rule reads the value as the schema declares it. A server
 * may read a value of another type differently, such as "7.0" for 7, so the rule cannot judge a call with one.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { secretNames } from '../../core/masked-arguments.ts'
import type { SchemaProblem } from '../../core/schema/schema.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { yamlKey } from '../../core/text/escape.ts'
import { fits, fitting } from '../../core/text/pattern.ts'
import { type Expression, parseExpression, pathsOf } from '../../core/undo/expression.ts'
import { callsOf } from '../../core/undo/judge-undo.ts'
import { undoRuleOf } from '../../core/undo/rules.ts'

/** A rule that depends on an argument. */
export interface ArgumentRule {
  /** The argument; undefined for all of them. */
  readonly argument: string | undefined
  /** Where the rule is in the configuration, or what it is. */
  readonly rule: string
  /** It only depends on whether the argument is an object or a list, as the schema says. */
  readonly isOfType?: true
}

/** The rules about arguments of a tool of a server with these settings. */
export function argumentRulesOf(
  { name, definition }: Descriptor,
  settings: UpstreamSettings | undefined,
): readonly ArgumentRule[] {
  if (!settings) return maskingRules(definition)
  const server = `upstreams.${yamlKey(settings.name)}`
  return [
    ...permissionRules(settings, name).map(({ path, argument }) => ({ argument, rule: `${server}.${path}` })),
    ...expressionsOf(settings, name).flatMap(({ path, expression }) =>
      argumentsOf(expression).map((argument) => ({ argument, rule: `${server}.tools.${path}` })),
    ),
    ...maskingRules(definition),
  ]
}

interface PathOfRule {
  readonly path: string
  readonly argument: string
}

function permissionRules({ allow, deny }: UpstreamSettings, name: string): readonly PathOfRule[] {
  const denying = Object.keys(deny).filter((glob) => fits(glob, name))
  const [allowing] = fitting(Object.keys(allow), name)
  const found = [
    ...denying.map((glob) => ['deny', glob, deny[glob]] as const),
    ...(allowing === undefined ? [] : [['allow', allowing, allow[allowing]] as const]),
  ]
  return found.flatMap(([key, glob, rule]) =>
    Object.keys(isObject(rule) ? rule : {}).map((argument) => ({
      path: `${key}.${yamlKey(glob)}.${yamlKey(argument)}`,
      argument,
    })),
  )
}

/** The calls that verify or undo a call of a tool, as the configuration has them. */
function expressionsOf(
  { tools }: UpstreamSettings,
  name: string,
): readonly { readonly path: string; readonly expression: Expression }[] {
  const verify = settingOf(tools, name, 'verify')
  const undo = undoRuleOf(tools, name)
  return [
    ...(verify
      ? [{ path: `${yamlKey(verify.glob)}.verify`, expression: parseExpression(verify.value) }]
      : []),
    ...(undo ? callsOf(undo.rule) : []).map(({ expression }) => ({
      path: `${yamlKey(undo?.glob ?? name)}.undo`,
      expression,
    })),
  ]
}

function argumentsOf(expression: Expression): readonly (string | undefined)[] {
  return pathsOf(expression).flatMap(({ root, steps: [step] }) => {
    if (root !== 'args') return []
    return [typeof step === 'string' ? step : undefined]
  })
}

/** Secrets inside of an argument are masked by their names, which a text does not have. */
function maskingRules({ inputSchema }: Descriptor['definition']): readonly ArgumentRule[] {
  if (!isObject(inputSchema) || secretNames(inputSchema).length === 0) return []
  const { properties, $defs, definitions } = inputSchema
  return Object.entries(isObject(properties) ? properties : {}).flatMap(([argument, schema]) => {
    const isReferring = JSON.stringify(schema).includes('"$ref"')
    const own = { properties: { [argument]: schema }, ...(isReferring && { $defs, definitions }) }
    const isOuter = secretNames(own).some((name) => name !== argument)
    return isOuter ? [{ argument, rule: 'the masking of secret arguments', isOfType: true } as const] : []
  })
}

/** The rule that depends on an argument which does not fit, and that argument. */
interface Undecided {
  readonly rule: string
  readonly argument: string
}

/** The first rule that cannot judge a call with these problems; undefined if all can. */
export function undecidedRule(
  rules: readonly ArgumentRule[],
  problems: readonly SchemaProblem[],
): Undecided | undefined {
  for (const { argument, rule, isOfType } of rules) {
    for (const problem of problems) {
      const given = argumentOf(problem)
      if (given === undefined || (isOfType && (problem.path.length !== 1 || problem.keyword !== 'type')))
        continue
      // Some servers ignore the case of argument names.
      if (argument === undefined || fold(argument) === fold(given)) return { rule, argument: given }
    }
  }
  return undefined
}

/** The argument that a problem is about; undefined if it is about all of them. */
function argumentOf({ path: [argument], params }: SchemaProblem): string | undefined {
  const { missingProperty, additionalProperty, unevaluatedProperty, propertyName } = params
  const names: readonly unknown[] = [
    argument,
    missingProperty,
    additionalProperty,
    unevaluatedProperty,
    propertyName,
  ]
  return names.find((each): each is string => typeof each === 'string')
}

function fold(name: string): string {
  return name.normalize('NFKC').toLowerCase()
}
