import { expect, test } from 'vitest'
import { fileSchema } from '../../../src/config/schema.ts'
import { revisionNames } from '../../../src/protocol/revisions.ts'

test('the revisions a server can be pinned to are those there are', () => {
  expect(JSON.stringify(fileSchema([]))).toContain(JSON.stringify(['follow', 'auto', ...revisionNames]))
})
