declare module 'oidc-provider' {
  import type { IncomingMessage, ServerResponse } from 'node:http'

  interface Details {
    readonly prompt: {
      readonly name: string
      readonly details: {
        readonly missingOIDCScope?: readonly string[]
        readonly missingResourceScopes?: Readonly<Record<string, readonly string[]>>
      }
    }
    readonly params: Readonly<Record<string, unknown>>
    readonly session?: { readonly accountId: string }
    readonly grantId?: string
  }

  interface Grant {
    addOIDCScope(scope: string): void
    addResourceScope(resource: string, scope: string): void
    save(): Promise<string>
  }

  interface ProviderContext {
    body: unknown
    readonly oidc: { readonly params: Readonly<Record<string, string>>; readonly client: object }
  }

  export class Provider {
    constructor(issuer: string, configuration: object)
    readonly AccessToken: new (fields: object) => { save(): Promise<string> }
    readonly Client: { readonly adapter: { destroy(id: string): Promise<void> } }
    registerGrantType(
      name: string,
      handler: (context: ProviderContext) => Promise<void>,
      parameters: readonly string[],
    ): void
    use(
      middleware: (
        context: ProviderContext & { readonly path: string },
        next: () => Promise<void>,
      ) => Promise<void>,
    ): void
    on(event: 'server_error', listener: (context: unknown, error: unknown) => void): void
    on(event: 'grant.revoked', listener: () => void): void
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Details>
    interactionFinished(request: IncomingMessage, response: ServerResponse, result: object): Promise<void>
    readonly Grant: {
      new (of: { accountId: string; clientId: string }): Grant
      find(id: string): Promise<Grant | undefined>
    }
  }

  export const errors: { readonly InvalidGrant: new (message: string) => Error }

  export default Provider
}
