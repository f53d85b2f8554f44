import { expect, test } from 'vitest'
import { agentBriefing, agentPrompt, helpText } from '../../../../src/descriptions/formats/help.ts'
import { authNotice, headersNotice, versionNotice } from '../../../../src/descriptions/sections/sections.ts'
import { valueHeaders } from '../../../../src/protocol/meta-keys.ts'
import { fullFront, describedServer } from '../../../support/described-server.ts'

const tools = [{ name: 'get_thing' }, { name: 'delete_thing' }]
const full = describedServer({ tools, front: fullFront, record: { about: { notFor: ['anything urgent'] } } })

test('use://auth states the profile, the ways to sign in and the claims', () => {
  const text = authNotice(full)
  expect(text).toContain('Profile: corporate.')
  expect(text).toContain('`Authorization: Bearer <token>`')
  expect(text).toContain('- `scope`: the scopes of the caller.')
  expect(text).toContain('https://idp.example.com')
  expect(text).toContain('`delete:server`')
  expect(authNotice(describedServer({ tools }))).toContain('No credentials are required.')
  expect(authNotice(describedServer({ tools }))).not.toContain('delete:server')
})

test('use://http-headers names the headers beyond the protocol and where they are read', () => {
  expect(headersNotice(full)).toMatch(
    /Additional headers[^]*X-Request-Id[^]*Idempotency-Key[^]*X-MCP-Session-Token/,
  )
  expect(headersNotice(describedServer())).not.toMatch(/X-MCP-Session-Token|Idempotency-Key|X-MCP-Dry-Run/)
})

test('use://http-headers names every header that carries a value for a feature', () => {
  const text = headersNotice(full).toLowerCase()
  expect(valueHeaders.length).toBeGreaterThan(2)
  for (const header of valueHeaders) expect(text).toContain(`\`${header}\``)
})

test('project://version is only the version', () => {
  expect(versionNotice(full)).toBe(fullFront.version)
})

test('the briefing states when to choose the server, when not to, and its limits', () => {
  expect(agentBriefing(full)).toBe(
    [
      'files: Tools for files: things.',
      'Choose it when the user asks to:\n\n- get thing\n- delete thing',
      'Do not choose it for:\n\n- anything urgent',
      'Limits:\n\n- It can destroy or overwrite: `delete_thing`.\n- Confirmation is required before `delete_thing`.\n- At most 60/minute and 1000/day for each caller.\n- Callers need a token; some tools require scopes.\n- A request may be 1 MB.\n- Calls that time out may still take effect.\n- Every call is recorded in an audit log.',
      'Tools: `get_thing` and `delete_thing`.',
    ].join('\n\n'),
  )
})

test('the instructions cover repetition, confirmation, undo and each tool', () => {
  const undo = { tool: 'restore_thing', isExact: true, description: 'Restores it.' }
  const confirmation = { message: 'Sure?', isOutOfBand: false }
  const facts = { delete_thing: { undo, confirmation, isIdempotentWithKey: true } }
  const text = agentPrompt(describedServer({ tools, facts, front: fullFront }))
  expect(text).toContain('idempotency key')
  expect(text).toContain('Confirmation is required for `delete_thing`.')
  expect(text).toContain('`delete_thing` can be undone.')
  expect(text).toContain('Undo: Restores it.')
  expect(text).toMatch(/## Answers[^]*never as instructions[^]*## Tools[^]*### get_thing[^]*### delete_thing/)
})

test.each([
  ['listed', 'call `resume_operation`'],
  ['hidden', 'the unlisted tool `resume_operation`'],
  ['off', 'the method `operation/resume`'],
] as const)(
  'the instructions say how to get the result of a long call if built-in tools are %s',
  (ownTools, said) => {
    const front = { ...fullFront, ownTools }
    expect(agentPrompt(describedServer({ tools, front }))).not.toContain('long call')
    const extensions = ['progress_notifications'] as const
    expect(agentPrompt(describedServer({ tools, front: { ...front, extensions } }))).toContain(said)
  },
)

test.each([
  ['listed', 'Read parts of it with `read_reference`.'],
  ['hidden', 'Read parts of it with `read_reference`.'],
  ['off', 'Read it with `resources/read`.'],
] as const)('the instructions say how to use a reference if built-in tools are %s', (ownTools, said) => {
  const front = { ...fullFront, ownTools }
  expect(agentPrompt(describedServer({ tools, front }))).not.toContain('ref://')
  const on = { ...front, extensions: ['data_references'] } as const
  expect(agentPrompt(describedServer({ tools, front: on }))).toContain(
    'send exactly this text as an argument',
  )
  expect(agentPrompt(describedServer({ tools, front: on }))).toContain(said)
  expect(agentPrompt(describedServer({ tools: [], front: on }))).not.toContain('ref://')
})

test.each([
  [0, true],
  [20_000, false],
])('a tool whose calls become tasks after %i ms: that it is at once, is said: %s', (taskAfter, isSaid) => {
  const facts = { get_thing: { longCalls: { taskAfter, keep: 600_000 } } }
  const settings = { tools: { get_thing: { latency: 'minutes' } } } as const
  const text = agentPrompt(describedServer({ tools, facts, settings }))
  expect(text.includes('A client that supports tasks gets a task at once.')).toBe(isSaid)
})

test('texts for agents stay within their size limit in any script', () => {
  const many = Array.from({ length: 600 }, (_, at) => ({
    name: `get_${'名'.repeat(60)}_${at}`,
    description: `${'説明'.repeat(70)}。`,
  }))
  const about = { about: '道具'.repeat(300), useWhen: ['用'.repeat(300)], notFor: ['否'.repeat(300)] }
  const large = describedServer({ tools: many, record: { about }, front: fullFront })
  expect(Buffer.byteLength(agentBriefing(large))).toBeLessThanOrEqual(2048)
  expect(Buffer.byteLength(agentPrompt(large))).toBeLessThanOrEqual(200 * 1024)
  expect(Buffer.byteLength(helpText(large))).toBeLessThanOrEqual(200 * 1024)
})
