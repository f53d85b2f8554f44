import type { HttpBindings } from '@hono/node-server'
import type { Context } from 'hono'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { htmlPage, pageHeaders } from '../core/html.ts'
import { script } from './script.ts'
import { style } from './style.ts'

/** A request for a page. */
export type Asking = Context<{ Bindings: HttpBindings }>

/** Whether a program asks, which wants JSON. */
export function isProgram({ req }: Asking): boolean {
  if (/^application\/json(?:;|$)/i.test(req.header('content-type') ?? '')) return true
  const accept = req.header('accept') ?? ''
  return accept.includes('application/json') && !accept.includes('text/html')
}

/** Answers a person. */
export function answerPage(
  context: Asking,
  { title, content }: { readonly title: string; readonly content: string },
  status: number,
): Response {
  return context.html(
    htmlPage({ title: `${title} · Gatehouse`, style, content: `<main>\n${content}\n</main>`, script }),
    statusOf(status),
    headers,
  )
}

/** Answers a program. */
export function answerJson(context: Asking, value: object, status: number): Response {
  return context.body(JSON.stringify(value), statusOf(status), jsonHeaders)
}

const headers = { ...pageHeaders(style, script), vary: 'Accept, Cookie, Authorization' }
const jsonHeaders = {
  'content-type': 'application/json',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  vary: headers.vary,
}

function statusOf(status: number): ContentfulStatusCode {
  const known = statuses.find((each) => each === status)
  return known ?? 500
}

const statuses = [200, 400, 401, 403, 404, 405, 409, 410, 413, 415, 429, 500, 503] as const
