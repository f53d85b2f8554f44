import { exportSPKI, generateKeyPair } from 'jose'
import { afterAll, describe, expect, it } from 'vitest'
import { noProxy } from '../../../../src/core/proxy.ts'
import type { JwtSettings } from '../../../../src/core/auth-settings.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { createJwtReader, createKeys } from '../../../../src/downstream/auth/jwt.ts'
import { fetchJson } from '../../../../src/downstream/http/fetch-json.ts'
import { startIssuer } from '../../../support/auth/issuer.ts'

const issuer = await startIssuer()
const elliptic = await startIssuer('ES256')
afterAll(() => Promise.all([issuer.close(), elliptic.close()]))

function reader({
  at = Date.now,
  from = issuer,
  ...more
}: Partial<JwtSettings> & { at?: () => number; from?: typeof issuer } = {}) {
  const settings: JwtSettings = {
    issuer: from.url,
    audiences: [],
    algorithms: ['RS256', 'ES256'],
    requiredClaims: [],
    scopeClaim: 'scope',
    ...more,
  }
  return createJwtReader(
    settings,
    createKeys(() => fetchJson(from.jwks, noProxy), at),
    at,
  )
}

const refusedFor = (reason: string) => ({ code: 'AUTHENTICATION_REQUIRED', extra: { reason } })
const seconds = () => Math.floor(Date.now() / 1000)
const later = (by: number) => () => Date.now() + by * 1000

describe('signed tokens', () => {
  it('C220 RS256 and ES256 tokens are accepted', async () => {
    await expect(reader()(await issuer.sign())).resolves.toMatchObject({ sub: 'someone' })
    const token = await elliptic.sign({ iss: elliptic.url })
    await expect(reader({ from: elliptic })(token)).resolves.toMatchObject({ sub: 'someone' })
  })

  it('C220 a token with an algorithm that is not configured is refused', async () => {
    const read = reader({ algorithms: ['PS256'] })
    await expect(read(await issuer.sign())).rejects.toMatchObject(refusedFor('algorithm'))
  })

  it('C220 a token with base64 padding is refused', async () => {
    const token = await issuer.sign()
    const [header, ...rest] = token.split('.')
    for (const padded of [`${token}=`, `${token}==`, [`${header}=`, ...rest].join('.')])
      await expect(reader()(padded)).rejects.toMatchObject(refusedFor('malformed'))
  })

  it('C220 an unsigned token is refused', async () => {
    const [, payload] = (await issuer.sign()).split('.')
    const header = Buffer.from('{"alg":"none"}').toString('base64url')
    for (const token of [`${header}.${payload}.`, `${header}.${payload}.AAAA`])
      await expect(reader()(token)).rejects.toMatchObject({ code: 'AUTHENTICATION_REQUIRED' })
  })

  it('C220 a token signed with the public key as a shared secret is refused', async () => {
    const text = new TextEncoder().encode(await exportSPKI(issuer.key))
    const token = await issuer.sign({}, { alg: 'HS256', key: text })
    await expect(reader()(token)).rejects.toMatchObject(refusedFor('algorithm'))
  })

  it('C220 a token signed with a shared key is accepted if configured', async () => {
    const shared = 'a shared key of more than 32 characters'
    const token = await issuer.sign({}, { alg: 'HS256', key: new TextEncoder().encode(shared) })
    const read = reader({ algorithms: ['HS256'], secret: new Secret(shared) })
    await expect(read(token)).resolves.toMatchObject({ sub: 'someone' })
    await expect(read(await issuer.sign())).rejects.toMatchObject(refusedFor('algorithm'))
  })

  it('C079 a forged or modified token is refused', async () => {
    const { privateKey } = await generateKeyPair('RS256')
    await expect(reader()(await issuer.sign({}, { key: privateKey }))).rejects.toMatchObject(
      refusedFor('signature'),
    )
    const [header, , signature] = (await issuer.sign()).split('.')
    const [, payload] = (await issuer.sign({ sub: 'somebody-else' })).split('.')
    await expect(reader()(`${header}.${payload}.${signature}`)).rejects.toMatchObject(refusedFor('signature'))
  })

  it('C079 a token truncated at any position is refused', async () => {
    const token = await issuer.sign()
    const read = reader()
    for (let length = 1; length < token.length; length += 37)
      await expect(read(token.slice(0, length))).rejects.toMatchObject({ code: 'AUTHENTICATION_REQUIRED' })
  })

  it('C221 a token with an unknown key id is refused', async () => {
    const token = await issuer.sign({}, { kid: 'made-up' })
    await expect(reader()(token)).rejects.toMatchObject(refusedFor('unknown_key'))
  })

  it('C066 access tokens are accepted and tokens of other types are refused', async () => {
    for (const typ of ['JWT', 'at+jwt', 'application/at+jwt'])
      await expect(reader()(await issuer.sign({}, { typ }))).resolves.toMatchObject({ sub: 'someone' })
    for (const typ of ['logout+jwt', 'dpop+jwt', 'entity-statement+jwt'])
      await expect(reader()(await issuer.sign({}, { typ }))).rejects.toMatchObject(refusedFor('malformed'))
  })

  it('C222 an expired token is refused', async () => {
    await expect(reader({ at: later(3700) })(await issuer.sign())).rejects.toMatchObject({
      code: 'TOKEN_EXPIRED',
      extra: { reason: 'expired' },
    })
  })

  it('C223 a token is refused before its nbf time', async () => {
    const token = await issuer.sign({ nbf: seconds() + 300 })
    await expect(reader()(token)).rejects.toMatchObject(refusedFor('not_yet_valid'))
    await expect(reader()(await issuer.sign({ iat: seconds() + 300 }))).rejects.toMatchObject(
      refusedFor('not_yet_valid'),
    )
  })

  it('C224 a token of another issuer is refused without fetching keys', async () => {
    const before = issuer.fetches
    const token = await issuer.sign({ iss: `${issuer.url}/` })
    await expect(reader()(token)).rejects.toMatchObject(refusedFor('issuer'))
    expect(issuer.fetches).toBe(before)
  })

  it('C226 a clock skew of half a minute is tolerated and of more than a minute is not', async () => {
    const token = await issuer.sign()
    await expect(reader({ at: later(3600 + 25) })(token)).resolves.toMatchObject({ sub: 'someone' })
    await expect(reader({ at: later(3600 + 61) })(token)).rejects.toMatchObject({ code: 'TOKEN_EXPIRED' })
    await expect(reader()(await issuer.sign({ nbf: seconds() + 20 }))).resolves.toMatchObject({
      sub: 'someone',
    })
    await expect(reader()(await issuer.sign({ nbf: seconds() + 61 }))).rejects.toMatchObject(
      refusedFor('not_yet_valid'),
    )
  })

  it.each(['iss', 'aud', 'sub', 'exp', 'iat'])('C227 a token without %s is refused', async (claim) => {
    const token = await issuer.sign({ [claim]: undefined })
    await expect(reader()(token)).rejects.toMatchObject({ code: 'AUTHENTICATION_REQUIRED' })
  })

  it.each(['', 7, null, {}, ['someone']])('C227 a token with an invalid sub is refused: %j', async (sub) => {
    const token = await issuer.sign({ sub, client_id: 'app' })
    await expect(reader()(token)).rejects.toMatchObject(refusedFor('claims'))
  })

  it('C227 a token with an invalid required client_id is refused', async () => {
    const read = reader({ requiredClaims: ['client_id'] })
    for (const client_id of ['', 7, {}])
      await expect(read(await issuer.sign({ client_id }))).rejects.toMatchObject(refusedFor('claims'))
    await expect(read(await issuer.sign({ client_id: 'app' }))).resolves.toMatchObject({ client_id: 'app' })
  })

  it('C227 a token without a claim required by the configuration is refused', async () => {
    const read = reader({ requiredClaims: ['tenant'] })
    await expect(read(await issuer.sign())).rejects.toMatchObject(refusedFor('claims'))
    await expect(read(await issuer.sign({ tenant: 'acme' }))).resolves.toMatchObject({ tenant: 'acme' })
  })
})
