import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { needsRedis, redisReply } from '../../support/redis-server.ts'

const module = fileURLToPath(new URL('../../support/redis-server.ts', import.meta.url))
const program = `
  const { startRedis } = await import(${JSON.stringify(module)})
  console.log(new URL((await startRedis()).url).port)
`

test('a Redis server of a process that is ended by SIGTERM ends with it', needsRedis, async () => {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: 'pipe' })
  const exit = once(child, 'exit')
  const [first] = (await once(child.stdout, 'data')) as [Buffer]
  const port = Number(first.toString())
  expect(await redisReply(port, 'PING')).toContain('PONG')
  child.kill()
  expect(await exit).toEqual([null, 'SIGTERM'])
  await until(async () => (await redisReply(port, 'PING')) === undefined, 'the server to end')
})
