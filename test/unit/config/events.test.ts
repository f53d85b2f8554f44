import { describe, expect, test } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import { RELAY_ENDED, RELAY_GAP } from '../../../src/features/events/sources/relayed.ts'
import { WATCHING_BEGAN } from '../../../src/features/events/sources/watches.ts'
import { events } from '../../../src/features/events/events.ts'
import { features } from '../../../src/features/index.ts'
import { LISTENING_BEGAN, LOGGING_BEGAN } from '../../../src/records/logged-events.ts'
import { eventsGateway, namesOf } from '../../support/events-gateway.ts'

const on = 'features:\n  events: on\n'

function load(text: string, env = {}) {
  return loadSettings(text, { file: 'f', env })
}

/** The problems of a configuration, without the file name. */
function problemsIn(text: string, env = {}): string[] {
  try {
    load(text, env)
    return []
  } catch (error) {
    return String(error instanceof Error ? error.message : error)
      .trim()
      .split('\n')
      .map((line) => line.replace(/^.*?f:/, ''))
  }
}

/** A configuration with an event `e` of the server `one`. */
function withEvent(event: string): string {
  return `${on}upstreams:\n  one:\n    url: https://one.example\n    events:\n      ${event}\n`
}

const watch = 'watch: \'list(state="open")\', id: $.id'
const hook = 'hook: { secret: "${S}", form: github }'
const standard = 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='

describe('declared events: settings', () => {
  test('a watch has defaults, and is read with its interval in milliseconds', () => {
    const { settings } = load(
      withEvent(`issue.updated: { ${watch}, every: 5m, changed: $.at, fields: title, scope: read:x }`),
    )
    expect(settings.events.get('one')).toEqual(
      new Map([
        [
          'issue.updated',
          {
            kind: 'watch',
            watch: 'list(state="open")',
            every: 300_000,
            items: '$.result',
            id: '$.id',
            changed: '$.at',
            removed: false,
            fields: ['title'],
            scope: 'read:x',
          },
        ],
      ]),
    )
  })

  test('the secrets of a hook come from the environment, and are never printed', () => {
    const text = withEvent(
      'e: { hook: { secret: ["${S}", "${T}"], form: github }, when: { $.action: opened } }',
    )
    const { settings, warnings } = load(text, { S: 'first-secret', T: 'second-secret' })
    const event = settings.events.get('one')?.get('e')
    expect(event).toMatchObject({ kind: 'hook', form: 'github', when: { '$.action': ['opened'] } })
    expect(event?.kind === 'hook' && event.secrets.map((each) => each.reveal())).toEqual([
      'first-secret',
      'second-secret',
    ])
    expect(JSON.stringify([...(settings.events.get('one') ?? [])])).not.toContain('first-secret')
    expect(warnings).toEqual([])
  })

  test('a secret in the file itself is a warning that does not show it', () => {
    const { warnings } = load(withEvent('e: { hook: { secret: plain-secret, form: stripe } }'))
    expect(warnings.map(({ path }) => path)).toEqual(['upstreams.one.events.e.hook.secret'])
    expect(JSON.stringify(warnings)).not.toContain('plain-secret')
  })

  test('events of no server are at the top of the file', () => {
    const text = `${on}events:\n  e: { watch: one.list(), id: $ }\nupstreams:\n  one: https://one.example\n`
    const { settings } = load(text)
    expect([...(settings.events.get(undefined)?.keys() ?? [])]).toEqual(['e'])
    expect(settings.events.get('one')).toEqual(new Map())
  })
})

describe('settings of events for the gateway as a whole', () => {
  const withSettings = (text: string) =>
    `${on}upstreams:\n  one:\n    url: https://one.example\n    features:\n      events: ${text}\n`
  const problemsOf = (text: string): string[] => {
    try {
      loadSettings(text, { file: 'f', env: {}, features })
      return []
    } catch (error) {
      return String(error instanceof Error ? error.message : error).split('\n')
    }
  }

  test.each(['max_ttl: 1h', 'webhooks: { give_up: 1m }', 'webhooks: {}'])(
    'a server cannot have %s, and the error says where it belongs',
    (setting) => {
      const [key] = setting.split(':')
      expect(problemsOf(withSettings(`{ ${setting} }`))).toEqual([
        expect.stringContaining(
          ` upstreams.one.features.events.${key}: cannot differ between servers: write it as \`features.events.${key}\` at the top level of the file`,
        ),
      ])
    },
  )

  test('a server can have the others, and gets those of the gateway', () => {
    expect(problemsOf(withSettings('{ keep: 1h, writes: all }'))).toEqual([])
    const text = withSettings('{ keep: 1h }').replace('events: on', 'events: { max_ttl: 2h }')
    const { settings } = loadSettings(text, { file: 'f', env: {}, features })
    const own = settings.features[events.name]
    expect(own?.upstreams['one']).toMatchObject({ keep: 3_600_000, max_ttl: 7_200_000 })
  })
})

describe('declared events: names', () => {
  test('those of all events that the gateway has itself, and of the entries in its logs, are refused', async () => {
    const { request } = eventsGateway()
    const list = await request('events/list', {})
    const marks = [RELAY_ENDED, RELAY_GAP, WATCHING_BEGAN, LISTENING_BEGAN, LOGGING_BEGAN]
    const names = [...namesOf(list).map(String), ...marks]
    expect(names).toEqual(expect.arrayContaining(['upstream_up', 'confirmation_pending', 'quota_low']))
    const atTop = (name: string): string =>
      `${on}events:\n  ${name}: { watch: one.list(), id: $ }\nupstreams:\n  one: https://one.example\n`
    const accepted = names.filter((name) =>
      [withEvent(`${name}: { ${watch} }`), atTop(name)].some((text) => {
        const [problem = ''] = problemsIn(text)
        return !problem.includes('and not be that of an event that the gateway has itself')
      }),
    )
    expect(accepted).toEqual([])
  })
})

describe('declared events: problems', () => {
  test.each([
    ['e: { description: x }', '7:7 upstreams.one.events.e: needs `watch` or `hook`'],
    [
      `e: { watch: list(), id: $, ${hook} }`,
      '7:34 upstreams.one.events.e.hook: `watch` is also set: keep one of the two',
    ],
    [
      'e: { watch: list() }',
      '7:7 upstreams.one.events.e: needs `id`, the path of what identifies an item, such as $.id',
    ],
    [`e: { ${watch}, when: { a: b } }`, '7:51 upstreams.one.events.e.when: requires `hook`: remove it'],
    [`e: { ${hook}, every: 60s }`, '7:52 upstreams.one.events.e.every: requires `watch`: remove it'],
    [
      'e: { watch: list, id: $ }',
      '7:19 upstreams.one.events.e.watch: is not a valid call: expected "(" after the name of the tool at character 5; it ends there',
    ],
    [
      'e: { watch: list(a=$.args.a), id: $ }',
      '7:19 upstreams.one.events.e.watch: values must be JSON: there is nothing that a path could refer to',
    ],
    [
      'e: { watch: "list() -> $.result", id: $ }',
      '7:19 upstreams.one.events.e.watch: `->` is not allowed here: write the path under `items`',
    ],
    [`e: { ${watch}, every: 100ms }`, '7:58 upstreams.one.events.e.every: must be from 1s to 24h'],
    [`e: { ${watch}, items: $.args.a }`, '7:58 upstreams.one.events.e.items: must begin with $.result'],
    [
      'e: { watch: list(), id: number }',
      '7:31 upstreams.one.events.e.id: must be a path in an item, such as $.id or $.user.login',
    ],
    [
      'e: { watch: list(), id: "$.a[*]" }',
      '7:31 upstreams.one.events.e.id: must lead to one value, so [*] is not allowed',
    ],
    [
      'e: { hook: { form: github } }',
      '7:12 upstreams.one.events.e.hook: needs `secret`, which must be the secret that the service signs with, and not be empty',
    ],
    [
      'e: { hook: { secret: "${S}", form: gitlab } }',
      '7:42 upstreams.one.events.e.hook.form: must be one of github, stripe, standard; did you mean `github`?',
    ],
    [
      'e: { hook: { secret: "${S}", form: standard } }',
      '7:28 upstreams.one.events.e.hook.secret: must be whsec_ and 24 to 64 bytes in base64, as Standard Webhooks defines secrets',
    ],
    [
      `e: { ${hook}, when: { "$.a[*]": x } }`,
      '7:60 upstreams.one.events.e.when["$.a[*]"]: must be a path such as $.action',
    ],
  ])('%s names the place and the fix', (event, problem) => {
    expect(problemsIn(withEvent(event), { S: 'not-standard' })).toEqual([problem])
  })

  test('a secret of Standard Webhooks is accepted', () => {
    expect(problemsIn(withEvent('e: { hook: { secret: "${S}", form: standard } }'), { S: standard })).toEqual(
      [],
    )
  })

  test.each(['resource_updated', 'add_note.succeeded', '1st', 'a b'])(
    'the name %s is refused: it is that of another event, or cannot be in a path',
    (name) => {
      const [problem] = problemsIn(withEvent(`${name}: { ${watch} }`))
      expect(problem).toContain('the name must be letters, digits')
    },
  )

  test('events without the feature have no effect, which is a problem', () => {
    const declared = withEvent(`e: { ${watch} }`).replace(on, '')
    const without = `features: { events: off }\n${declared}`
    expect(problemsIn(declared)).toEqual([])
    expect(problemsIn(without)).toEqual([
      '5:5 upstreams.one.events: have no effect: events are off for this server; write `features.events: on` under it',
    ])
    expect(problemsIn(`${without}    features: { events: on }\n`)).toEqual([])
    expect(problemsIn(`features: none\n${declared}`)).toHaveLength(1)
  })

  test('a watch of no server names the server of its tool', () => {
    const text = (call: string): string =>
      `${on}events:\n  e: { watch: ${call}, id: $ }\nupstreams:\n  one: https://one.example\n`
    expect(problemsIn(text('one.list()'))).toEqual([])
    expect(problemsIn(text('list()'))).toEqual([
      '4:15 events.e.watch: must begin with the name of a server, as in one.list()',
    ])
    expect(problemsIn(text('two.list()'))).toEqual([
      '4:15 events.e.watch: must begin with the name of a server, as in one.list()',
    ])
  })
})
