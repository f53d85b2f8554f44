import type { JsonSchema } from '../core/schema.ts'

const url = {
  type: 'string',
  pattern: '^https?://',
  errorMessage: 'must be a URL such as https://login.example.com',
}

/** The JSON Schema of `oauth` of an upstream. */
export const oauthSchema: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping such as { client_id: gateway, client_secret: "${SECRET}" }',
  description: 'How the gateway gets tokens for this server. The token of a caller is never passed on.',
  properties: {
    grant: {
      enum: ['client_credentials', 'token_exchange', 'authorization_code'],
      description:
        'As the gateway itself, by exchanging the token of each caller, or by asking each caller to sign in. By default the first where there is a `client_secret`, else the last.',
    },
    client_id: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be the id the gateway is registered under',
      description: 'What the gateway is registered as; without it, it registers itself before users sign in.',
    },
    client_secret: {
      type: 'string',
      minLength: 1,
      'x-secret': true,
      errorMessage: 'must be text, such as "${CLIENT_SECRET}", and not be empty',
      description: 'The secret of that client.',
    },
    issuer: {
      ...url,
      description: 'The authorization server. By default the server behind says which one it trusts.',
      examples: ['https://login.example.com'],
    },
    token_endpoint: {
      ...url,
      description: 'Where tokens are got, for an authorization server without metadata.',
    },
    scopes: {
      type: ['array', 'string'],
      items: { type: 'string', pattern: '^[!#-\\[\\]-~]+$', errorMessage: 'must be one scope' },
      default: [],
      errorMessage: 'must be a list of scopes',
      description: 'The scopes to ask for. By default those the server says it needs.',
    },
    audience: {
      type: 'string',
      minLength: 1,
      errorMessage: 'must be text',
      description: 'The `audience` some authorization servers want to be told.',
    },
    resource: {
      type: ['string', 'boolean'],
      pattern: '^([a-z][a-z0-9+.-]*:|(off|on|true|false)$)',
      errorMessage: 'must be the URI of the server, or off',
      default: 'on',
      description:
        'The resource tokens are asked for: `on` is the URL of this server, `off` names none to authorization servers that refuse it.',
    },
  },
}
