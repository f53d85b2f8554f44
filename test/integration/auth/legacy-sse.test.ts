import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { decodeJwt } from 'jose'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newUser, signIn } from '../../support/auth/oauth-client.ts'
import { type OAuthField, startOAuthField } from '../../support/auth/oauth-field.ts'

let field: OAuthField
let server: OAuthField['server']
let gateway: OAuthField['gateway']

beforeAll(async () => {
  field = await startOAuthField({ listen: { legacy_sse: true } })
  ;({ server, gateway } = field)
})
afterAll(() => field.close())

describe('an HTTP+SSE client', () => {
  it.each(['/sse', '/sse/fake'])('C009 signs in for %s and calls a tool', async (path) => {
    const user = newUser('app')
    const url = new URL(gateway.origin + path)
    const first = new SSEClientTransport(url, { authProvider: user.provider })
    await expect(new Client({ name: 'peer', version: '1.0.0' }).connect(first)).rejects.toThrow(
      /Unauthorized/,
    )
    await signIn(first, user)
    expect(decodeJwt(user.tokens?.access_token ?? '').aud).toBe(url.href)
    const client = new Client({ name: 'peer', version: '1.0.0' })
    await client.connect(new SSEClientTransport(url, { authProvider: user.provider }))
    const result = await client.callTool({ name: 'echo', arguments: { text: 'hello' } })
    expect(result.isError).not.toBe(true)
    await client.close()
  })

  it("C007 cannot post to another caller's stream without credentials or with its own", async () => {
    const authorization = `Bearer ${await server.robotToken(gateway.url)}`
    const stream = await fetch(`${gateway.origin}/sse`, { headers: { authorization } })
    const reader = stream.body?.getReader()
    const { value } = (await reader?.read()) ?? {}
    const endpoint = /data: (\S+)/.exec(new TextDecoder().decode(value))?.[1] ?? ''
    const post = (headers: Record<string, string>) =>
      fetch(gateway.origin + endpoint, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      })
    expect((await post({})).status).toBe(401)
    const user = newUser('app')
    const transport = new SSEClientTransport(new URL(`${gateway.origin}/sse`), {
      authProvider: user.provider,
    })
    await new Client({ name: 'peer', version: '1.0.0' }).connect(transport).catch(() => undefined)
    await signIn(transport, user)
    const others = `Bearer ${user.tokens?.access_token}`
    expect((await post({ authorization: others })).status).toBe(404)
    expect((await post({ authorization })).status).toBe(202)
    await reader?.cancel()
  })
})
