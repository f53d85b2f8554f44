/** Removes from answers what differs in every run. docs/recordings.md lists the rules. */

/** Patterns of what differs, with what stands for it. */
type Shapes = readonly (readonly [RegExp, string])[]

const volatileKey = /(?:^|[a-z_-])(?:duration|elapsed|latency|timestamp|uptime)(?:[-_]?(?:ms|seconds))?$/i

const shapes: Shapes = [
  [
    /(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) [A-Z][a-z]{2} \d\d \d{4} \d\d:\d\d:\d\d(?: GMT[+-]\d{4})?(?: \([^()]{1,60}\))?/g,
    '<time>',
  ],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?/g, '<time>'],
  [/(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/g, '<time>'],
  // Times of day, and as JavaScript prints them in a language, in which the space before AM is U+202F.
  [
    /(?<![\w:.])(?:\d{1,4}[-./]\d{1,2}[-./]\d{1,4},? )?\d{1,2}:\d\d:\d\d(?:\.\d+)?(?:\s?[AP]M)?(?![\w:])/gi,
    '<time>',
  ],
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, '<id>'],
  [/(?<![\w-])(?=[0-9a-f]*\d)[0-9a-f]{16,}(?![\w-])/gi, '<id>'],
  [/(?<![\w.])1\d{12}(?:\.\d+)?(?![\w.])/g, '<time>'],
  [/(?<![\w.])\d+(?:\.\d+)?\s?(?:ms|milliseconds|seconds?)(?!\w)/gi, '<duration>'],
]

/** The shapes of times alone, for answers of one run: an id that changes there is a change. */
export const timeShapes: Shapes = shapes.filter(([, name]) => name !== '<id>')

/** A value with what differs in every run replaced by what it is, and without metadata. */
export function steady(value: unknown, replaced = shapes): unknown {
  if (typeof value === 'string')
    return replaced.reduce((text, [pattern, name]) => text.replaceAll(pattern, name), value)
  // Milliseconds since 1970, from 2001 on.
  if (typeof value === 'number') return value >= 1e12 && value < 4e12 ? '<time>' : value
  if (Array.isArray(value)) return value.map((each) => steady(each, replaced))
  if (!isContainer(value)) return value
  const members = Object.entries(value).flatMap(([key, member]) => {
    // Servers name the kind of a result from 2026-07-28 on.
    if (key === '_meta' || (key === 'resultType' && member === 'complete')) return []
    if (key === 'nextCursor' || key === 'requestState') return [[key, '<id>']]
    const isVolatile = volatileKey.test(key) && !isContainer(member)
    return [[key, isVolatile ? '<varies>' : steady(member, replaced)]]
  })
  return Object.fromEntries(members)
}

/** Whether a value has members. A number that a double cannot hold has none; its class is not in the files below. */
function isContainer(value: unknown): value is object {
  const isObject = typeof value === 'object' && value !== null
  return isObject && !('toJSON' in value && typeof value.toJSON === 'function')
}

/** The source of `steady`, for files that run without this program. */
export function steadyCode(): string {
  const list = shapes.map(([pattern, name]) => `  [${String(pattern)}, '${name}'],\n`).join('')
  return [
    `const volatileKey = ${String(volatileKey)}`,
    `const shapes = [\n${list}]`,
    String(isContainer),
    String(steady),
  ].join('\n')
}
