import { describe, expect, test } from 'vitest'
import { ConfigError } from '../../../src/config/problem.ts'
import { loadSettings } from '../../../src/config/load.ts'

const upstreams = { files: 'files-server', 'files-two': 'files-server', github: 'github-server' }

const load = (config: object) =>
  loadSettings(JSON.stringify({ upstreams, store: 'memory', ...config }), { file: 'f.yaml', env: {} })

/** The problems of a configuration, without the name of the file. */
function problems(config: object): string {
  try {
    load(config)
    return ''
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

describe('profiles', () => {
  test.each([
    [
      'an unknown server',
      { servers: ['file'] },
      'profiles.a.servers[0]: no server has this name: did you mean files?',
    ],
    [
      'an unknown server alone',
      { servers: 'zzz' },
      'profiles.a.servers: no server has this name: write one of files',
    ],
    ['one name for two tools', { rename: { files_a: 'x', files_b: 'x' } }, 'is also the name of files_a'],
    [
      'a name of another server',
      { rename: { files_a: 'github_b' } },
      'such names belong to the server github',
    ],
    [
      'a name of a server with the same beginning',
      { rename: { files_a: 'files_two_b' } },
      'belong to the server files-two',
    ],
    ['a tool of no server', { rename: { a: 'b' } }, 'begins with the name of no server of this profile'],
    [
      'a tool of another server',
      { servers: ['files', 'files-two'], rename: { github_a: 'b' } },
      'of no server of this profile',
    ],
    ['a tool of the gateway', { rename: { files_a: 'call_tool' } }, 'is the name of a tool of the gateway'],
    ['a name that clients refuse', { rename: { files_a: 'a b' } }, 'must be a name of at most 64'],
    ['settings of tools', { tools: { files_a: {} } }, 'write `show`, `hide`, `rename` or `describe`'],
    ['a budget that fits nothing', { budget: 5 }, 'must be a number of tokens from 100 on, or off'],
    ['a word for a budget', { budget: 'on' }, 'must be a number of tokens'],
    ['a list', [], 'must be a mapping'],
    ['a server that is null', { servers: [null] }, 'profiles.a.servers[0]'],
    ['a name that is a number', { rename: { files_a: 1 } }, 'must be a name of at most 64'],
  ])('are refused with %s', (_name, profile, message) => {
    expect(problems({ profiles: { a: profile } })).toContain(message)
  })

  test('are kept apart from the profile of the gateway', () => {
    expect(problems({ profiles: 'corporate' })).toContain(
      'the profile of the whole gateway is the key `profile`',
    )
    expect(problems({ profile: 'coding', profiles: { coding: {} } })).toContain('one of open, corporate')
  })

  test('accept names in the namespace of their own server, and swapped ones', () => {
    expect(problems({ profiles: { a: { rename: { files_a: 'files_b', files_b: 'files_a' } } } })).toBe('')
    expect(
      problems({ profiles: { a: { servers: 'github', rename: { create: 'make', github_read: 'get' } } } }),
    ).toBe('')
  })

  test('have all servers, and no search, by default', () => {
    expect(load({ profiles: { a: {} } }).settings.profiles).toEqual([
      { name: 'a', servers: ['files', 'files-two', 'github'], hide: [], rename: {}, describe: {} },
    ])
  })
})

describe('for_models', () => {
  const lists = (config: object) => {
    const { settings } = load(config)
    return {
      repairs: settings.upstreams.map(({ repairsSchemas }) => repairsSchemas === 'auto'),
      budget: settings.lists?.budget,
      profiles: settings.profiles.map((each) => [each.lists?.budget, each.isForModels]),
    }
  }

  test('leaves lists as they are where that is written', () => {
    const schemasOf = (config: object) => load(config).settings.upstreams.map((each) => each.repairsSchemas)
    expect(schemasOf({ for_models: 'on', schemas: 'keep' })).toEqual(['off', 'off', 'off'])
    expect(schemasOf({ profiles: { a: { for_models: 'on' } } })).toEqual([undefined, undefined, undefined])
  })

  test('sets the defaults of all lists', () => {
    expect(lists({ for_models: 'on', profiles: { a: {} } })).toEqual({
      repairs: [true, true, true],
      budget: 20_000,
      profiles: [[20_000, undefined]],
    })
    expect(lists({ profiles: { a: { for_models: 'on' }, b: {} } })).toEqual({
      repairs: [false, false, false],
      budget: undefined,
      profiles: [
        [20_000, true],
        [undefined, undefined],
      ],
    })
  })

  test('gives way to what the file says', () => {
    const given = {
      for_models: 'on',
      schemas: 'keep',
      lists: { budget: 'off' },
      upstreams: { ...upstreams, files: { command: 'x', schemas: 'repair' } },
      profiles: { a: { budget: 500 }, b: { for_models: 'off' }, c: { search: 'off' } },
    }
    expect(lists(given)).toEqual({
      repairs: [true, false, false],
      budget: undefined,
      profiles: [
        [500, undefined],
        [undefined, undefined],
        [undefined, undefined],
      ],
    })
  })
})
