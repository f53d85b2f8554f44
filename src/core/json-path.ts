/** One step into a JSON value: a member by name, an element by index, or (`null`) each of them. */
export type Step = string | number | null

/** How many steps a path may have. */
const MAX_STEPS = 64

/** Reads a path such as `$.items[*].email` or `$.rows[0]`; nothing where it is none. */
export function parseSteps(text: string): readonly Step[] | undefined {
  if (!/^\$(?:\.[^.[\]]+|\[(?:\d{1,9}|\*)\])*$/.test(text)) return undefined
  const steps = [...text.matchAll(/\.([^.[\]]+)|\[(\d+|\*)\]/g)].map(([, name, index]) => {
    if ((name ?? index) === '*') return null
    return name ?? Number(index)
  })
  return steps.length > MAX_STEPS ? undefined : steps
}
