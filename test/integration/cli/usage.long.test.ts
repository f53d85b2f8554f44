import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { gatewayProgram, runCommandProcess } from '../../support/gateway-process.ts'
import { runCommand } from '../../support/gateway.ts'
import { folder } from '../../support/journey.ts'

const packageFile = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
  version: string
}

describe('every command', () => {
  test.each([
    ['--help'],
    ['-h'],
    ['help'],
    ['serve', '--help'],
    ['stdio', '-h'],
    ['check', '--help'],
    ['explain', '--help'],
    ['plan', '--help'],
    ['init', '--help'],
    ['help', 'init'],
  ])('prints its help: %s %s', async (...words) => {
    const { code, stdout, stderr } = await runCommand(words.filter(Boolean))
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/usage/i)
    expect(stdout).toContain('gatehouse')
  })

  test.each([['--version'], ['-v'], ['serve', '--version'], ['tx', 'list', '--version']])(
    'prints its version: %s %s %s',
    async (...words) => {
      const { code, stdout, stderr } = await runCommand(words)
      expect([code, stdout, stderr]).toEqual([0, `gatehouse ${packageFile.version}\n`, ''])
    },
  )
})

describe('wrong usage exits with 2, names the mistake, and writes nothing to stdout', () => {
  test.each([
    ['an unknown command', ['sevre'], 'sevre'],
    ['an unknown option', ['serve', '--prot', '1'], '--prot'],
    ['a misspelt command', ['chekc'], 'did you mean check?'],
    ['a misspelt option', ['check', '--confg', 'x'], 'did you mean --config?'],
    ['a misspelt action', ['approvals', 'aprove'], 'did you mean approve?'],
    ['a misspelt tx action', ['tx', 'rolback'], 'did you mean rollback?'],
    ['a misspelt store action', ['store', 'exprot'], 'did you mean export?'],
    ['a misspelt audit action', ['audit', 'verfy'], 'did you mean verify?'],
    ['help on a misspelt command', ['help', 'explian'], 'did you mean explain?'],
    ['a URL with a typo', ['serve', 'htp://127.0.0.1/mcp'], 'write http://'],
    ['a URL with a typo and no command', ['htp://127.0.0.1/mcp'], 'write http://'],
    ['a host without a scheme', ['check', 'localhost:3000/mcp'], 'no scheme'],
    ['an option of another command', ['check', '--port', '1'], '--port'],
    ['an invalid port', ['serve', '--port', 'x'], '--port'],
    ['a port out of range', ['serve', '--port', '65536'], '--port'],
    ['an unknown log level', ['serve', '--log-level', 'loud'], '--log-level'],
    ['an option without its value', ['serve', '--config'], '--config'],
    ['help on an unknown command', ['help', 'sevre'], 'sevre'],
    ['a file without --config', ['serve', 'other.yaml'], '--config'],
    ['a server name instead of a URL', ['check', 'files'], '"files" is not a URL'],
    ['a command without --', ['stdio', 'some-server', 'docs'], '-- before a command'],
    ['no command after --', ['serve', '--'], 'give a command after --'],
    ['a file and a server', ['serve', '--config', 'x.yaml', '--', 'echo'], '--config'],
    ['no server to explain', ['explain'], 'server'],
    ['unexpected arguments of init', ['init', 'x'], '--from'],
    ['a missing file to import', ['init', '--from', 'nowhere.json'], 'nowhere.json'],
  ])('%s', async (_what, words, named) => {
    const { code, stdout, stderr } = await runCommand(words, { cwd: folder() })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^gatehouse: /)
    expect(stderr).toContain(named)
    expect(stderr).not.toMatch(/\n\s+at /)
  })

  test('a misspelt command is answered with the command that starts a server', async () => {
    expect((await runCommand(['npx', 'some-server'])).stderr).toContain('gatehouse serve -- npx some-server')
  })
})

describe('without a configuration', () => {
  test.each([[[]], [['serve']], [['check']], [['stdio']]])(
    '%j prints how to create one, and exits with 1',
    async (words) => {
      const { code, stdout, stderr } = await runCommand(words, { cwd: folder() })
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).toContain('gateway.config.yaml')
      expect(stderr).toContain('gatehouse init')
    },
  )
})

test.each(['/dev/zero', 'pipe'])('a configuration in %s, which never ends, is refused', async (name) => {
  const cwd = folder()
  execFileSync('sh', ['-c', 'mkfifo "$0"', `${cwd}/pipe`])
  const { code, stdout, stderr } = await runCommand(['check', '--config', name], { cwd })
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^gatehouse: \/\S+ cannot be read: it is not a regular file\n$/)
})

test('a folder instead of a file is named in the error', async () => {
  const cwd = folder()
  const { code, stdout, stderr } = await runCommand(['check', '--config', cwd], { cwd })
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe(`gatehouse: ${cwd} is a folder. Give the file in it with --config\n`)
})

const older = olderNode()

test('each mistake in a file is one line with the prefix "gatehouse:"', async () => {
  const cwd = folder()
  writeFileSync(`${cwd}/gateway.config.yaml`, 'upstreams: { one: { url: nowhere } }\nlisten: { prt: 1 }\n')
  const { code, stderr } = await runCommand(['explain', 'one'], { cwd })
  const lines = stderr.trimEnd().split('\n')
  expect([code, lines.length]).toEqual([1, 2])
  for (const line of lines) expect(line).toMatch(/^gatehouse: \S*gateway\.config\.yaml:[12]:\d+ \S+: /)
})

describe.skipIf(older === undefined)('on a Node.js that is too old', () => {
  test('the command names the required version instead of failing elsewhere', async () => {
    const { code, stdout, stderr } = await runCommandProcess(['--version'], {
      program: [older ?? '', gatewayProgram().at(-1) ?? ''],
    })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^gatehouse needs Node\.js 22\.19 or newer; this is 20\.[\d.]+\.\n$/)
  })
})

/** A Node.js 20 binary of this machine. */
function olderNode(): string | undefined {
  return ['/usr/local/bin/node', '/usr/bin/node', '/bin/node'].find((path) => {
    try {
      return execFileSync(path, ['--version'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
      }).startsWith('v20.')
    } catch {
      return false
    }
  })
}
