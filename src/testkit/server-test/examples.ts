/**
 * The example calls of a tool: where they come from, whether the server does what they show, and what its
 * errors reveal.
 */
import { NS } from '../../core/identity.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { excerpt } from '../../core/text/redact.ts'
import { steady } from '../steady.ts'
import { type WireAnswer, absenceOf, type CheckContext, isAsking } from './session.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { sentBy } from '../../features/errors/errors.ts'
import { sanitise } from '../../features/errors/sanitise.ts'
import { ownCall } from '../../protocol/lift.ts'

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
  answerTo: (input: Fields) => Promise<WireAnswer | string> | WireAnswer | string,
): Promise<void> {
  const checks = results.about(`tool/${name}`)
  for (const [index, { input, output }] of examples.entries()) {
    const id = `example-${index + 1}`
    const answer = await answerTo(input)
    if (typeof answer === 'string' || isAsking(answer)) {
      const message = typeof answer === 'string' ? answer : 'the server asks the client for something'
      checks.skip('results', id, message)
      continue
    }
    const problem = problemOf(answer, output)
    checks.judge('results', id, problem && shown(problem, redactor), { ms: answer.ms })
  }
}

function problemOf(answer: WireAnswer, output: unknown): string | undefined {
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

/** The marks that replace each kind of detail. */
const kinds: readonly (readonly [mark: string, what: string])[] = [
  ['[path]', 'a path'],
  ['[host]', 'a host'],
  ['[query]', 'a database query'],
  ['[connection]', 'a connection string'],
  ['[redacted]', 'what looks like a secret'],
  ['***', 'a secret of the configuration'],
]

/** The text of a failed call; undefined for others. */
export function failureText(answer: WireAnswer): string | undefined {
  if (answer.kind === 'error') {
    const { message, data } = answer.error
    return data === undefined ? String(message) : `${String(message)}\n${JSON.stringify(data)}`
  }
  if (answer.kind === 'none' || answer.result.isError !== true) return undefined
  const { content } = answer.result
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  return blocks
    .flatMap((block) => (isObject(block) && typeof block.text === 'string' ? [block.text] : []))
    .join('\n')
}

/** The maximum length of a text that is examined, in characters. */
const MAX_TEXT = 60_000

/** What an error text reveals that the caller did not send, as a message without it; undefined if nothing. */
export function leakIn(text: string, params: Fields, redactor: Redactor): string | undefined {
  const sent = sentBy(ownCall({ params: Payload.of(params) }), redactor)
  const examined = text.slice(0, MAX_TEXT)
  const safe = sanitise(examined, sent)
  if (safe === examined) return undefined
  const found = kinds.filter(([mark]) => count(safe, mark) > count(examined, mark)).map(([, what]) => what)
  const what = found.length > 0 ? found.join(' and ') : 'a stack trace'
  return `${what}: ${excerpt(safe, 120)}`
}

/** A text of the server for a report: short, and without anything that looks like a secret. */
export function shown(text: string, redactor: Redactor): string {
  return excerpt(redactor.text(text), 120)
}

function count(text: string, mark: string): number {
  return text.split(mark).length - 1
}
