/**
 * Bounds on what a server lists: how many entries, how large each, and how large all of a page.
 *
 * Everything a list holds is judged, described and kept, so a server that lists without end would stall all others.
 * What is over is left out, and `onCut` hears of it.
 */
import { Payload } from '../core/payload.ts'

/** How many entries of one page are taken, and how many of all pages together. */
export const MAX_LIST_ENTRIES = 2000
/** How long one entry may be, in characters of JSON. */
const MAX_ENTRY_LENGTH = 256 * 1024
/** How long the entries of a page may be together, in characters of JSON. */
const MAX_PAGE_LENGTH = 8 * 1024 * 1024

/** What was left out of a list. */
export interface Cut {
  readonly entries: number
  readonly oversized: number
}

/** A page of a list within the bounds; the same one where it is. */
export function boundedPage(page: Payload, key: string, onCut: (cut: Cut) => void): Payload {
  const listed = page.member(key)
  if (!Array.isArray(listed) || (listed.length <= MAX_LIST_ENTRIES && isShort(page))) return page
  let length = 0
  let oversized = 0
  const kept: string[] = []
  for (const { text } of page.at(key)?.items ?? []) {
    if (text.length > MAX_ENTRY_LENGTH) oversized++
    else if (kept.length < MAX_LIST_ENTRIES && length + text.length <= MAX_PAGE_LENGTH) {
      kept.push(text)
      length += text.length
    }
  }
  if (kept.length === listed.length) return page
  onCut({ entries: listed.length - kept.length, oversized })
  return page.with({ [key]: Payload.text(`[${kept.join(',')}]`) })
}

/** No entry of a short page is too long. */
function isShort({ text }: Payload): boolean {
  return text.length <= MAX_ENTRY_LENGTH
}
