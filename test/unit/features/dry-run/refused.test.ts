import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import type { Handler } from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { dryRunGuard } from '../../../../src/features/dry-run/dry-run.ts'
import { ownCall } from '../../../../src/protocol/lift.ts'
import { featureDeps } from '../../../support/feature-deps.ts'

const guard = dryRunGuard({ method: 'tools/call' }, featureDeps({ isOn: () => false }))

describe('where the feature dry_run is off', () => {
  const made: unknown[] = []
  const server: Handler = async ({ meta }) => {
    made.push(meta)
    return { kind: 'result', result: Payload.of({}) }
  }
  const call = (meta: Record<string, unknown>) => {
    const params = Payload.of({ name: 'write', arguments: {}, _meta: meta })
    return guard?.(server)(ownCall({ method: 'tools/call', params, meta }))
  }

  it.each([[{ 'dev.gatehouse/dry_run': true }], [{ dry_run: true }]])('%j is refused', async (meta) => {
    await expect(call(meta)).rejects.toMatchObject({ code: 'UNSUPPORTED_OPERATION' })
    expect(made).toEqual([])
  })

  it('a value that is no boolean is refused', async () => {
    await expect(call({ 'dev.gatehouse/dry_run': 1 })).rejects.toMatchObject({ code: 'INVALID_INPUT' })
    expect(made).toEqual([])
  })

  it('other calls are made, without the value', async () => {
    await call({ 'dev.gatehouse/dry_run': false, other: 1 })
    expect(made).toEqual([{ other: 1 }])
  })

  it.each([[{ features: 'none' }], [{ features: { dry_run: 'off' } }]])(
    'a sandbox is a mistake of the configuration: %j',
    (features) => {
      const files = { command: 'node files.js', sandbox: 'on' }
      const configOf = (config: object) => JSON.stringify(config)
      const load = (text: string) => loadSettings(text, { file: 'gateway.config.yaml', env: {} })
      for (const config of [
        { ...features, upstreams: { files } },
        { upstreams: { files: { ...files, ...features } } },
      ])
        expect(() => load(configOf(config))).toThrow(/sandbox: requires the feature `dry_run`/)
      expect(load(configOf({ upstreams: { files } })).settings.upstreams[0]?.isSandbox).toBe(true)
    },
  )
})
