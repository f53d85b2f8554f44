import type { Deps, Reserved } from '../feature.ts'
import { FLAG, TOKEN } from './around.ts'
import { isAsked, ruleOf } from './rules.ts'
import type { Settings } from './settings.ts'

/** What models may say of confirmation among the arguments of tools: nothing, unless the settings trust them. */
export function reservedOf(settings: Settings, upstream: string, deps: Deps): readonly Reserved[] {
  const token: Reserved = {
    argument: TOKEN_ARGUMENT,
    value: TOKEN,
    schema: {
      type: 'string',
      description: 'Optional. The token an answer of this tool told you, once the user agreed to the call.',
    },
    isFor: (entry) => {
      const server = deps.server(upstream)
      const rule = server && ruleOf(entry.name, server, settings)
      const isOf = rule !== undefined && !rule.isOutOfBand && settings.fallback !== 'deny'
      return isOf && isAsked(rule, entry)
    },
  }
  return [
    ...(settings.model_may_confirm ? [token] : []),
    // No model is told of it.
    ...(settings.accept_bare_flag ? [{ argument: FLAG, value: FLAG }] : []),
  ]
}

/** The argument a model confirms a call by. */
export const TOKEN_ARGUMENT = `_${TOKEN}`
