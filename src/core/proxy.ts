/**
 * The HTTP proxies for requests to other services: from the environment, as other programs take them, or for one server.
 *
 * Variables are read in lower case first: `https_proxy` for https URLs, `http_proxy` for http URLs, and `no_proxy` for what is
 * reached directly. Hosts of this machine always are: a proxy would reach another machine. `all_proxy` is not read.
 */
import { BlockList, isIP } from 'node:net'
import { domainToASCII } from 'node:url'
import { bareHost, isLoopbackHost } from './address.ts'
import { Secret } from './text/secret.ts'
import { percentDecoded } from './text/escape.ts'

/** An HTTP proxy. */
export interface Proxy {
  /** Its URL, without user and password. */
  readonly url: string
  /** The value of `Proxy-Authorization`. */
  readonly authorization?: Secret
}

/** The proxy for requests to a URL; undefined for a direct connection. */
export type FindProxy = (url: URL) => Proxy | undefined

/** No request goes through a proxy. */
export const noProxy: FindProxy = () => undefined

type Variables = Readonly<Record<string, string | undefined>>

/** The proxies of an environment. `onInvalid` is called with each variable that is no URL of a proxy, and so has no effect. */
export function environmentProxies(variables: Variables, onInvalid: (name: string) => void): FindProxy {
  const proxyIn = (name: string): Proxy | undefined => {
    const [key, text] = variableOf(name, variables)
    const proxy = text === '' ? undefined : parseProxy(text)
    if (text !== '' && !proxy) onInvalid(key)
    return proxy
  }
  const proxies = new Map([
    ['http:', proxyIn('http_proxy')],
    ['https:', proxyIn('https_proxy')],
  ])
  const isDirect = directHosts(variableOf('no_proxy', variables)[1])
  return (url) => (isLoopbackHost(url.hostname) || isDirect(url) ? undefined : proxies.get(url.protocol))
}

/** The proxy at a URL, or at a host and port; undefined if the text is neither, or the protocol is not http or https. */
export function parseProxy(text: string): Proxy | undefined {
  const complete = text.includes('://') ? text : `http://${text}`
  if (!URL.canParse(complete)) return undefined
  const { protocol, origin, username, password } = new URL(complete)
  if (protocol !== 'http:' && protocol !== 'https:') return undefined
  if (username === '' && password === '') return { url: origin }
  const user = `${percentDecoded(username)}:${percentDecoded(password)}`
  return { url: origin, authorization: new Secret(`Basic ${Buffer.from(user).toString('base64')}`) }
}

/** The name and value of a variable; a variable in lower case that is empty counts. */
function variableOf(name: string, variables: Variables): readonly [name: string, value: string] {
  const found = [name, name.toUpperCase()].find((each) => variables[each] !== undefined) ?? name
  return [found, (variables[found] ?? '').trim()]
}

/** The options of undici's `ProxyAgent`. */
export function proxyOptions({ url, authorization }: Proxy): {
  readonly uri: string
  readonly token?: string
} {
  return { uri: url, ...(authorization && { token: authorization.reveal() }) }
}

/** The proxy of a server, by its setting; that of the environment if it has none. */
export function proxyOf(setting: Proxy | 'off' | undefined, environment: FindProxy): FindProxy {
  if (setting === undefined) return environment
  return setting === 'off' ? noProxy : () => setting
}

/**
 * What a list such as `no_proxy` names, separated by commas or spaces: `*`; a host, with its subdomains; `.host` the same;
 * `*.host` only the subdomains, and so on for any end of a name; an IP address; a network such as `10.0.0.0/8`. All but
 * networks may have a port.
 */
function directHosts(list: string): (url: URL) => boolean {
  const entries = list.split(/[\s,]+/).filter((entry) => entry !== '')
  const tests = entries.map((entry) => networkTest(entry) ?? hostTest(entry))
  return ({ hostname, port, protocol }) => {
    const host = bareHost(hostname)
    const at = port === '' ? (protocol === 'https:' ? '443' : '80') : port
    return tests.some((test) => test(host, at))
  }
}

type HostTest = (host: string, port: string) => boolean

function networkTest(entry: string): HostTest | undefined {
  const [address = '', bits = ''] = entry.split('/')
  const family = isIP(address)
  if (family === 0 || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128)) return undefined
  const network = new BlockList()
  network.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6')
  return (host) => isIP(host) > 0 && network.check(host, isIP(host) === 4 ? 'ipv4' : 'ipv6')
}

function hostTest(entry: string): HostTest {
  const [, named = entry, port = ''] = isIP(entry) > 0 ? [] : (/^(.+?)(?::(\d+))?$/.exec(entry) ?? [])
  if (named.startsWith('*')) return (host, at) => isAt(port, at) && host.endsWith(inUrls(named.slice(1)))
  const name = inUrls(named.replace(/^\./, ''))
  return (host, at) => isAt(port, at) && (host === name || host.endsWith(`.${name}`))
}

/** Whether a port is the one that an entry names, if it names one. */
function isAt(named: string, port: string): boolean {
  return named === '' || Number(named) === Number(port)
}

/** A host as URLs have it, which write one address or name in one way. */
function inUrls(host: string): string {
  return bareHost(domainToASCII(isIP(host) === 6 ? `[${host}]` : host) || host)
}
