import { expect, test } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { skills } from '../../../../src/features/describing/skills.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { describedServer } from '../../../support/described-server.ts'
import { serverRecord } from '../../../support/server-record.ts'
import { toolCall } from '../../../support/tool-call.ts'

test('the generated skill of a server is available while the server is not, and other skills are not denied', async () => {
  const hub = serverRecord({
    name: 'hub',
    capabilities: { extensions: { 'io.modelcontextprotocol/skills': {} } },
  })
  const deps = featureDeps({
    servers: () => ['hub'],
    description: () => describedServer({ record: { name: 'hub' } }),
    records: () => ({
      names: ['hub'],
      of: () => hub,
      last: () => hub,
      renew: () => undefined,
      onChange: () => undefined,
    }),
    relay: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'It is away.')),
  })
  const get = skills.create(() => ({ listed: true }), deps).builtins?.methods?.['skills/get']
  const ask = async (uri: string) =>
    get?.(
      toolCall({
        method: 'skills/get',
        params: Payload.of({ uri }),
        target: { method: 'skills/get', upstream: 'hub' },
      }),
    )
  const own = await ask('skill://hub/SKILL.md')
  expect(own?.kind === 'result' && own.result.fields.skill).toMatchObject({ uri: 'skill://hub/SKILL.md' })
  await expect(ask('skill://acme/git/SKILL.md')).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
})

test('the list of skills has one page, and any cursor is refused', async () => {
  const deps = featureDeps({ servers: () => [] })
  const list = skills.create(() => ({ listed: true }), deps).builtins?.methods?.['skills/list']
  const params = Payload.of({ cursor: 'x' })
  const call = toolCall({ method: 'skills/list', params, target: { method: 'skills/list' } })
  await expect(list?.(call)).rejects.toMatchObject({ code: 'INVALID_INPUT' })
})
