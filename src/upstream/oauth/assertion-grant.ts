/**
 * Tokens for an assertion (RFC 7523 §2.1): a token that a platform issued to the gateway's own workload, or the identity of a
 * person, which an identity provider asserts for the authorization server of one MCP server (ID-JAG, draft-ietf-oauth-
 * identity-assertion-authz-grant; the MCP extension for enterprise-managed authorization).
 */
import { readFile, stat } from 'node:fs/promises'
import type { AuthorizationServer } from 'oauth4webapi'
import { GatewayError } from '../../core/error.ts'
import type { IdentityProvider } from '../../core/settings.ts'
import type { OAuthHttp } from './oauth-http.ts'
import { type Issuer, readServer } from './discovery.ts'
import { permanent } from './refusals.ts'
import { configured } from './registration.ts'
import { requestAssertion } from './token-endpoint.ts'

export const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer'

const TOKEN_TYPE = 'urn:ietf:params:oauth:token-type:'
/** The maximum size of a token in a file, in bytes. */
const MAX_TOKEN_BYTES = 65_536

/** What a token is requested for. */
interface Purpose {
  /** The authorization server that gets the assertion. */
  readonly audience: string
  readonly resource: string | undefined
  readonly scope: string | undefined
}

/** The identity assertion of an identity provider for one authorization server, for a token of the person. */
export async function identityAssertion(
  provider: IdentityProvider,
  subjectToken: string,
  { audience, resource, scope }: Purpose,
  { server, http }: { readonly server: AuthorizationServer; readonly http: OAuthHttp },
): Promise<string> {
  const client = configured(provider, provider.clientId, server)
  return requestAssertion(
    { server, client, http },
    {
      requested_token_type: `${TOKEN_TYPE}id-jag`,
      audience,
      resource,
      scope,
      subject_token: subjectToken,
      subject_token_type: TOKEN_TYPE + provider.subjectTokenType,
    },
  )
}

/** The authorization server of an identity provider. @throws SERVER_UNAVAILABLE */
export async function findProvider(
  { issuer, tokenEndpoint }: IdentityProvider,
  http: OAuthHttp,
): Promise<Issuer> {
  const server =
    tokenEndpoint === undefined
      ? await readServer(issuer ?? '', http, unusableProvider)
      : { issuer: issuer ?? new URL(tokenEndpoint).origin, token_endpoint: tokenEndpoint }
  return { server, resource: undefined, scopes: [], needsDpop: false }
}

function unusableProvider(what: string): GatewayError {
  const message = `The identity provider is unusable: the configuration ${what}.`
  const fix = 'correct oauth.identity_provider of this server'
  return new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/** The token in a file, which whoever issues it replaces before it expires. @throws SERVER_UNAVAILABLE */
export async function tokenInFile(path: string): Promise<string> {
  try {
    const found = await stat(path)
    if (!found.isFile()) throw new Error('it is no regular file')
    if (found.size > MAX_TOKEN_BYTES) throw new Error(`it has more than ${MAX_TOKEN_BYTES} bytes`)
    const text = (await readFile(path, 'utf8')).trim()
    if (text === '') throw new Error('it is empty')
    return text
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : 'it cannot be read'
    const message = 'The token that the gateway presents cannot be read.'
    const lasting = permanent(message, 'correct the file of the token that oauth of this server names')
    throw new GatewayError('SERVER_UNAVAILABLE', message, {
      cause,
      ...lasting,
      forOperator: `The file ${path} with the token for the authorization server cannot be read: ${why}. To mend it, correct the path, or the file.`,
    })
  }
}
