import { once } from 'node:events'
import { createServer } from 'node:http'
import { exportJWK, generateKeyPair, type CryptoKey, type JWK, SignJWT } from 'jose'

/** Who issues tokens in a test: a server with its keys and metadata. */
export interface Issuer {
  readonly url: string
  readonly jwks: string
  /** The public part of the key that signs at the moment. */
  readonly key: CryptoKey
  readonly kid: string
  /** How often the keys were fetched. */
  readonly fetches: number
  /** Every path that was asked for. */
  readonly asked: readonly string[]
  /** A token of `someone` for an hour, with other claims where they are given; `undefined` leaves one out. */
  sign(claims?: Claims, header?: Header): Promise<string>
  /** Signs with another key from here on, and forgets the one before. */
  rotate(): Promise<void>
  /** Answers with this status from here on. */
  fail(status: number | undefined): void
  close(): Promise<void>
}

type Json = Readonly<Record<string, unknown>>
type Claims = Readonly<Record<string, unknown>>

interface Header {
  readonly kid?: string
  /** Another key than its own. */
  readonly key?: CryptoKey | Uint8Array
  readonly alg?: string
  readonly typ?: string
}

/** Starts an issuer on loopback that signs with this algorithm. */
export async function startIssuer(alg = 'RS256'): Promise<Issuer> {
  let pair = await generateKeyPair(alg, { extractable: true })
  let kid = 'key-1'
  let jwks: { keys: JWK[] } = { keys: [{ ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' }] }
  let status: number | undefined
  const asked: string[] = []
  const server = createServer((incoming, outgoing) => {
    const path = incoming.url ?? ''
    asked.push(path)
    const documents: Json = {
      '/jwks': jwks,
      '/.well-known/openid-configuration': { issuer: url, jwks_uri: `${url}/jwks` },
    }
    const found = documents[path]
    outgoing.writeHead(status ?? (found ? 200 : 404), {
      'content-type': 'application/json',
      location: `${url}/elsewhere`,
    })
    outgoing.end(JSON.stringify(found ?? {}))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const url = `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}`
  return {
    url,
    jwks: `${url}/jwks`,
    get key() {
      return pair.publicKey
    },
    get kid() {
      return kid
    },
    get fetches() {
      return asked.filter((path) => path === '/jwks').length
    },
    asked,
    sign: (claims = {}, header = {}) => {
      const now = Math.floor(Date.now() / 1000)
      const usual = { iss: url, aud: 'gateway', sub: 'someone', iat: now, exp: now + 3600, ...claims }
      return new SignJWT(usual)
        .setProtectedHeader({
          alg: header.alg ?? alg,
          kid: header.kid ?? kid,
          ...(header.typ && { typ: header.typ }),
        })
        .sign(header.key ?? pair.privateKey)
    },
    rotate: async () => {
      pair = await generateKeyPair(alg, { extractable: true })
      kid = `key-${Number(kid.slice(4)) + 1}`
      jwks = { keys: [{ ...(await exportJWK(pair.publicKey)), kid, alg, use: 'sig' }] }
    },
    fail: (next) => {
      status = next
    },
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}
