import { expect, test } from 'vitest'
import { approveInTerminal, approvingGateway, pageOf, textIn } from '../../support/approving.ts'
import { runCommand } from '../../support/gateway.ts'
import type { Json } from '../../support/server/json.ts'

/** A gateway with the default settings, and a call that waits there for a person. */
async function waiting(rules: Json = {}) {
  const { gateway, call, ran, code } = await approvingGateway({
    config: { features: { confirm: { approve_by_command: 'terminal' } } },
    rules,
  })
  const asked = await call({ disk: 'a' })
  const id = pageOf(asked).split('/').at(-1) ?? ''
  const again = async () => textIn(await call({ disk: 'a' }))
  return { asked, id, code, again, ran, words: ['approvals', 'approve', id, '--config', gateway.configFile] }
}

test('what a model reads has neither the command nor the code, and a script cannot approve', async () => {
  const { asked, code, words, ran, again } = await waiting()
  expect(textIn(asked)).toContain('Approve or deny it at http://')
  expect(JSON.stringify(asked)).not.toMatch(/gatehouse approvals|--typed|--yes/)
  expect(JSON.stringify(asked)).not.toContain(code)
  const { code: exitCode, stdout, stderr } = await runCommand(words)
  expect([exitCode, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^gatehouse: a person approves a call: run the command in a terminal/)
  expect(stderr).not.toContain('approve_by_command')
  await again()
  expect(ran).toEqual([])
})

test('in a terminal, the command shows the call and asks for the code that the gateway printed', async () => {
  const { id, code, words, again } = await waiting()
  const wrong = await approveInTerminal(words, { typed: ['ABCD-EFGH'] })
  expect(wrong).toMatchObject({ code: 1, stdout: '' })
  expect(wrong.stderr).toContain(`${id} was not approved: this is not the code`)
  expect(wrong.stderr).not.toContain(code)
  const right = await approveInTerminal(words, { typed: [code.toLowerCase()] })
  expect(right).toMatchObject({ code: 0, stdout: expect.stringContaining('Approved wipe on disks') })
  expect(right.stderr).toMatch(/tool {7}wipe\n[^]*"disk": "a"/)
  expect(await again()).toBe('wiped')
})

test('a text that a call requires is typed in the terminal before the code', async () => {
  const { code, words, again } = await waiting({ type_to_confirm: 'disk' })
  expect((await approveInTerminal(words, { typed: ['b'] })).code).toBe(1)
  expect((await approveInTerminal([...words, '--typed', 'a'], { typed: ['a'] })).code).toBe(1)
  expect((await approveInTerminal(words, { typed: ['a', code] })).code).toBe(0)
  expect(await again()).toBe('wiped')
})

test('a call can be denied without a terminal', async () => {
  const { words } = await waiting()
  expect((await runCommand(words.map((word) => (word === 'approve' ? 'deny' : word)))).code).toBe(0)
})
