/** The example calls of a tool: where they come from, and whether the server does what they show. */
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import type { Fields } from '../../core/payload.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { excerpt } from '../../core/text/redact.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { steady } from '../steady.ts'
import { failureText, shown } from './leaks.ts'
import { type Answer, absenceOf, type CheckContext, isAsking } from './session.ts'

/** An example call; its output may show a part of the result. */
export interface Example {
  readonly input: Fields
  readonly output?: unknown
}

/** How many examples of a tool are used. */
const MAX_EXAMPLES = 10

/**
 * The examples of a tool: those of the configuration, then those that its server lists in the dashdash format. A tool that
 * runs what its caller writes has only the former: what it runs is for the operator to say.
 */
export function examplesOf(
  { name, definition, classification: { op } }: Descriptor,
  { tools }: UpstreamSettings,
): readonly Example[] {
  const { dashdash, _meta: meta } = definition
  const noted = isObject(meta) ? meta[`${NS}/dashdash`] : undefined
  const listed = [dashdash, noted].flatMap((each): readonly unknown[] =>
    op !== 'execute' && isObject(each) && Array.isArray(each.examples) ? each.examples : [],
  )
  const all: readonly unknown[] = [...(settingOf(tools, name, 'examples')?.value ?? []), ...listed]
  const found = all.flatMap((each): Example[] => {
    if (!isObject(each) || !isObject(each.input)) return []
    const { input, output } = each
    return [{ input, ...(output !== undefined && { output }) }]
  })
  const unique = found.filter((each, at) => found.findIndex((other) => isSame(other, each)) === at)
  return unique.slice(0, MAX_EXAMPLES)
}

/**
 * Judges the examples of a tool. `answerTo` gives the answer to a call with this input, or why there was no call.
 * @throws ServerLost
 */
export async function judgeExamples(
  { name }: Descriptor,
  examples: readonly Example[],
  { results, redactor }: Omit<CheckContext, 'session'>,
  answerTo: (input: Fields) => Promise<Answer | string> | Answer | string,
): Promise<void> {
  const subject = `tool/${name}`
  for (const [index, { input, output }] of examples.entries()) {
    const id = `${subject}/example-${index + 1}`
    const answer = await answerTo(input)
    if (typeof answer === 'string' || isAsking(answer)) {
      const message = typeof answer === 'string' ? answer : 'the server asks the client for something'
      results.add('results', subject, id, { status: 'skipped', message })
      continue
    }
    const problem = problemOf(answer, output)
    results.add('results', subject, id, {
      status: problem === undefined ? 'passed' : 'failed',
      message: problem === undefined ? undefined : shown(problem, redactor),
      ms: answer.ms,
    })
  }
}

function problemOf(answer: Answer, output: unknown): string | undefined {
  if (answer.kind !== 'result') return `the call has no result: ${failureText(answer) ?? absenceOf(answer)}`
  const failure = failureText(answer)
  if (failure !== undefined) return `the call failed: ${failure}`
  // Times and ids of the day on which the example was written are those of no other.
  const part = steady(output)
  if (output === undefined || valuesOf(answer.result).some((value) => includes(steady(value), part)))
    return undefined
  return `the result does not contain ${excerpt(JSON.stringify(output), 80)}`
}

/** What an output may be compared with: the structured content, each text, as text and as JSON, and the whole result. */
function valuesOf(result: Fields): readonly unknown[] {
  const blocks: readonly unknown[] = Array.isArray(result.content) ? result.content : []
  const texts = blocks.flatMap((block) =>
    isObject(block) && typeof block.text === 'string' ? [block.text] : [],
  )
  return [result.structuredContent, result, ...texts, ...texts.map((text) => readJson(text))]
}

/** Below this depth, values are compared as a whole. */
const MAX_DEPTH = 50

/** Whether a value has everything that another one shows: members of objects, items of lists, a part of a text. */
export function includes(value: unknown, part: unknown, depth = 0): boolean {
  if (depth > MAX_DEPTH) return isSame(value, part)
  if (typeof part === 'string') return typeof value === 'string' && value.includes(part)
  if (Array.isArray(part))
    return Array.isArray(value) && part.every((item) => value.some((each) => includes(each, item, depth + 1)))
  if (!isObject(part)) return isSame(value, part)
  return (
    isObject(value) &&
    Object.entries(part).every(
      ([key, member]) => Object.hasOwn(value, key) && includes(value[key], member, depth + 1),
    )
  )
}
