import { expect, it, onTestFinished, vi } from 'vitest'
import { Child, LastLines } from '../../../../src/upstream/transport/child.ts'
import { stdioConnect } from '../../../../src/upstream/transport/stdio.ts'
import { until } from '../../../support/condition.ts'
import { silentLog } from '../../../support/silent-log.ts'

it.each([
  ['input', 'fs.closeSync(0)'],
  ['output', 'fs.closeSync(1)'],
])(
  'a process that closes its %s and lives on is stopped, and its connection is closed',
  async (pipe, close) => {
    const lastLines = new LastLines((text) => text)
    const script = `${close}; console.error(process.pid); setInterval(() => {}, 1000)`
    const reach = { kind: 'command', command: process.execPath, args: ['-e', script], env: {} } as const
    const closed: string[] = []
    const ignore = (): void => undefined
    const transport = await stdioConnect(reach, process.env, { log: silentLog, lastLines })({
      receive: ignore,
      spool: () => undefined,
      isWaiting: () => false,
      reject: ignore,
      closed: ({ message }) => void closed.push(message),
      sessionLost: ignore,
    })
    const pid = Number(await until(() => lastLines.all[0], 'the process'))
    await until(() => {
      transport.send('{}', {})?.catch(ignore)
      return closed.length > 0
    }, 'the end of the connection')
    expect(closed).toEqual([`The server closed its ${pipe}, though its process has not ended.`])
    await until(() => !isRunning(pid), 'the end of the process')
  },
)

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it('a process that may not be signalled is left alone once its input is closed', async () => {
  const script = 'setInterval(() => {}, 1000)'
  const reach = { kind: 'command', command: process.execPath, args: ['-e', script], env: {} } as const
  const child = await Child.start(reach, process.env)
  const refused = vi.spyOn(process, 'kill').mockImplementation(() => {
    throw Object.assign(new Error('kill EPERM'), { code: 'EPERM' })
  })
  onTestFinished(() => refused.mockRestore())
  await child.stop()
  expect([child.hasEnded, refused.mock.calls.map(([, signal]) => signal)]).toEqual([
    false,
    ['SIGTERM', 'SIGTERM', 'SIGKILL', 'SIGKILL'],
  ])
  refused.mockRestore()
  child.kill('SIGKILL')
  expect(await child.ended).toBe('was terminated by SIGKILL')
})
