import { expect, it } from 'vitest'
import { type ApprovalRequest, Approvals, approvalView } from '../../../src/records/approvals.ts'
import { MemoryStore } from '../../../src/store/memory.ts'

it('data outside of the arguments is marked in the spelling of JSON', async () => {
  const data = { path: 'file', written: 'ref://r1', server: 'one', name: 'a', type: 'text/plain', size: 1 }
  const draft: ApprovalRequest = {
    kind: 'page',
    caller: 'agent',
    upstream: 'files',
    tool: 'send_file',
    arguments: { file: '/tmp/a', text: 'b' },
    data: [
      { ...data, sha256: 'a', isOutside: true },
      { ...data, sha256: 'b', path: 'text' },
    ],
    digest: 'd1',
    risk: 'destructive',
    message: 'Send it?',
    needed: 1,
    approvers: [],
    ttl: 300_000,
  }
  const { approval } = await new Approvals(new MemoryStore(), Date.now).request(draft)
  expect(approvalView(approval)['references']).toEqual([
    { ...data, sha256: 'a', is_outside: true },
    { ...data, sha256: 'b', path: 'text' },
  ])
})
