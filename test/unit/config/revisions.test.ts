import { expect, test } from 'vitest'
import { fileSchema } from '../../../src/config/schema.ts'
import { revisionNames } from '../../../src/core/revisions.ts'

test('a server can be pinned to exactly the supported revisions', () => {
  expect(JSON.stringify(fileSchema([]))).toContain(JSON.stringify(['follow', 'auto', ...revisionNames]))
})
