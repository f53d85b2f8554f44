import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { approvalLine, approvalText, decidedLine } from '../../../src/cli/approvals.ts'
import { run } from '../../../src/cli/run.ts'
import type { Approval } from '../../../src/records/approvals.ts'
import { memoryIo } from '../../support/memory-io.ts'

const at = Date.UTC(2026, 10, 21, 12)
const approval: Approval = {
  id: '00112233445566778899aabbccddeeff',
  kind: 'out_of_band',
  caller: 'token:agent',
  upstream: 'files',
  tool: 'delete_file',
  arguments: { path: '/srv/a' },
  digest: 'sha256:1',
  risk: 'destructive',
  message: 'Delete /srv/a?\nFor good.',
  typed: '/srv/a',
  createdAt: at,
  expiresAt: at + 60_000,
  needed: 2,
  approvers: ['anna', 'bert'],
  decisions: [{ by: 'anna', via: 'password', verdict: 'approved', at, reason: 'spare' }],
  status: 'pending',
}

it('the text of an approval contains every field', () => {
  expect(approvalText({ ...approval, sent: '{"path":"/srv/a","path":"/srv/a"}' })).toBe(
    `approval   00112233445566778899aabbccddeeff
status     pending
message    Delete /srv/a?
           For good.
tool       delete_file
server     files
risk       destructive
caller     token:agent
expires    2026-11-21 12:01:00 UTC
approvals  1 of 2, by anna, bert
to type    /srv/a
arguments
  {
    "path": "/srv/a"
  }
arguments as sent (differ from the parsed values)
  {"path":"/srv/a","path":"/srv/a"}
approved   by anna (password), 2026-11-21 12:00:00 UTC: spare`,
  )
})

it('shows what the call would change, and text of several lines by its lines', () => {
  const change = {
    kind: 'difference',
    lines: ['content, line 1:', '- a\u001b[2J', '+ b'],
    notUndone: 'it is large',
    at,
  } as const
  const shown = approvalText({ ...approval, arguments: { content: 'b\n\u202ec' }, change })
  expect(shown).toContain(
    String.raw`
This call cannot be undone: it is large.
What would change, as read at 2026-11-21T12:00:00.000Z
  content, line 1:
  - a\u001b[2J
  + b
arguments
  {
    "content": 2 lines
      | b
      | \u202ec
  }
`.trimEnd(),
  )
})

it('control characters and line breaks of a call never reach the terminal', () => {
  const hostile = '\u001b]0;title\u0007\u202e\nrisk       safe\r'
  const shown = `${approvalText({
    ...approval,
    tool: hostile,
    caller: hostile,
    arguments: { [hostile]: hostile },
    decisions: [{ by: hostile, via: 'token', verdict: 'denied', at, reason: hostile }],
  })}\n${approvalLine({ ...approval, tool: hostile })}`
  for (const character of ['\u001b', '\u0007', '\u202e', '\r']) expect(shown).not.toContain(character)
  expect(shown).not.toMatch(/^risk {7}safe/m)
})

it('the line about a decision states its effect', () => {
  expect(decidedLine(approval, 'approved')).toContain(': 1 of 2.')
  expect(decidedLine({ ...approval, status: 'approved' }, 'approved')).toContain(
    'The call runs once: now if it waits for this, otherwise when it is repeated.',
  )
  expect(decidedLine({ ...approval, status: 'approved', mustRepeat: true }, 'approved')).toContain(
    'No client waits for it: it runs once, when the client makes the same call again.',
  )
  expect(decidedLine({ ...approval, status: 'denied' }, 'denied')).toMatch(/^Denied delete_file on files/)
})

it('a call that no client waits for any more is listed with what approving it does not do', () => {
  const left = { ...approval, mustRepeat: true } as const
  const note = 'approving it does not run it: the client has to make the same call again'
  for (const text of [approvalLine(left), approvalText(left)]) expect(text).toContain(note)
  for (const text of [approvalLine(approval), approvalText(approval)]) expect(text).not.toContain(note)
})

it('in a folder without a configuration, the advice is to name that of the gateway', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  const io = memoryIo({ cwd })
  expect(await run(['approvals', 'list'], io)).toBe(1)
  expect(io.written.stderr).toContain(
    `${join(cwd, 'gateway.config.yaml')} does not exist. Name the file of the gateway with --config FILE, or the folder of its store with --store`,
  )
})
