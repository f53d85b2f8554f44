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
