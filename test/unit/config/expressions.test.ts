import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'

/** The problems of the settings of the tool `t`, without the file name. */
function problemsOf(tool: string): string[] {
  const text = `upstreams:\n  one:\n    url: https://one.example\n    tools:\n      t:\n${tool}\n`
  try {
    loadSettings(text, { file: 'f', env: {} })
    return []
  } catch (error) {
    return String(error instanceof Error ? error.message : error)
      .trim()
      .split('\n')
      .map((line) => line.replace(/^.*?f:/, ''))
  }
}

describe('undo and verify expressions', () => {
  test.each([
    'undo: drop(id=$.result.id)',
    'undo: none',
    'undo: { call: drop(id=$.args.id), exact: false, description: Drop it }',
    'undo: { snapshot: read(a=$.args.a), restore: "write(a=$.args.a, b=$.snapshot.b, c=$.result.c)" }',
    'undo: { snapshot: read(a=$.args.a), restore: write(a=$.args.a), absent: none }',
    'undo: { snapshot: read(a=$.args.a), restore: write(a=$.args.a), absent: drop(a=$.args.a) }',
    'verify: list(title=$.args.title) -> $.result.items[0]',
  ])('%s is accepted', (line) => {
    expect(problemsOf(`        ${line}`)).toEqual([])
  })

  test.each([
    [
      'undo: drop',
      '6:15 upstreams.one.tools.t.undo: is not a valid call: expected "(" after the name of the tool at character 5; it ends there',
    ],
    [
      'undo: drop(id=$.res.id)',
      '6:15 upstreams.one.tools.t.undo: is not a valid call: expected a path that begins with $.args, $.result or $.snapshot at character 9; there is "$.res.id)"',
    ],
    [
      'undo: drop(id=$.snapshot.id)',
      '6:15 upstreams.one.tools.t.undo: $.snapshot is not available here: paths begin with $.args or $.result',
    ],
    [
      'undo: drop() -> $.result.id',
      '6:15 upstreams.one.tools.t.undo: `->` is not allowed here: remove it and the path after it',
    ],
    ['undo: { description: x }', '6:9 upstreams.one.tools.t.undo: needs `call`, or `snapshot` and `restore`'],
    [
      'undo: { call: a(), restore: b() }',
      '6:9 upstreams.one.tools.t.undo: has `call` and `restore`: keep one of the two',
    ],
    [
      'undo: { call: a(), snapshot: b() }',
      '6:28 upstreams.one.tools.t.undo.snapshot: requires `restore`: remove it',
    ],
    [
      'undo: { restore: b() }',
      '6:9 upstreams.one.tools.t.undo: needs `snapshot`, which reads what `restore` writes back',
    ],
    [
      'undo: { snapshot: a(x=$.result.x), restore: b() }',
      '6:27 upstreams.one.tools.t.undo.snapshot: $.result is not available here: paths begin with $.args',
    ],
    [
      'undo: { snapshot: a(), restore: b(), absent: "c(x=$.snapshot.x)" }',
      '6:54 upstreams.one.tools.t.undo.absent: $.snapshot is not available here: paths begin with $.args or $.result',
    ],
    [
      'verify: list(title=$.args.title)',
      '6:17 upstreams.one.tools.t.verify: must select what the result contains if the call took effect, such as -> $.result.items[0]',
    ],
    [
      'verify: list(title=$.result.title) -> $.result',
      '6:17 upstreams.one.tools.t.verify: $.result is not available here: paths begin with $.args',
    ],
    [
      'verify: list() -> $.args.x',
      '6:17 upstreams.one.tools.t.verify: must select what the result contains if the call took effect, such as -> $.result.items[0]',
    ],
  ])('%s is refused with line and column', (line, problem) => {
    expect(problemsOf(`        ${line}`)).toEqual([problem])
  })
})
