import { describe, expect, test } from 'vitest'
import { fromArguments } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { features } from './features.ts'

describe('settings from the command line', () => {
  test('the words of a command are taken unchanged', () => {
    const settings = fromArguments(['npx', '-y', '@modelcontextprotocol/server-filesystem', 'a b|c'], {
      directory: '/srv/here',
      features,
    })
    expect(settings.upstreams).toMatchObject([
      {
        name: 'filesystem',
        reach: {
          kind: 'command',
          command: 'npx',
          args: ['-y', '@modelcontextprotocol/server-filesystem', 'a b|c'],
          cwd: '/srv/here',
        },
        trust: true,
      },
    ])
    expect(settings).not.toHaveProperty('file')
  })

  test('a single word that is a whole command line is split', () => {
    const [upstream] = fromArguments(["npx -y some 'a b'"], { features }).upstreams
    expect(upstream).toMatchObject({ name: 'some', reach: { args: ['-y', 'some', 'a b'] } })
  })

  test('a URL is accepted', () => {
    const [upstream] = fromArguments(['https://mcp.example.com/mcp'], { features }).upstreams
    expect(upstream).toMatchObject({
      name: 'example',
      reach: { kind: 'url' },
      trust: false,
      startTimeout: 30_000,
    })
  })

  test('every feature has its defaults', () => {
    const settings = fromArguments(['x'], { features, listen: { port: 0 } })
    expect(settings.listen).toMatchObject({ host: '127.0.0.1', port: 0, body: 1_048_576 })
    expect(settings.features).toMatchObject({ limits: { common: { timeout: 30_000 } }, confirm: {} })
  })

  test.each([
    [[], 'give a URL'],
    [['https://a', 'https://b'], 'a URL must be the only argument'],
    [['http://'], 'the URL is not valid'],
    [['https://u:p@h'], 'must not contain a user and password'],
    [['a | b'], 'needs a shell'],
  ])('the arguments %j are refused', (words, expected) => {
    expect(() => fromArguments(words, { features })).toThrow(expected)
    expect(() => fromArguments(words, { features })).toThrow(ConfigError)
  })

  test('the listener is not reachable from other hosts', () => {
    expect(() => fromArguments(['x'], { features, listen: { host: '0.0.0.0' } })).toThrow('auth: none')
  })
})
