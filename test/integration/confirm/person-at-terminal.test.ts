import { expect, test } from 'vitest'
import { approveInTerminal, approvingGateway, pageOf, textIn } from '../../support/approving.ts'
import { runCommand } from '../../support/gateway.ts'
import type { Json } from '../../support/server/json.ts'

/** A gateway with the default settings, and a call that waits there for a person. */
async function waiting(rules: Json = {}) {
  const { gateway, call, ran } = await approvingGateway({
    config: { features: { confirm: { approve_by_command: 'terminal' } } },
    rules,
  })
  const asked = await call({ disk: 'a' })
  const id = pageOf(asked).split('/').at(-1) ?? ''
  const again = async () => textIn(await call({ disk: 'a' }))
  return { asked, id, again, ran, words: ['approvals', 'approve', id, '--config', gateway.configFile] }
}

test('what a model reads has no command that approves, and a script cannot approve', async () => {
  const { asked, words, ran, again } = await waiting()
  expect(textIn(asked)).toContain('in a terminal with `gatehouse approvals list')
  expect(JSON.stringify(asked)).not.toMatch(/approvals approve|--typed|--yes/)
  const { code, stdout, stderr } = await runCommand(words)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^gatehouse: a person approves a call: run the command in a terminal/)
  expect(stderr).not.toContain('approve_by_command')
  await again()
  expect(ran).toEqual([])
})

test('in a terminal, the command shows the call and asks for a code', async () => {
  const { id, words, again } = await waiting()
  const wrong = await approveInTerminal(words, { typed: 'yes' })
  expect(wrong).toMatchObject({ code: 1, stdout: '' })
  expect(wrong.stderr).toContain(`${id} was not approved: the code was not typed`)
  const right = await approveInTerminal(words)
  expect(right).toMatchObject({ code: 0, stdout: expect.stringContaining('Approved wipe on disks') })
  expect(right.stderr).toMatch(/tool {7}wipe\n[^]*"disk": "a"/)
  expect(await again()).toBe('wiped')
})

test('a text that a call requires is typed in the terminal in place of the code', async () => {
  const { words, again } = await waiting({ type_to_confirm: 'disk' })
  expect((await approveInTerminal(words, { typed: 'b' })).code).toBe(1)
  expect((await approveInTerminal([...words, '--typed', 'a'], { typed: 'a' })).code).toBe(1)
  expect((await approveInTerminal(words, { typed: 'a' })).code).toBe(0)
  expect(await again()).toBe('wiped')
})

test('a call can be denied without a terminal', async () => {
  const { words } = await waiting()
  expect((await runCommand(words.map((word) => (word === 'approve' ? 'deny' : word)))).code).toBe(0)
})
