import { expect, test } from 'vitest'
import { noProxy } from '../../../src/core/proxy.ts'
import { Secret } from '../../../src/core/text/secret.ts'
import { createUpstream } from '../../../src/upstream/upstream.ts'
import { ownCall } from '../../../src/protocol/lift.ts'
import { serverSettings } from '../../support/server-settings.ts'
import { silentLog } from '../../support/silent-log.ts'

/** A server process that runs a script, without authentication. */
function scripted(script: string, startTimeout: number) {
  const env = { TOKEN: new Secret('a-secret-of-its-own') }
  const reach = { kind: 'command', command: process.execPath, args: ['-e', script], env } as const
  const oauth = {} as Parameters<typeof createUpstream>[1]['oauth']
  const settings = serverSettings({ reach, startTimeout })
  return createUpstream(settings, { variables: process.env, proxies: noProxy, oauth, log: silentLog })
}

test('a server that does not respond is stopped after start_timeout in total', async () => {
  const upstream = scripted("process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)", 2000)
  const start = performance.now()
  await expect(upstream.start(ownCall())).rejects.toThrow('time')
  expect(performance.now() - start).toBeLessThan(3500)
  await upstream.close()
})

test('the last lines of a server that exited are reported without colours and secrets', async () => {
  const script = `
    for (const line of ['one', 'two', '', '\\u001b[31mError:\\u001b[0m no\\u0007 database', 'token is ' + process.env.TOKEN])
      console.error(line)
    process.exitCode = 3`
  const upstream = scripted(script, 20_000)
  await expect(upstream.start(ownCall())).rejects.toThrow('exited with code 3')
  expect(upstream.status.stderr).toEqual([
    'two',
    'Error: no\\u0007 database',
    expect.stringMatching(/^token is \*\*\*|redacted/),
  ])
  expect(upstream.status.problem).not.toContain('database')
  await upstream.close()
})
