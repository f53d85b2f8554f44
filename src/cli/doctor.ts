/** `gatehouse doctor`: prints what `gateway/doctor.ts` finds on the way to each server. */
import { type DoctorStep, doctorSteps } from '../gateway/doctor.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import type { Io } from './io.ts'
import { type Output, tableLines } from './output.ts'
import { readableLog, readOnlySettings, readServers, withGateway } from './source.ts'

/** `gatehouse doctor [SERVER]`: exit code 1 if a step of a server failed. */
export async function doctor(given: Given<typeof commands.doctor>, io: Io): Promise<Output> {
  const { source, servers } = readServers(given, io)
  const settings = readOnlySettings(source.settings, servers)
  return withGateway(settings, { io, log: readableLog(io, given.logLevel) }, async (gateway) => {
    const found = await Promise.all(
      servers.map(async (server) => ({ server: server.name, steps: await doctorSteps(server, gateway, io) })),
    )
    const hasFailed = found.some(({ steps }) => steps.some(({ state }) => state === 'failed'))
    return {
      json: { ok: !hasFailed, servers: found },
      text: found.map(textOf).join('\n\n'),
      code: hasFailed ? 1 : 0,
    }
  })
}

function textOf({
  server,
  steps,
}: {
  readonly server: string
  readonly steps: readonly DoctorStep[]
}): string {
  const rows = steps.flatMap(({ step, state, note, fix, duration_ms: ms }) => [
    [`  ${state === 'failed' ? 'FAILED' : state}`, step, `${note}${ms === undefined ? '' : ` (${ms} ms)`}`],
    ...(fix === undefined ? [] : [['', '', `-> ${fix}`]]),
  ])
  return [server, ...tableLines(rows)].join('\n')
}
