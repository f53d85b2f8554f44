// An overwrite that needs no question because it can be undone exactly, in a gateway that is killed: the undo is there.
import { existsSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { servedAt, startCommandProcess } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'
import { connectModern } from '../../support/peers/confirming.ts'
import { publishedServer } from '../../support/peers/servers.ts'

/** Stands between a gateway and its server, and keeps the first write, or the answer to it, for itself. */
const between = `
const { spawn } = require('node:child_process')
const { existsSync, writeFileSync } = require('node:fs')
const { createInterface } = require('node:readline')
const [kept, mark, command, ...args] = process.argv.slice(1)
const server = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
let held
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, params } = JSON.parse(line)
  const isFirst = params?.name === 'write_file' && !existsSync(mark)
  if (isFirst) {
    held = id
    writeFileSync(mark, '')
  }
  if (!isFirst || kept === 'answer') server.stdin.write(line + '\\n')
}).on('close', () => server.kill())
createInterface({ input: server.stdout }).on('line', (line) => {
  if (held === undefined || JSON.parse(line).id !== held) process.stdout.write(line + '\\n')
})`

test.each([
  ['before the server gets the call', 'call', 'old'],
  ['before the server answers', 'answer', 'new'],
])('a gateway that is killed %s leaves what undoes the overwrite', async (_when, kept, left) => {
  const home = realpathSync(folder())
  const [mark, path, config] = ['mark', 'a.txt', 'gateway.config.yaml'].map((name) => join(home, name))
  if (mark === undefined || path === undefined || config === undefined) throw new Error('no place')
  writeFileSync(path, 'old')
  const server = publishedServer('@modelcontextprotocol/server-filesystem', home)
  const command = [process.execPath, '--eval', between, kept, mark, ...server]
  const settings = { listen: { port: 0 }, store: join(home, 'store'), upstreams: { files: { command } } }
  writeFileSync(config, JSON.stringify(settings))
  const since = new Date().toISOString()

  const gateway = startCommandProcess(['serve', '--config', config])
  onTestFinished(() => gateway.close())
  const client = await connectModern({ transport: 'http', url: await servedAt(gateway) }, () => {
    throw new Error('a person was asked')
  })
  onTestFinished(() => client.close())
  const lost = client.call('write_file', { path, content: 'new' }).catch(() => 'lost')
  await until(() => existsSync(mark) && readFileSync(path, 'utf8') === left, 'the call at the server')
  gateway.signal('SIGKILL')
  await gateway.ended
  expect(await lost).toBe('lost')

  const undone = await runCommand(['undo', '--config', config, '--since', since, '--yes'])
  expect([undone.stdout, undone.code]).toEqual([expect.stringContaining('write_file'), 0])
  expect(readFileSync(path, 'utf8')).toBe('old')
})
