/**
 * Whether a tool takes data that is imported, and in which argument. Only a hint for callers: nothing in a schema says so
 * for certain, so it is a guess unless both the tool and exactly one of its arguments have such a name.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { wordsIn } from '../../core/text/words.ts'
import { Schemas } from './forms.ts'
import { takesPath } from './takes-path.ts'
import { takesDownloadUrl } from './takes-url.ts'

/** Words of tools that import, and of arguments that are data, in the notation of `wordsIn`. */
const importing = /\b(?:imports?|ingest|load|upload)\b/
const data = /\b(?:content|contents|csv|data|document|file|items|json|payload|records|rows|text)$/

/** The argument of a tool that takes data; undefined if it has none, or several. */
export function dataArgument(tool: Descriptor): string | undefined {
  const { inputSchema } = tool.definition
  if (tool.isBuiltin || tool.classification.op === 'read' || !importing.test(wordsIn(tool.name).join(' ')))
    return undefined
  const { root } = new Schemas(inputSchema)
  const names =
    isObject(inputSchema) && isObject(inputSchema.properties) ? Object.keys(inputSchema.properties) : []
  const [only, ...others] = names.filter((name) => {
    const descriptions = root.member(name).descriptions()
    if (data.test(wordsIn(name).join(' ')) || takesDownloadUrl(name, descriptions)) return true
    return takesPath({ name, descriptions }, tool)
  })
  return others.length === 0 ? only : undefined
}
