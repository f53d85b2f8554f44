// What Redis demands of its clients: the permissions of a user, as documented, and certificates.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { Secret } from '../../../src/core/text/secret.ts'
import { RedisStore } from '../../../src/store/redis/store.ts'
import { freePort } from '../../support/child-process.ts'
import { until } from '../../support/condition.ts'
import { folder } from '../../support/journey.ts'
import { redisNode, type RedisNode } from '../../support/redis-fleet.ts'
import { needs } from '../../support/needs.ts'
import { needsRedis, REDIS } from '../../support/redis-server.ts'
import { silentLog } from '../../support/silent-log.ts'

const manual = readFileSync(join(import.meta.dirname, '../../../docs/operating.md'), 'utf8')
/** The rule of the manual for the user of a store in one server. */
const rule = /^user gatehouse on >PASSWORD (.*)$/m.exec(manual)?.[1] ?? ''

async function node(...lines: string[]): Promise<RedisNode> {
  const redis = await redisNode(lines)
  onTestFinished(async () => {
    await redis.kill()
    redis.remove()
  })
  return redis
}

async function opened(url: string): Promise<RedisStore> {
  const store = new RedisStore(new Secret(url), silentLog)
  onTestFinished(() => store.close())
  await store.opened()
  return store
}

/** What is used after a second of silence, ten seconds after a watch, and where there is a replica. */
const later = ['ping', 'unsubscribe', 'wait']

/** Does everything that a store does. */
async function useAll(store: RedisStore): Promise<void> {
  let changes = 0
  onTestFinished(store.watch('operation:it/1', () => void changes++))
  await until(() => changes > 0, 'the watch to begin')
  await store.setIfAbsent('operation:it/1', 'a', 60_000)
  await until(() => changes > 1, 'the change')
  expect(await store.compareAndSwap('operation:it/1', 'a', 'b', 60_000)).toBe(true)
  expect(await store.setIfAbsent('call:it', 'a', 60_000)).toBeUndefined()
  await store.put('approval/1', 'a', 10)
  await pause(20)
  await store.put('approval/2', 'a', 60_000)
  expect((await store.scan('approval')).size).toBe(1)
  expect(await store.compareAndDelete('operation:it/1', 'b')).toBe(true)
  expect(await store.delete('approval/2')).toBe(true)
  const window = { key: 'rate:{it}:a', limit: 1, window: 60_000 }
  expect(await store.takeTokens([window])).toMatchObject({ isGranted: true })
  await store.takeTokens([{ ...window, isReturn: true }])
  await store.takeTokens([window])
  const keys: string[] = []
  for await (const { key } of store.entries()) keys.push(key)
  expect(keys).toEqual(['call:it'])
  expect(await store.windows('rate:')).toEqual([window.key])
  await store.deleteWindows([window.key])
  expect(await store.describe()).toHaveProperty('memory')
  expect(await store.weaknesses()).toEqual([])
  expect(store.unavailableReason).toBeUndefined()
}

describe('a user of Redis', needsRedis, () => {
  it('with the rule of the manual may do everything, and nothing that is not needed', async () => {
    const redis = await node('appendonly yes', 'appendfsync always')
    expect(await redis.tell(`ACL SETUSER gatehouse on >secret ${rule}`)).toBe('+OK\r\n')
    const store = await opened(`redis://gatehouse:secret@127.0.0.1:${redis.port}/1?replicas=0`)
    await redis.tell('CONFIG RESETSTAT')
    await useAll(store)
    const denied = [...(await redis.tell('ACL LOG')).matchAll(/object\r\n\$\d+\r\n(\S+)/g)].map(
      ([, name]) => name,
    )
    expect(denied).toEqual(['config|get'])
    const stats = await redis.tell('INFO commandstats')
    const permitted = rule.split(' ').flatMap((word) => (word.startsWith('+') ? [word.slice(1)] : []))
    const unused = permitted.filter((name) => !new RegExp(`^cmdstat_${name}:calls=[1-9]`, 'm').test(stats))
    expect(unused.filter((name) => !later.includes(name))).toEqual([])
    expect(permitted).toEqual(expect.arrayContaining(later))
  })

  it('that may not wait for a replica is named as a weakness, and serves unless it has to wait', async () => {
    const redis = await node('appendonly yes', 'appendfsync always', 'repl-diskless-sync-delay 0')
    await node(`replicaof 127.0.0.1 ${redis.port}`)
    await redis.tell(`ACL SETUSER gatehouse on >secret ${rule} +config|get -wait`)
    await until(async () => (await redis.tell('INFO replication')).includes('state=online'), 'the replica')
    const url = `redis://gatehouse:secret@127.0.0.1:${redis.port}`
    const store = await opened(url)
    expect(await store.setIfAbsent('call:it', 'a', 60_000)).toBeUndefined()
    expect(store.unavailableReason).toBeUndefined()
    expect(await store.weaknesses()).toContainEqual(expect.stringContaining('`+wait`'))
    const strict = await opened(`${url}?replicas=1`)
    expect(strict.unavailableReason).toContain('`+wait`')
    const claim = strict.setIfAbsent('call:other', 'a', 60_000)
    await expect(claim).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  })
})

const OPENSSL = '/usr/bin/openssl'

describe('a Redis with TLS', needs(REDIS, { program: OPENSSL, get: 'apt-get install openssl' }), () => {
  it('gets the client certificate that it demands, and is checked against the given authority', async () => {
    const path = folder()
    const [cert, key] = [join(path, 'cert.pem'), join(path, 'key.pem')]
    const name = ['-subj', '/CN=redis', '-addext', 'subjectAltName=IP:127.0.0.1']
    const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
    const request = ['req', '-x509', ...kind, ...name, '-keyout', key, '-out', cert]
    execFileSync(OPENSSL, request, { stdio: 'ignore' })
    const port = await freePort()
    const files = `tls-ca-cert-file=${cert}&tls-cert-file=${cert}&tls-key-file=${key}`
    await node(`tls-port ${port}`, ...files.split('&').map((line) => line.replace('=', ' ')))
    const url = `rediss://127.0.0.1:${port}/`
    const store = await opened(`${url}?${files}`)
    await store.put('session:it', 'x', 60_000)
    expect(await store.get('session:it')).toBe('x')
    const refused = [
      await opened(url),
      await opened(`${url}?tls-ca-cert-file=${cert}`),
      await opened(`${url}?${files.replaceAll('key.pem', 'gone.pem')}`),
    ]
    expect(refused.map(({ unavailableReason }) => unavailableReason)).toEqual([
      expect.stringContaining('self-signed'),
      expect.stringMatching(/certificate|closed/i),
      expect.stringContaining('ENOENT'),
    ])
  })
})
