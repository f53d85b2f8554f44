import { describe, expect, it } from 'vitest'
import { type Command, namesIn, parse, UsageError } from '../../../src/cli/command.ts'
import { groups } from '../../../src/cli/command-groups.ts'
import { commands, names } from '../../../src/cli/commands.ts'
import { candidates } from '../../../src/cli/completion.ts'
import { helpOf, overview, withManual } from '../../../src/cli/help.ts'
import { readDocument } from '../../support/document.ts'

const all: Readonly<Record<string, Command>> = commands
const given = (line: string): Readonly<Record<string, unknown>> => {
  const [name = '', ...words] = line.split(' ')
  return parse(name, words, commands)[1]
}

describe('the commands', () => {
  it('of a group read an option of one name alike, since its words are split before the command is known', () => {
    for (const [name, command] of Object.entries(all)) {
      const others = namesIn(name.split(' ')[0] ?? '', all).map((other) => all[other]?.options ?? {})
      for (const [option, { value, short, dashed }] of Object.entries(command.options)) {
        const same = others.flatMap((options) => options[option] ?? [])
        const kinds = same.map((each) => [each.value === undefined, each.short, each.dashed])
        const kind = [value === undefined, short, dashed]
        expect({ name, option, kinds }).toEqual({ name, option, kinds: same.map(() => kind) })
      }
      const letters = new Map(
        others.flatMap((options) =>
          Object.entries(options).flatMap(([option, { short }]) => (short ? [[option, short] as const] : [])),
        ),
      )
      expect([...new Set(letters.values())]).toHaveLength(letters.size)
    }
  })

  it('have no option and argument under one name', () => {
    const camelCase = (name: string): string =>
      name.replaceAll(/-(.)/g, (_all, letter: string) => letter.toUpperCase())
    for (const [name, command] of Object.entries(all)) {
      const keys = [...Object.keys(command.options).map(camelCase), ...Object.keys(command.arguments)]
      expect({ name, keys }).toEqual({ name, keys: [...new Set(keys)] })
    }
  })
})

describe('a command line', () => {
  it('is read as its command declares it, whatever the order of options and words', () => {
    const expected = { id: 'x', principal: 'ada', json: true, reason: 'why', config: 'a.yaml' }
    for (const line of [
      'tx rollback x --principal ada --json --reason why -c a.yaml',
      'tx --json --principal=ada -c a.yaml rollback --reason=why x',
    ])
      expect(given(line)).toMatchObject(expected)
  })

  it('has the last value of an option that is given twice, and all of one that may be repeated', () => {
    expect(given('tx list --principal a --principal b')).toMatchObject({ principal: 'b' })
    expect(given('plan --pack a --pack b')).toMatchObject({ pack: ['a', 'b'] })
  })

  it('names a server, a URL, or behind -- a command with its own options', () => {
    expect(given('explain files read')).toMatchObject({ server: { name: 'files' }, tool: 'read' })
    expect(given('explain http://a.example/mcp read')).toMatchObject({
      server: { words: ['http://a.example/mcp'] },
      tool: 'read',
    })
    expect(given('explain read --json -- node server.js --json=x')).toMatchObject({
      server: { words: ['node', 'server.js', '--json=x'] },
      tool: 'read',
      json: true,
    })
    expect(given('plan')).toMatchObject({ server: undefined })
  })

  it('may have a name that begins with a hyphen', () => {
    expect(given('ops cancel -abcdefghij12345 --json')).toMatchObject({
      name: '-abcdefghij12345',
      json: true,
    })
    expect(given('ops show -- -x')).toMatchObject({ name: '-x' })
  })

  it.each([
    ['tx', 'use gatehouse tx list, show, rollback or ack'],
    ['tx shwo x', 'did you mean show?'],
    ['tx show', 'show needs the id of a transaction'],
    ['tx show x y', 'unexpected argument "y": give one transaction at a time'],
    ['tx show x --reason y', '--reason is not an option of tx show'],
    ['tx list --principl x', "Unknown option '--principl'; did you mean --principal?"],
    ['tx list --principal', "Option '--principal <value>' argument missing"],
    ['tx list --json=yes', "Option '--json' does not take an argument"],
    ['serve --log-level loud', '--log-level must be one of debug, info, warn, error'],
    ['serve --port 1.5', '--port must be a number from 0 to 65535'],
    ['record files', '--output is required: the recording; only its owner can read it'],
    ['completion bsh', 'SHELL must be one of bash, zsh, fish; did you mean bash?'],
    ['call files', 'give a tool of files'],
    ['call', 'give a server of the configuration'],
    ['test --', 'give a command after --'],
  ])('%s is wrong usage: %s', (line, message) => {
    expect(() => given(line)).toThrow(UsageError)
    expect(() => given(line)).toThrow(message)
  })
})

describe('the texts of commands', () => {
  it('are in the manual as they are; npm run docs writes it', () => {
    const { text } = readDocument('docs/usage.md')
    expect(withManual(text)).toBe(text)
  })

  it('fit into lines of 120 characters', () => {
    const lines = [overview(), ...names.map(helpOf)].join('\n').split('\n')
    expect(lines.filter((line) => line.length > 120)).toEqual([])
  })

  it.each(names)('name every option and every command of %s', (name) => {
    const help = helpOf(name)
    for (const each of namesIn(name, all)) {
      expect(help).toContain(each)
      for (const [option, { isIgnored }] of Object.entries(all[each]?.options ?? {}))
        if (!isIgnored) expect(help).toContain(`--${option}`)
    }
  })

  it('of groups belong to commands', () => {
    expect(Object.keys(groups).filter((name) => namesIn(name, all).length === 0)).toEqual([])
  })

  it('name --json for every command that prints data', () => {
    const without = Object.keys(all).filter((name) => !Object.hasOwn(all[name]?.options ?? {}, 'json'))
    expect(without).toEqual(['serve', 'stdio', 'init', 'record', 'completion'])
  })
})

describe('what a word can be', () => {
  const words = (...line: string[]): unknown => {
    const found = candidates(line)
    return found === 'files' ? found : found.map(({ word }) => word)
  }

  it.each<[readonly string[], unknown]>([
    [['che'], ['check']],
    [['help', 'app'], ['approvals']],
    [
      ['tx', ''],
      ['list', 'show', 'rollback', 'ack'],
    ],
    [['tx', '--json', 'ro'], ['rollback']],
    [['events', 's'], ['subscriptions']],
    [['events', 'subscriptions', ''], ['drop']],
    [['tx', 'show', '--p'], ['--principal']],
    [['tx', 'show', '--rea'], []],
    [['tx', 'rollback', '--rea'], ['--reason']],
    [['serve', '--log-level', 'w'], ['warn']],
    [['--log-level=e'], ['error']],
    [['check', '--config', ''], 'files'],
    [['check', '-c', 'x'], 'files'],
    [['verify', ''], 'files'],
    [['audit', 'verify', 'one', ''], 'files'],
    [['diff', 'one', ''], 'files'],
    [['diff', 'one', 'two', ''], []],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['explain', 'files', '--', 'node', ''], 'files'],
    [['serve', '--hel'], ['--help']],
    [['store', 'info', '--f'], []],
  ])('%j', (line, expected) => {
    expect(words(...line)).toEqual(expected)
  })
})
