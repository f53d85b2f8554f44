import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished, test } from 'vitest'
import { run } from '../../../src/cli/run.ts'
import { until } from '../../support/condition.ts'
import { memoryIo } from '../../support/memory-io.ts'

test('a .env file that changes while the gateway starts is noticed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const config = join(folder, 'gateway.config.yaml')
  writeFileSync(
    config,
    'store: memory\nupstreams: {one: {url: "http://127.0.0.1:9/mcp", about: "${PLACE:-nowhere}"}}\n',
  )
  const io = memoryIo()
  const changing = {
    ...io,
    // Once the configuration is read.
    untilStopped: () => {
      writeFileSync(join(folder, '.env'), 'PLACE=here\n')
      return io.untilStopped()
    },
  }
  const ended = run(['serve', '--config', config, '--port', '0'], changing)
  onTestFinished(async () => {
    io.stop()
    await ended
  })
  await until(() => io.written.stderr.includes('"event":"config.reloaded"'), 'the reload')
})
