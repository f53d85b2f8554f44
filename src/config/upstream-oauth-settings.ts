import type { Secret } from '../core/secret.ts'
import type { OAuthSettings } from '../core/settings.ts'

/** `oauth` of an upstream as it is written. */
export interface OAuthValues {
  readonly grant?: OAuthSettings['grant']
  readonly client_id?: string
  readonly client_secret?: Secret
  readonly issuer?: string
  readonly token_endpoint?: string
  readonly scopes: string | readonly string[]
  readonly audience?: string
  readonly resource: string | boolean
}

/** The settings of `oauth` for the server at a URL. */
export function oauthSettings(values: OAuthValues, url: string): OAuthSettings {
  const { client_id: clientId, client_secret: clientSecret, token_endpoint: tokenEndpoint } = values
  const { issuer, audience, scopes } = values
  const resource = values.resource === true ? url.replace(/#.*$/, '') : values.resource
  return {
    grant: values.grant ?? (clientSecret ? 'client_credentials' : 'authorization_code'),
    ...(clientId !== undefined && { clientId }),
    ...(clientSecret && { clientSecret }),
    ...(issuer !== undefined && { issuer }),
    ...(tokenEndpoint !== undefined && { tokenEndpoint }),
    scopes: typeof scopes === 'string' ? scopes.split(/\s+/).filter(Boolean) : scopes,
    ...(audience !== undefined && { audience }),
    ...(resource !== false && { resource }),
  }
}
