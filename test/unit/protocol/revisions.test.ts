import { expect, it } from 'vitest'
import { findRevision, negotiate, revisionNames } from '../../../src/core/revisions.ts'

it('the draft before the first revision is spoken with clients that request it, like that revision', () => {
  const draft = negotiate('2024-10-07')
  expect(draft.name).toBe('2024-10-07')
  expect({ ...draft, name: '2024-11-05' }).toEqual(findRevision('2024-11-05'))
})

it('the draft before the first revision is not announced', () => {
  expect(revisionNames).not.toContain('2024-10-07')
})
