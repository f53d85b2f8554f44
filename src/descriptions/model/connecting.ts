/** How clients connect to the gateway: what documents say in place of how the gateway connects to a server. */
import { isConfidentialUrl } from '../../core/address.ts'
import { asksForToken, type Front, type ServerDescription } from './description.ts'
import { endpointsOf } from './facts.ts'

/** The variable in which clients that start `gatehouse stdio` have the token. */
export const TOKEN_VARIABLE = 'GATEHOUSE_TOKEN'

/** The gateway behind a URL. */
interface Gateway {
  /** Its key, if it lasts. */
  readonly key?: string | undefined
  /** Whether callers are authenticated: `gatehouse stdio` needs a token even if there is an issuer. */
  readonly isProtected: boolean
}

/**
 * The words of `gatehouse stdio` for clients without URLs. The gateway that it starts has to know that the other one is a
 * gateway too: otherwise both ask before a call, in turn. A token is not among the words, which other programs can read.
 */
export function stdioWords(url: string, { key, isProtected }: Gateway): readonly string[] {
  const known = key ?? (isConfidentialUrl(url) ? 'auto' : undefined)
  const isGateway = known === undefined ? [] : ['--gateway-key', known]
  return ['stdio', ...isGateway, ...(isProtected ? ['--token-env', TOKEN_VARIABLE] : []), url]
}

/** What clients install: the URL, or the command that connects to it, and what the configuration has besides. */
export function installationOf(server: ServerDescription): Readonly<Record<string, string>> {
  const [url, ...others] = Object.values(endpointsOf(server))
  // Each of several servers has its own.
  if (others.length > 0) return server.install
  if (url === undefined) return { stdio: 'gatehouse stdio', ...server.install }
  const words = stdioWords(url, { isProtected: asksForToken(server.front) })
  return { url, stdio: ['gatehouse', ...words].join(' '), ...server.install }
}

const names = { oauth2_code: ['oauth2'], bearer_token: ['bearer-token'], none: [] } as const

/** How callers authenticate, in the words of dashdash. */
export function authNames({ auth }: Front): readonly string[] {
  return auth.methods.flatMap((method) => names[method])
}
