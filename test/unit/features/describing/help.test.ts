import { expect, test } from 'vitest'
import { Payload } from '../../../../src/core/payload.ts'
import { help } from '../../../../src/features/describing/guides.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { describedServer } from '../../../support/described-server.ts'
import { toolCall } from '../../../support/tool-call.ts'

const described = describedServer({ tools: [{ name: 'get_it' }, { name: 'getIt' }] })

test('a help response is cached once for all spellings of its section', async () => {
  const keys = new Set<string>()
  const deps = featureDeps({
    description: () => described,
    document: (from, key, make) => {
      const made = make(from)
      keys.add(key)
      return made
    },
  })
  const answer = help.create(() => ({ public: false }), deps).builtins?.methods?.['ai_help']
  const ask = (section: unknown) =>
    answer?.(toolCall({ method: 'ai_help', params: Payload.of({ section }), target: { method: 'ai_help' } }))
  for (const section of ['quickReference', 'Quick Reference', `QUICK${'_'.repeat(9000)}reference`])
    await ask(section)
  expect(keys.size).toBe(1)
  for (const name of ['get_it', 'getIt']) await ask(name)
  expect(keys.size).toBe(3)
  await expect(ask('GETIT')).rejects.toMatchObject({ code: 'INVALID_INPUT' })
  await ask(undefined)
  expect(keys.size).toBe(4)
})
