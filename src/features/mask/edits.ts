import { elements, members } from '../../core/json.ts'

/** What stands for a value that is left out. */
export const GONE = Symbol('gone')

/** A place in a JSON value, and what is to stand there. */
interface Edit {
  readonly path: readonly (string | number)[]
  readonly to: unknown
}

interface Branch {
  /** What stands here; absent where only something below changes. */
  to?: unknown
  readonly below: Map<string, Branch>
}

/** JSON text with some places changed; all else keeps its text. Nothing where the whole is left out. */
export function editJson(text: string, edits: readonly Edit[]): string | undefined {
  const root: Branch = { below: new Map() }
  for (const { path, to } of edits) {
    let branch = root
    for (const step of path) {
      const next: Branch = branch.below.get(String(step)) ?? { below: new Map() }
      branch.below.set(String(step), next)
      branch = next
    }
    branch.to = to
  }
  return edited(text, root)
}

function edited(text: string, branch: Branch): string | undefined {
  if ('to' in branch) return branch.to === GONE ? undefined : JSON.stringify(branch.to)
  if (branch.below.size === 0) return text
  return text.trimStart().startsWith('[') ? editedArray(text, branch) : editedObject(text, branch)
}

function editedArray(text: string, { below }: Branch): string {
  const kept = elements(text).map((element, index) => {
    const branch = below.get(String(index))
    return branch ? edited(element, branch) : element
  })
  return `[${kept.filter((each) => each !== undefined).join(',')}]`
}

function editedObject(text: string, { below }: Branch): string {
  const found = members(text)
  // Of members with one name the last one is the value, and the only one that was looked at.
  const last = new Map(found.map((member) => [member.key, member]))
  const parts = found.flatMap((member) => {
    const branch = below.get(member.key)
    if (!branch) return [text.slice(member.start, member.end)]
    if (last.get(member.key) !== member) return []
    return pair(member.key, edited(text.slice(member.valueStart, member.end), branch))
  })
  const added = [...below].flatMap(([key, branch]) => (last.has(key) ? [] : pair(key, edited('', branch))))
  return `{${[...parts, ...added].join(',')}}`
}

function pair(key: string, value: string | undefined): string[] {
  return value === undefined ? [] : [`${JSON.stringify(key)}:${value}`]
}
