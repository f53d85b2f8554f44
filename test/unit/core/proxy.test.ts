import { describe, expect, it, test } from 'vitest'
import { environmentProxies, parseProxy, proxyOf, proxyOptions } from '../../../src/core/proxy.ts'

/** The proxy for a URL in an environment. */
function proxyFor(url: string, variables: Record<string, string>): string | undefined {
  return environmentProxies(variables, () => undefined)(new URL(url))?.url
}

const PROXY = 'http://proxy.example:3128'
const both = { HTTP_PROXY: PROXY, HTTPS_PROXY: PROXY }

describe('the proxies of the environment', () => {
  it.each([
    [{}, undefined, undefined],
    [{ HTTP_PROXY: PROXY }, PROXY, undefined],
    [{ HTTPS_PROXY: PROXY }, undefined, PROXY],
    [{ http_proxy: PROXY, HTTP_PROXY: 'http://other' }, PROXY, undefined],
    [{ https_proxy: '', HTTPS_PROXY: PROXY }, undefined, undefined],
    [{ HTTPS_PROXY: ' http://proxy.example:3128/ ' }, undefined, PROXY],
    [{ HTTPS_PROXY: 'proxy.example:3128' }, undefined, PROXY],
    [{ HTTPS_PROXY: 'proxy.example' }, undefined, 'http://proxy.example'],
    [{ HTTPS_PROXY: 'https://proxy.example' }, undefined, 'https://proxy.example'],
    [{ HTTPS_PROXY: '[2001:db8::1]:3128' }, undefined, 'http://[2001:db8::1]:3128'],
    [{ ALL_PROXY: PROXY, all_proxy: PROXY }, undefined, undefined],
    [{ ...both, NODE_USE_ENV_PROXY: '1' }, PROXY, PROXY],
  ])('%j', (variables, http, https) => {
    expect(proxyFor('http://a.example/x', variables)).toBe(http)
    expect(proxyFor('https://a.example/x', variables)).toBe(https)
  })

  it.each([
    'http://localhost:8080',
    'http://127.0.0.1',
    'http://127.9.9.9:1',
    'https://[::1]/',
    'http://a.localhost/',
  ])('are not used for this machine: %s', (url) => {
    expect(proxyFor(url, both)).toBeUndefined()
  })

  it.each([
    ['*', 'https://a.example', false],
    ['b.example, *', 'https://a.example', false],
    ['a.example', 'https://a.example', false],
    ['A.Example.', 'https://a.example', false],
    ['a.example', 'https://A.EXAMPLE.', false],
    ['a.example', 'https://x.a.example', false],
    ['.a.example', 'https://a.example', false],
    ['.a.example', 'https://x.y.a.example', false],
    ['*.a.example', 'https://x.a.example', false],
    ['*.a.example', 'https://a.example', true],
    ['a.example', 'https://ba.example', true],
    ['a.example', 'https://a.example.org', true],
    ['a.example:443', 'https://a.example', false],
    ['a.example:8443', 'https://a.example', true],
    ['a.example:8443', 'https://a.example:8443', false],
    ['a.example:80', 'http://a.example', false],
    ['b.example a.example', 'https://a.example', false],
    ['b.example,,a.example,', 'https://a.example', false],
    ['10.1.2.3', 'http://10.1.2.3', false],
    ['10.1.2.3', 'http://10.1.2.30', true],
    ['10.1.2.3:8080', 'http://10.1.2.3:8080', false],
    ['10.0.0.0/8', 'http://10.1.2.3:8080', false],
    ['10.0.0.0/8', 'http://11.1.2.3', true],
    ['10.0.0.0/8', 'http://10.example', true],
    ['0.0.0.0/0', 'http://192.0.2.1', false],
    ['2001:db8::/32', 'http://[2001:db8::5]:80', false],
    ['2001:db8::5', 'http://[2001:db8::5]', false],
    ['[2001:db8::5]', 'http://[2001:db8::5]', false],
    ['[2001:db8::5]:81', 'http://[2001:db8::5]', true],
    ['[2001:db8::5]:81', 'http://[2001:db8::5]:81', false],
    ['2001:0DB8:0:0::5', 'http://[2001:db8::5]', false],
    ['[2001:db8:0::5]:81', 'http://[2001:db8::5]:81', false],
    ['münchen.example', 'https://münchen.example', false],
    ['xn--mnchen-3ya.example', 'https://x.MÜNCHEN.example', false],
    ['*a.example', 'https://ba.example', false],
    ['*a.example', 'https://ba.example.org', true],
    ['a.example:0443', 'https://a.example', false],
    ['10.0.0.0/99', 'http://10.1.2.3', true],
    ['.', 'https://a.example', true],
    ['', 'https://a.example', true],
    [':443', 'https://a.example', true],
    ['127.0.0.1,localhost', 'https://a.example', true],
  ])('NO_PROXY=%s sends %s to the proxy: %s', (list, url, isProxied) => {
    expect(proxyFor(url, { ...both, NO_PROXY: list }) !== undefined).toBe(isProxied)
    expect(proxyFor(url, { ...both, no_proxy: list, NO_PROXY: 'x.invalid' }) !== undefined).toBe(isProxied)
  })

  it.each(['socks5://proxy.example', 'ftp://proxy.example', 'http://', 'http://[', 'a b', 'pac+http://x'])(
    'a variable that is no URL of an HTTP proxy is reported by its name: %s',
    (text) => {
      const invalid: string[] = []
      const proxies = environmentProxies({ HTTPS_PROXY: text, http_proxy: text }, (name) =>
        invalid.push(name),
      )
      expect(invalid.toSorted()).toEqual(['HTTPS_PROXY', 'http_proxy'])
      expect(proxies(new URL('https://a.example'))).toBeUndefined()
    },
  )
})

describe('the credentials in the URL of a proxy', () => {
  it.each([
    ['http://me:secret@proxy.example:3128', 'me:secret'],
    ['http://me@proxy.example', 'me:'],
    ['http://me%40corp:p%3Aw%20%2f@proxy.example', 'me@corp:p:w /'],
    ['http://me:100%@proxy.example', 'me:100%'],
    ['me:secret@proxy.example:3128', 'me:secret'],
  ])('%s', (text, user) => {
    const proxy = parseProxy(text)
    const token = `Basic ${Buffer.from(user).toString('base64')}`
    expect(proxy && proxyOptions(proxy)).toMatchObject({ token })
    expect(proxy?.url).toMatch(/^http:\/\/proxy\.example(:3128)?$/)
    expect(JSON.stringify(proxy)).not.toContain(token.slice(6))
    expect(String(proxy?.authorization)).toBe('***')
  })
})

test('a server has its own proxy, none, or that of the environment', () => {
  const url = new URL('http://127.0.0.1/')
  const environment = environmentProxies(both, () => undefined)
  expect(proxyOf({ url: 'http://own' }, environment)(url)?.url).toBe('http://own')
  expect(proxyOf('off', environment)(new URL('https://a.example'))).toBeUndefined()
  expect(proxyOf(undefined, environment)(new URL('https://a.example'))?.url).toBe(PROXY)
})
