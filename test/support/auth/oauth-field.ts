import { type FakeServer, startFakeServer } from '../fake-server.ts'
import { type RunningGateway, startGateway } from '../gateway.ts'
import type { Json } from '../server/json.ts'
import { type AuthorizationServer, startAuthorizationServer } from './authorization-server.ts'

/** A gateway that takes the tokens of an authorization server, in front of a server whose tools need scopes. */
export interface OAuthField {
  readonly server: AuthorizationServer
  readonly fake: FakeServer
  readonly gateway: RunningGateway
  close(): Promise<void>
}

/** Starts all three; `config` is what else the gateway is told. */
export async function startOAuthField(config: Json = {}): Promise<OAuthField> {
  const server = await startAuthorizationServer()
  const fake = await startFakeServer({ revision: '2025-11-25', transport: 'http' })
  const gateway = await startGateway({
    ...config,
    auth: {
      jwt: { issuer: server.issuer },
      oauth: { authorization_servers: server.issuer, scopes_supported: 'read:fake' },
    },
    upstreams: {
      fake: { url: fake.url, tools: { echo: { scopes: 'read:fake' }, vendor: { scopes: 'write:fake' } } },
    },
  })
  const close = async (): Promise<void> => {
    await gateway.close()
    await fake.close()
    await server.close()
  }
  return { server, fake, gateway, close }
}
