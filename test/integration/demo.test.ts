import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { inRepository, readDocument } from '../support/document.ts'

test('the demo prints what the README shows: one charge, an approved deletion, a refund', async () => {
  const [shown] = readDocument('README.md').blocks('text')
  const program = inRepository('examples/demo/demo.ts')
  const { stdout } = await promisify(execFile)(process.execPath, [program], { cwd: inRepository('.') })
  expect(stdout.trim()).toBe(shown?.trim())
})
