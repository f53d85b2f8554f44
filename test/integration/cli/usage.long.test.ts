import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { gatewayProgram, runCommand } from '../../support/gateway-process.ts'
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
  ])('explains itself: %s %s', async (...words) => {
    const { code, stdout, stderr } = await runCommand(words.filter(Boolean))
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/usage/i)
    expect(stdout).toContain('gatehouse')
  })

  test.each([['--version'], ['-v'], ['serve', '--version'], ['tx', 'list', '--version']])(
    'tells its version: %s %s %s',
    async (...words) => {
      const { code, stdout, stderr } = await runCommand(words)
      expect([code, stdout, stderr]).toEqual([0, `gatehouse ${packageFile.version}\n`, ''])
    },
  )
})

describe('wrong usage ends with 2, says what is wrong, and writes nothing to stdout', () => {
  test.each([
    ['a command there is not', ['sevre'], 'sevre'],
    ['an option there is not', ['serve', '--prot', '1'], '--prot'],
    ['a command that is near', ['chekc'], 'did you mean check?'],
    ['an option that is near', ['check', '--confg', 'x'], 'did you mean --config?'],
    ['an action that is near', ['approvals', 'aprove'], 'did you mean approve?'],
    ['an action of transactions', ['tx', 'rolback'], 'did you mean rollback?'],
    ['an action on the store', ['store', 'exprot'], 'did you mean export?'],
    ['an action on the audit log', ['audit', 'verfy'], 'did you mean verify?'],
    ['help on what is near', ['help', 'explian'], 'did you mean explain?'],
    ['a URL with a slip', ['serve', 'htp://127.0.0.1/mcp'], 'write http://'],
    ['a URL with a slip and no command', ['htp://127.0.0.1/mcp'], 'write http://'],
    ['a host without a scheme', ['check', 'localhost:3000/mcp'], 'no scheme'],
    ['an option of another command', ['check', '--port', '1'], '--port'],
    ['a port that is none', ['serve', '--port', 'x'], '--port'],
    ['a port out of range', ['serve', '--port', '65536'], '--port'],
    ['a level there is not', ['serve', '--log-level', 'loud'], '--log-level'],
    ['an option without its value', ['serve', '--config'], '--config'],
    ['help on a command there is not', ['help', 'sevre'], 'sevre'],
    ['a file without --config', ['serve', 'other.yaml'], '--config'],
    ['a server of the file where one is not chosen', ['check', 'files'], '"files" is not a URL'],
    ['a command without --', ['stdio', 'some-server', 'docs'], '-- before a command'],
    ['no command behind --', ['serve', '--'], 'give a command after --'],
    ['a file and a server', ['serve', '--config', 'x.yaml', '--', 'echo'], '--config'],
    ['no server to explain', ['explain'], 'server'],
    ['words init does not take', ['init', 'x'], '--from'],
    ['a file to import that is not there', ['init', '--from', 'nowhere.json'], 'nowhere.json'],
  ])('%s', async (_what, words, named) => {
    const { code, stdout, stderr } = await runCommand(words, { cwd: folder() })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^gatehouse: /)
    expect(stderr).toContain(named)
    expect(stderr).not.toMatch(/\n\s+at /)
  })

  test('a misspelt command is answered with the one that starts a server', async () => {
    expect((await runCommand(['npx', 'some-server'])).stderr).toContain('gatehouse serve -- npx some-server')
  })
})

describe('without a configuration', () => {
  test.each([[[]], [['serve']], [['check']], [['stdio']]])(
    '%j says how to get one, and ends with 1',
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

test('a folder in place of a file is named', async () => {
  const cwd = folder()
  const { code, stdout, stderr } = await runCommand(['check', '--config', cwd], { cwd })
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe(`gatehouse: ${cwd} is a folder. Give the file in it with --config\n`)
})

const older = olderNode()

test('each mistake in a file is a line that says who speaks', async () => {
  const cwd = folder()
  writeFileSync(`${cwd}/gateway.config.yaml`, 'upstreams: { one: { url: nowhere } }\nlisten: { prt: 1 }\n')
  const { code, stderr } = await runCommand(['explain', 'one'], { cwd })
  const lines = stderr.trimEnd().split('\n')
  expect([code, lines.length]).toEqual([1, 2])
  for (const line of lines) expect(line).toMatch(/^gatehouse: \S*gateway\.config\.yaml:[12]:\d+ \S+: /)
})

describe.skipIf(older === undefined)('on a Node.js that is too old', () => {
  test('it says which is needed instead of failing somewhere', async () => {
    const { code, stdout, stderr } = await runCommand(['--version'], {
      program: [older ?? '', gatewayProgram().at(-1) ?? ''],
    })
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toMatch(/^gatehouse needs Node\.js 22\.19 or newer; this is 20\.[\d.]+\.\n$/)
  })
})

/** A Node.js 20 of this machine. */
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
