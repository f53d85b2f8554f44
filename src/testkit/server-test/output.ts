/** Whether structured results are what the tool declares, and whether their text agrees with them. */
import type { Fields } from '../../core/payload.ts'
import { isObject, isSame, readJson } from '../../core/json/json.ts'
import { UnusableSchema, validator } from '../../core/schema/schema.ts'

/** Why a success does not fit the output schema of its tool. */
export function outputProblems({ structuredContent }: Fields, outputSchema: Fields): string[] {
  if (structuredContent === undefined)
    return ['there is an output schema, but the result has no structuredContent']
  try {
    return validator(outputSchema)(structuredContent).map(
      ({ path, message }) => `structuredContent${path.map((each) => `.${each}`).join('')} ${message}`,
    )
  } catch (error) {
    if (!(error instanceof UnusableSchema)) throw error
    return [error.message.slice(0, 200)]
  }
}

/**
 * Why the text of a structured result says something else: it is JSON, and neither the structured content nor its only
 * member. Text that is not JSON is for people, and is not compared.
 */
export function structuredTextProblem({ content, structuredContent }: Fields): string | undefined {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const values = blocks.flatMap((block) => {
    const value = isObject(block) && typeof block.text === 'string' ? readJson(block.text) : undefined
    return isObject(value) || Array.isArray(value) ? [value] : []
  })
  if (values.length === 0) return undefined
  const members = isObject(structuredContent) ? Object.values(structuredContent) : []
  const only = members.length === 1 ? members[0] : undefined
  // Some servers put a list, or a text, into an object with one member.
  const parsed = typeof only === 'string' ? readJson(only) : only
  const isEqual = (value: unknown): boolean => isSame(value, structuredContent) || isSame(value, parsed)
  const isItems = Array.isArray(only) && only.length === values.length && isSame(only, values)
  return values.some(isEqual) || isItems ? undefined : 'its text is other JSON than its structuredContent'
}
