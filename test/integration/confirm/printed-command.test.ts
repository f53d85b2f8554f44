import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test, onTestFinished } from 'vitest'
import { until } from '../../support/condition.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type Command, startCommand } from '../../support/gateway.ts'
import { splitCommand } from '../../../src/core/text/command-line.ts'
import { approveInTerminal } from '../../support/approving.ts'
import { folder } from '../../support/journey.ts'

const require = createRequire(import.meta.url)
const server = require.resolve('@modelcontextprotocol/server-filesystem/dist/index.js')

/** A line of a gateway for its client, once it is there. */
function lineWith(gateway: Command, text: string): Promise<string> {
  const find = () =>
    gateway
      .stdout()
      .split('\n')
      .find((line) => line.includes(text) && line.endsWith('}'))
  return until(find, text)
}

test.each(['a configuration file', 'a command'])(
  'the command that a stdio gateway for %s prints works verbatim from another folder',
  async (front) => {
    const place = folder()
    const target = join(place, 'target.txt')
    const config = join(place, 'a b.yaml')
    const words = [process.execPath, server, place]
    writeFileSync(config, JSON.stringify({ upstreams: { files: { command: words } } }))
    const args = front === 'a command' ? ['--', ...words] : ['--config', config]
    const env = { XDG_STATE_HOME: folder() }
    const gateway = startCommand(['stdio', ...args], { env })
    onTestFinished(() => gateway.close())
    const clientInfo = { name: 'test', version: '1' }
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
    gateway.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params })}\n`)
    await until(() => gateway.stdout().includes('"id":1'), 'the handshake')
    gateway.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`)
    const call = { name: 'write_file', arguments: { path: target, content: 'written' } }
    const message = { method: 'tools/call', params: { ...call, _meta: { progressToken: 'p' } } }
    gateway.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, ...message })}\n`)
    const asked = await lineWith(gateway, 'notifications/progress')
    expect(asked).not.toContain('gatehouse approvals')
    const printed = /run gatehouse (approvals list.*) in a terminal, and enter the code (\S+)/.exec(
      gateway.stderr(),
    )
    const [, command = 'none', code = 'none'] = printed ?? []
    const program = gatewayProgram()
      .map((word) => `'${word}'`)
      .join(' ')
    const script = `${program} ${command}`
    const listed = await promisify(execFile)('sh', ['-c', script], {
      cwd: folder(),
      env: { ...process.env, ...env },
    })
    const id = /^(\w+) {2}pending.*write_file on/m.exec(listed.stdout)?.[1] ?? 'none'
    // The command that the list shows, with the words of the configuration or the store.
    const shown = /gatehouse (approvals approve ID.*), or deny/.exec(listed.stdout)?.[1] ?? 'none'
    const split = splitCommand(shown.replace('ID', id))
    const approving = 'words' in split ? split.words : []
    expect(await approveInTerminal(approving, { typed: [code], cwd: folder(), env })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Approved write_file'),
    })
    await lineWith(gateway, '"id":2')
    expect(readFileSync(target, 'utf8')).toBe('written')
    gateway.stdin.end()
    await Promise.race([gateway.ended, once(gateway.stdin, 'close')])
  },
)
