import { isObject } from '../core/json.ts'
import { told } from './asking.ts'
import type { Assertion } from './assertion.ts'
import type { Json, Subject } from './subject.ts'
import { each, fail, notApplicable, pass } from './verdict.ts'

/** What the prompts are like. */
export const prompts: readonly Assertion[] = [
  {
    id: 'C152',
    level: 'must',
    text: 'A server with prompts declares them, lists them and hands them out.',
    fix: 'Declare the capability prompts, and answer prompts/list and prompts/get.',
    check: ({ capabilities, prompts: all, lists, prompt }) => {
      const { error } = lists['prompts/list']
      if (!isObject(capabilities.prompts)) {
        return all.length > 0
          ? fail(`${all.length} prompts, not declared`)
          : notApplicable('it has no prompts')
      }
      if (error) return fail(`prompts/list: ${told(error)}`)
      if (prompt?.error) return fail(`prompts/get ${prompt.name}: ${told(prompt.error)}`)
      return pass(
        `${all.length} listed`,
        prompt ? `${prompt.name} fetched` : 'none fetched: all need arguments',
      )
    },
  },
  {
    id: 'C158',
    level: 'must',
    text: 'The arguments of a prompt are a list of names, descriptions and whether each is required.',
    fix: 'List each argument as {"name", "description", "required"}.',
    check: (subject) => eachPrompt(subject, shapeProblems),
  },
  {
    id: 'C159',
    level: 'must',
    text: 'The arguments of a prompt are no JSON Schema.',
    fix: 'Use the list of the protocol in place of a schema.',
    check: (subject) =>
      eachPrompt(subject, ({ name, arguments: given }) => {
        const isSchema =
          isObject(given) && ['type', 'properties', '$schema'].some((key) => Object.hasOwn(given, key))
        return isSchema ? [String(name)] : []
      }),
  },
  {
    id: 'C160',
    level: 'should',
    text: 'What an argument of a prompt may be is described.',
    fix: 'Describe the argument.',
    check: (subject) =>
      eachPrompt(subject, ({ name, arguments: given }) =>
        (Array.isArray(given) ? given : [])
          .filter(
            (each) => !isObject(each) || typeof each.description !== 'string' || each.description === '',
          )
          .map((each) => `${String(name)}: ${nameOf(each)}`),
      ),
  },
]

function eachPrompt({ prompts: all }: Subject, problemsOf: (prompt: Json) => readonly string[]) {
  const taking = all.filter(({ arguments: given }) => given !== undefined)
  return each(taking, all.length === 0 ? 'it has no prompts' : 'no prompt takes arguments', problemsOf)
}

function shapeProblems({ name, arguments: given }: Json): string[] {
  if (!Array.isArray(given)) return [`${String(name)}: arguments are no list`]
  return given.flatMap((each) => {
    if (!isObject(each) || typeof each.name !== 'string')
      return [`${String(name)}: an argument without a name`]
    const isOdd = each.required !== undefined && typeof each.required !== 'boolean'
    return isOdd ? [`${String(name)}: required of ${each.name} is no boolean`] : []
  })
}

function nameOf(argument: unknown): string {
  return isObject(argument) && typeof argument.name === 'string' ? argument.name : 'an argument'
}
