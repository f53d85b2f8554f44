import { describe, expect, test } from 'vitest'
import { errorCodes, GatewayError, isErrorCode } from '../../../../src/core/error.ts'
import {
  agentBriefing,
  helpOf,
  helpText,
  llmsText,
  sectionKeys,
} from '../../../../src/descriptions/formats/help.ts'
import { fullFront, describedServer, describedServers } from '../../../support/described-server.ts'

const create = {
  name: 'create_issue',
  title: 'Create Issue',
  description: 'Open an issue.',
  inputSchema: {
    type: 'object',
    properties: {
      title: { type: 'string', description: 'What is wrong', minLength: 1, maxLength: 100 },
      kind: { type: 'string', enum: ['bug', 'wish'], default: 'bug' },
      owner: {
        type: 'object',
        properties: { name: { type: 'string' }, deep: { type: 'object', properties: { x: {} } } },
        required: ['name'],
      },
      labels: { type: 'array', items: { type: 'string' }, maxItems: 5 },
      limit: { type: 'integer', minimum: 1 },
    },
    required: ['title'],
  },
  outputSchema: { type: 'object', properties: { number: { type: 'integer' } } },
}
const issues = describedServer({
  tools: [create, { name: 'list_issues', description: 'List issues.' }],
  settings: {
    tools: {
      create_issue: {
        cli: 'gh issue create --title {title}',
        errors: [{ code: 'DUPLICATE', description: 'There is one like it', resolution: 'Take that one' }],
      },
    },
  },
  facts: {
    create_issue: {
      scopes: [['write:issues']],
      rates: ['10/minute'],
      isIdempotentWithKey: true,
      undo: { tool: 'close_issue', isExact: false, description: 'Closes it.' },
      confirmation: { message: 'Open "{title}"?', isOutOfBand: true },
    },
  },
  record: { about: { notFor: ['code reviews'] } },
  front: fullFront,
})

function section(name: unknown, from = issues): string {
  return String(helpOf(from, { section: name })['content'])
}

describe('a single help section', () => {
  test.each([
    ['whenToUse', '## When to Use'],
    ['When to Use', '## When to Use'],
    ['WHEN TO USE', '## When to Use'],
    ['whenNotToUse', '## When to Use'],
    ['rate limits', '## Rate Limits'],
    ['toolReference', '## Tool Reference'],
    ['create_issue', '## create_issue'],
  ])('the section %s can be requested', (name, heading) => {
    expect(section(name).split('\n')[0]).toBe(heading)
  })

  test('a section can be requested as data under its key', () => {
    expect(helpOf(issues, { format: 'json', section: 'when to use' })['sections']).toEqual({
      whenToUse: ['Open an issue', 'List issues'],
      whenNotToUse: ['code reviews'],
    })
  })

  test.each([
    [{ section: 'nonsense' }, 'section', /one of whenToUse, .* or the name of a tool/],
    [{ section: 'create_isue' }, 'section', /Did you mean create_issue\?/],
    [{ section: 7 }, 'section', /section must be one of/],
    [{ format: 'xml' }, 'format', /markdown or json/],
  ])('an unknown section is refused with the list of sections: %j', (asked, field, message) => {
    const refusal = thrown(() => helpOf(issues, asked))
    expect(refusal).toMatchObject({ code: 'INVALID_INPUT', rpc: -32602, isResult: false })
    expect(refusal?.data['field']).toBe(field)
    expect(refusal?.message).toMatch(message)
  })

  test('every section key can be requested', () => {
    for (const key of sectionKeys(issues)) expect(section(key)).toMatch(/^## /)
  })
})

describe('the reference of a tool', () => {
  const text = section('create_issue')

  test('the reference describes each parameter with its constraints', () => {
    expect(text).toContain('- `title` (required, string): What is wrong. Limits: 1 to 100 characters.')
    expect(text).toContain('- `kind` (optional, string): One of `"bug"`, `"wish"`. Default `"bug"`.')
    expect(text).toContain(
      '- `owner` (optional, object)\n  - `name` (required, string)\n  - `deep` (optional, object)\n',
    )
    expect(text).toContain('- `labels` (optional, array of string): Limits: at most 5 items.')
    expect(text).toContain('- `limit` (optional, integer): Limits: at least 1.')
    expect(text).toContain('Returns: `number` (integer).')
  })

  test('the reference states side effects, confirmation, undo, repetition, scopes and limits', () => {
    expect(text).toContain('Side effects: creates an issue in files. Risk: medium.')
    expect(text).toContain('Approval by others is required, on a page: "Open "{title}"?"')
    expect(text).toContain('Undo: Closes it. The previous state is not fully restored.')
    expect(text).toContain('Repeating: only with the same idempotency key')
    expect(text).toContain('Scopes: `write:issues`.')
    expect(text).toContain('Limit: 10/minute.')
    expect(text).toContain('CLI equivalent: `gh issue create --title {title}`')
    expect(text).toContain('- `DUPLICATE`: There is one like it. Take that one.')
    expect(text).not.toContain('API equivalent')
  })
})

test('errors are listed with the codes that are used', () => {
  const { sections } = JSON.parse(
    JSON.stringify(helpOf(issues, { format: 'json', section: 'errorHandling' })),
  )
  for (const { code, rpc } of sections.errorHandling) {
    expect(errorCodes).toContain(code)
    const error = isErrorCode(code) ? new GatewayError(code, '') : undefined
    expect(rpc).toBe(error?.isResult === true ? undefined : error?.rpc)
  }
  const codes = sections.errorHandling.map(({ code }: { code: string }) => code)
  expect(codes).toEqual(
    expect.arrayContaining(['SCOPE_INSUFFICIENT', 'CONFIRMATION_REQUIRED', 'RATE_LIMIT_EXCEEDED']),
  )
  const open = helpOf(describedServer({ tools: [create], facts: {} }), { section: 'errorHandling' })
  expect(String(open['content'])).not.toMatch(/SCOPE_|CONFIRMATION_|RATE_LIMIT|IDEMPOTENCY|AUTHENTICATION/)
})

test('the example of a rate limit is the error that is sent', () => {
  expect(section('rateLimits')).toContain('All calls of one caller: 60/minute and 1000/day.')
  const [, block = '{}'] = /```json\n(.*?)\n```/s.exec(section('rateLimits')) ?? []
  expect(JSON.parse(block)).toMatchObject({
    error: { code: -32003, data: { code: 'RATE_LIMIT_EXCEEDED', retryAfter: 12 } },
  })
})

describe('the help of a server with very many tools', { timeout: 30_000 }, () => {
  const many = (count: number) =>
    describedServer({
      tools: Array.from({ length: count }, (_, at) => ({
        ...create,
        name: `create_item_${at}`,
        description: `${'Word '.repeat(80)}${at}.`,
      })),
    })

  test('the help stays within 200 KB with one line per tool, and each tool is available in full', () => {
    const described = many(600)
    const text = helpText(described)
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(200 * 1024)
    expect(text).toContain('`create_item_599(title, kind?, owner?, labels?, limit?)`')
    expect(Buffer.byteLength(section('toolReference', described))).toBeLessThanOrEqual(200 * 1024)
    expect(section('create_item_599', described)).toContain('- `title` (required, string)')
    expect(JSON.stringify(helpOf(described, { format: 'json' })).length).toBeLessThanOrEqual(200 * 1024)
  })

  test('the help stays within 200 KB even if one line per tool is too much', () => {
    const text = helpText(many(2500))
    expect(Buffer.byteLength(text)).toBeLessThanOrEqual(200 * 1024)
    expect(text).toContain('request one section, or one tool')
  })

  test('the short guide describes twenty tools and names the others', () => {
    const text = llmsText(many(100))
    expect(text.match(/^- `create_item_\d+`: /gm)).toHaveLength(20)
    expect(text).toContain('`create_item_99`')
  })
})

test('the help of several servers states the purpose of each and uses the exposed tool names', () => {
  const all = describedServers([
    { record: { name: 'github', about: { about: 'Code.', notFor: ['local files'] } }, tools: [create] },
    { record: { name: 'notes', isUp: false }, tools: [create] },
  ])
  const text = helpText(all)
  expect(text).toContain('- **github**: Code. Such as: open an issue.')
  expect(text).toContain('- **notes** (currently unavailable)')
  expect(text).toContain('Do NOT use it for:\n\n- Local files')
  expect(text).toContain('### github\\_create_issue'.replace('\\', ''))
  expect(text).not.toContain('notes_create_issue')
})

function thrown(act: () => unknown): GatewayError | undefined {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  return undefined
}

test('what one of several servers is not for is attributed to that server', () => {
  const both = describedServers([
    { record: { name: 'web', about: { notFor: ['local files'] } } },
    { record: { name: 'files' } },
  ])
  expect(helpText(both)).toContain('Do NOT use it for:\n\n- Local files (with web)\n')
  expect(agentBriefing(both)).toContain('Do not choose it for:\n\n- local files (with web)\n')
})
