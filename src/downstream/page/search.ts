import type { ToolPanel } from '../../documents/front-page.ts'

/** Whether a text is what somebody looks for: all the words stand in it. */
export type Search = (text: string) => boolean

/** How long a search may be, in characters. */
const MAX_SEARCH_LENGTH = 200

/** Looks for the words of a query; finds everything where there are none. */
export function searchFor(query: string): Search {
  const words = query
    .slice(0, MAX_SEARCH_LENGTH)
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== '')
  return (text) => {
    if (words.length === 0) return true
    const lower = text.toLowerCase()
    return words.every((word) => lower.includes(word))
  }
}

/** What the page says of a tool at first sight: what people see is what they can look for. */
export function textOf({ name, title = '', summary, marks }: ToolPanel): string {
  return [name, title, summary, ...marks.map(({ text }) => text)].join(' ')
}
