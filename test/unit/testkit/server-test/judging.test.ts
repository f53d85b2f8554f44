import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import { leakIn } from '../../../../src/testkit/server-test/examples.ts'
import { outputProblems, structuredTextProblem } from '../../../../src/testkit/server-test/tool-test.ts'
import { Results } from '../../../../src/testkit/server-test/results.ts'
import { scoreOf, weights } from '../../../../src/testkit/server-test/server-test.ts'
import { callProblems, promptProblems, readProblems } from '../../../../src/testkit/server-test/shapes.ts'

const latest = '2025-11-25'

describe('the form of results', () => {
  it.each([
    [{ content: [{ type: 'text', text: 'a' }] }, []],
    [{ content: [], isError: true, structuredContent: {} }, []],
    [{ content: 'a' }, ['content is not a list']],
    [{ content: [{ type: 'text' }] }, ['content[0].text is missing or malformed']],
    [
      { content: [{ type: 'image', data: '%', mimeType: 'a/b' }] },
      ['content[0].data is missing or malformed'],
    ],
    [
      { content: [{ type: 'resource', resource: { uri: 'a:b' } }] },
      ['content[0].resource has neither text nor blob'],
    ],
    [{ content: [{ type: 'video' }] }, [`content[0].type is "video", which ${latest} does not have`]],
    [{ content: [], isError: 'yes' }, ['isError is not a boolean']],
    [{ content: [], structuredContent: [] }, ['structuredContent is not an object']],
  ])('of calls: %j', (result, problems) => {
    expect(callProblems(result, latest)).toEqual(problems)
  })

  it('depends on the revision', () => {
    const audio = { content: [{ type: 'audio', data: 'YQ==', mimeType: 'a/b' }] }
    expect(callProblems(audio, latest)).toEqual([])
    expect(callProblems(audio, '2024-11-05')).toHaveLength(1)
    expect(callProblems({ content: [], structuredContent: [] }, '2026-07-28')).toEqual([])
  })

  it('of prompts and resources', () => {
    const content = { type: 'text', text: 'a' }
    expect(promptProblems({ messages: [{ role: 'user', content }] }, latest)).toEqual([])
    expect(promptProblems({ messages: [{ role: 'system', content }] }, latest)).toEqual([
      'messages[0].role is neither user nor assistant',
    ])
    expect(readProblems({ contents: [{ uri: 'a:b', text: '' }] })).toEqual([])
    expect(readProblems({ contents: [{ blob: '%' }] })).toEqual([
      'contents[0] has no uri',
      'contents[0].blob is not base64',
    ])
  })
})

describe('structured results', () => {
  it.each([
    ['{"a": 1}', { a: 1 }, true],
    ['[1]', { result: [1] }, true],
    ['{"b": 2}', { result: '{"b": 2}' }, true],
    ['plain words', { a: 1 }, true],
    ['{"a": 2}', { a: 1 }, false],
    ['[]', { a: 1, b: 2 }, false],
  ])('%s is the text of %j: %s', (text, structuredContent, isSame) => {
    const problem = structuredTextProblem({ content: [{ type: 'text', text }], structuredContent })
    expect(problem === undefined).toBe(isSame)
  })

  it('have to fit the output schema, and to be there', () => {
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
    expect(outputProblems({ structuredContent: { a: 1 } }, schema)).toEqual([])
    expect(outputProblems({ structuredContent: { a: '1' } }, schema)).toEqual([
      'structuredContent.a must be integer',
    ])
    expect(outputProblems({}, schema)).toHaveLength(1)
  })
})

describe('leakIn', () => {
  const redactor = new Redactor()
  redactor.learn(['configured-secret-1'])

  it.each([
    ['no such file /srv/private/notes.db', 'a path'],
    ['connect ECONNREFUSED 10.1.2.3:5432', 'a host'],
    ['postgres://user:hunter2secret@example.com/db', 'a connection string'],
    ['wrong key configured-secret-1', 'a secret of the configuration'],
    ['bad\n    at read (/app/index.js:3:4)', 'a stack trace'],
  ])('finds in %j %s, and does not repeat it', (text, what) => {
    const found = leakIn(text, { arguments: { path: 'a.txt' } }, redactor)
    expect(found).toMatch(new RegExp(`^${what}: `))
    expect(found).not.toMatch(/srv|10\.1|hunter2|configured-secret|index\.js/)
  })

  it('permits what the caller sent, and plain text', () => {
    expect(
      leakIn('no such file /etc/passwd', { arguments: { path: '/etc/passwd' } }, redactor),
    ).toBeUndefined()
    expect(leakIn('days must be integer', {}, redactor)).toBeUndefined()
  })
})

describe('the score', () => {
  it('counts each subject once in its area, and leaves out what was skipped', () => {
    const results = new Results((text) => text.replace('hidden', '***'))
    for (let at = 0; at < 10; at++) results.add('results', 'tool/a', `a${at}`, { status: 'failed' })
    results.add('results', 'tool/b', 'b', { status: 'passed' })
    results.add('errors', 'tool/b', 'c', { status: 'passed' })
    results.add('protocol', 'ping', 'd', { status: 'skipped' })
    results.add('latency', 'tool/a', 'e', { status: 'failed' })
    expect(scoreOf(results.all)).toEqual({ total: 66, areas: { results: 50, errors: 100 } })
    expect(scoreOf([])).toEqual({ total: null, areas: {} })
  })

  it('has the weights of its document', () => {
    const document = readFileSync(new URL('../../../../docs/server-tests.md', import.meta.url), 'utf8')
    const rows = [...document.matchAll(/^\| `(\w+)` \| (\d+) \|$/gm)].map(([, area, weight]) => [
      area,
      Number(weight),
    ])
    expect(Object.fromEntries(rows)).toEqual(weights)
    expect(Object.values(weights).reduce((sum, each) => sum + each, 0)).toBe(100)
  })

  it('gives results with the same id different ones', () => {
    const results = new Results((text) => text.replace('hidden', '***'))
    results.add('results', 'a', 'same', { status: 'passed' })
    results.add('results', 'a', 'same', { status: 'passed' })
    expect(results.all.map(({ test_id }) => test_id)).toEqual(['same', 'same#2'])
  })

  it('has neither names nor messages with secrets', () => {
    const results = new Results((text) => text.replace('hidden', '***'))
    results.about('tool/hidden').judge('results', 'hidden', ['it has hidden'])
    expect(results.all).toMatchObject([
      { subject: 'tool/***', test_id: 'tool/***/hidden', message: 'it has ***' },
    ])
  })
})
