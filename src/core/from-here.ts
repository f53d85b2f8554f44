/**
 * Tells a form that was sent from a page of the gateway from one that a page of another origin made a browser send.
 *
 * It goes by the headers that browsers set themselves (Fetch: `Origin`; Fetch Metadata: `Sec-Fetch-Site`), so it is
 * one of two guards: a form that decides something also holds a token of its own, or its cookie is `SameSite`.
 */
interface Headers {
  readonly origin?: string | undefined
  readonly host?: string | undefined
  readonly 'sec-fetch-site'?: string | readonly string[] | undefined
}

/** Whether a request cannot come from a page of another origin, as far as its headers say. */
export function isFromHere(headers: Headers, publicUrl: string | undefined): boolean {
  const { origin, host, 'sec-fetch-site': site } = headers
  if (site !== undefined && site !== 'same-origin' && site !== 'none') return false
  if (origin === undefined) return true
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true
  return URL.canParse(origin) && new URL(origin).host === host
}
