/** Why a collection ends before the last page, for programs and for models. */
import type { NextPage } from '../../core/judgement/pages.ts'

const words = {
  max_pages: 'the limit of pages is reached',
  result_limit: 'page {page} would exceed the limit of results',
  deadline: 'the time of the call was nearly over before page {page}',
  page_failed: 'page {page} failed',
  repeated_cursor: 'the server named the same page again',
  empty_page: 'the last page is empty, although the server says that there are more',
  no_cursor: 'the server says that there are more pages, but not how to request them',
  slow_client: 'the client did not read the earlier pages in time',
  output_schema: 'more items would not match the output schema of the tool',
} as const

/** The end of a collection that is not complete. */
export interface Stop {
  readonly by: keyof typeof words
  /** Where the rest begins; absent if it cannot be requested. */
  readonly next?: NextPage | undefined
  /** The error of the page that failed. */
  readonly error?: Readonly<Record<string, unknown>> | undefined
}

/** How much was collected. */
interface Amount {
  readonly pages: number
  readonly items: number
}

/** An amount in words. */
export function amountText({ pages, items }: Amount): string {
  return `${counted(pages, 'page')}, ${counted(items, 'item')}`
}

/** What a model reads of a collection that is not complete. */
export function stopNotice({ by, next, error }: Stop, { pages, items }: Amount): string {
  const collected = `${counted(pages, 'page')} with ${counted(items, 'item')}`
  const why = words[by].replace('{page}', String(pages + 1))
  const message = typeof error?.message === 'string' ? `: ${error.message.replace(/[.\s]+$/, '')}` : ''
  const rest = next ? ` The rest begins with ${next.argument}=${shortened(next.value)}.` : ''
  return `[Collected by the gateway: ${collected}. This is not all: ${why}${message}.${rest}]`
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** How long a cursor may be in a text, in characters. */
const MAX_SHOWN_LENGTH = 500

function shortened(value: unknown): string {
  const text = JSON.stringify(value) ?? 'null'
  return text.length <= MAX_SHOWN_LENGTH ? text : `${text.slice(0, MAX_SHOWN_LENGTH - 1)}…`
}
