/** Goes where a browser would be sent, with its cookies, until it is sent to this address; where that is. */
export async function followTo(start: URL, end: string): Promise<URL> {
  const cookies = new Map<string, string>()
  let url = start
  for (let steps = 0; steps < 20; steps++) {
    if (url.href.startsWith(end)) return url
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
    for (const line of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      cookies.set(name, value)
    }
    const location = response.headers.get('location')
    if (location === null)
      throw new Error(`${url.href} is a page: ${response.status} ${await response.text()}`)
    await response.body?.cancel()
    url = new URL(location, url)
  }
  throw new Error('It is sent around without end')
}

/** What a browser shows. */
export interface Shown {
  readonly status: number
  readonly url: URL
  readonly text: string
  readonly headers: Headers
}

/** A request that is no link. */
interface Opening {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: URLSearchParams
}

/** A browser as far as redirects and cookies go, each cookie with its path; those of one host are sent to all its ports. */
export class CookieBrowser {
  readonly cookies = new Map<
    string,
    { readonly value: string; readonly path: string; readonly line: string }
  >()

  /** Opens an address and goes where it leads. */
  async open(address: string | URL, init: Opening = {}, steps = 20): Promise<Shown> {
    const url = new URL(address)
    const sent = [...this.cookies].filter(([, { path }]) => url.pathname.startsWith(path))
    const cookie = sent.map(([name, { value }]) => `${name}=${value}`).join('; ')
    const headers = { accept: 'text/html', ...(cookie !== '' && { cookie }), ...init.headers }
    const response = await fetch(url, { ...init, redirect: 'manual', headers })
    for (const line of response.headers.getSetCookie()) this.#keep(line)
    const location = response.headers.get('location')
    const text = await response.text()
    if (location === null) return { status: response.status, url, text, headers: response.headers }
    if (steps === 0) throw new Error('It is sent around without end')
    return this.open(new URL(location, url), {}, steps - 1)
  }

  /** Sends a form from a page of the same origin. */
  submit(address: string | URL, fields: Readonly<Record<string, string>>): Promise<Shown> {
    const { origin } = new URL(address)
    const body = new URLSearchParams(fields)
    return this.open(address, { method: 'POST', body, headers: { origin } })
  }

  #keep(line: string): void {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
    const path = /; path=([^;]+)/i.exec(line)?.[1] ?? '/'
    const isOver = /; (?:max-age=0|expires=Thu, 01 Jan 1970)/i.test(line)
    if (isOver) this.cookies.delete(name)
    else this.cookies.set(name, { value, path, line })
  }
}
