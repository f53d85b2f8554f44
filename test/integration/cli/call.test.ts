// `gatehouse call` as a user runs it, in front of published servers.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startCommandProcess } from '../../support/gateway-process.ts'
import { type Finished, runCommand } from '../../support/gateway.ts'
import { publishedServer } from '../../support/peers/servers.ts'

const root = mkdtempSync(join(tmpdir(), 'gatehouse-call-'))
const data = join(root, 'data')
const config = join(root, 'gateway.config.yaml')
const files = publishedServer('@modelcontextprotocol/server-filesystem', data)

beforeAll(() => {
  mkdirSync(data)
  const tools = { write_file: { confirm: 'Write {path}?' } }
  const upstreams = { files: { command: files, revision: '2025-11-25', tools }, gone: '/nowhere/at-all' }
  writeFileSync(
    config,
    JSON.stringify({ store: join(root, 'store'), observe: { audit: join(root, 'audit.jsonl') }, upstreams }),
  )
})
afterAll(() => rmSync(root, { recursive: true, force: true }))

function call(...words: string[]): Promise<Finished> {
  return runCommand(['call', ...words, '--config', config])
}

function inData(name: string): string {
  return join(data, name)
}

describe('gatehouse call', () => {
  it('tries a call without making it', async () => {
    const tried = await call('files', 'write_file', `path=${inData('a.txt')}`, 'content=5', '--dry-run')
    expect(tried).toMatchObject({ code: 0, stderr: '' })
    expect(tried.stdout).toContain('Dry run. Nothing was done.')
    expect(tried.stdout).toContain('"content":"5"')
    expect(existsSync(inData('a.txt'))).toBe(false)
  })

  it('refuses a call that needs a confirmation where no person can be asked', async () => {
    const refused = await call('files', 'write_file', `path=${inData('b.txt')}`, 'content=x')
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toContain(`needs a confirmation: Write ${inData('b.txt')}?`)
    expect(refused.stderr).toContain('--yes')
    expect(existsSync(inData('b.txt'))).toBe(false)
  })

  it('makes a call once for one key, and is in the audit log', async () => {
    const words = ['files', 'write_file', `path=${inData('c.txt')}`, 'content=once', '--yes', '--key', 'c1']
    expect(await call(...words)).toMatchObject({ code: 0, stderr: '' })
    writeFileSync(inData('c.txt'), 'changed since')
    const repeated = await call(...words, '--json')
    expect(JSON.parse(repeated.stdout)).toMatchObject({
      idempotency: { was_replay: true },
    })
    expect(readFileSync(inData('c.txt'), 'utf8')).toBe('changed since')
    const tried = await call(...words, '--dry-run', '--json')
    expect(JSON.parse(tried.stdout)).toMatchObject({
      _meta: { 'dev.gatehouse/dry_run': { would_run: false, idempotency: { outcome: 'would_replay' } } },
    })
    const lines = readFileSync(join(root, 'audit.jsonl'), 'utf8')
    expect(lines).toMatch(/"tool":"write_file".*"outcome":"dry_run","dry_run":"caller"/)
    expect(lines).toContain('"replayed":true')
  })

  it.each([
    ['JSON', async () => call('files', 'read_text_file', JSON.stringify({ path: inData('d.txt') }))],
    ['a file', async () => call('files', 'read_text_file', `@${join(root, 'given.json')}`)],
    ['words', async () => call('files', 'read_text_file', `path=${inData('d.txt')}`, 'head=1')],
    [
      'standard input',
      async () => {
        const command = startCommandProcess(['call', 'files', 'read_text_file', '-', '--config', config])
        command.stdin.end(JSON.stringify({ path: inData('d.txt') }))
        return command.ended
      },
    ],
    [
      'words, for a command line',
      async () => runCommand(['call', 'read_text_file', `path=${inData('d.txt')}`, '--', ...files]),
    ],
  ])('takes arguments as %s', async (_title, run) => {
    writeFileSync(inData('d.txt'), 'a line\n')
    writeFileSync(join(root, 'given.json'), JSON.stringify({ path: inData('d.txt') }))
    const finished = await run()
    expect(finished).toMatchObject({ code: 0, stderr: '' })
    expect(finished.stdout.trim()).toBe('a line')
  })

  it('ends with 1 for an error of the tool', async () => {
    const failed = await call('files', 'read_text_file', `path=${inData('absent.txt')}`)
    expect(failed.code).toBe(1)
    expect(failed.stdout).toContain('absent.txt')
    const invalid = await call('files', 'read_text_file', 'path=a', 'head=many', '--json')
    expect(invalid.code).toBe(1)
    expect(JSON.parse(invalid.stdout)).toMatchObject({ isError: true })
  })

  it.each([
    [['files', 'write_fil'], 'files has no tool "write_fil"; did you mean write_file?'],
    [['files'], 'give a tool of files'],
    [[], 'give a server of the configuration'],
    [['fils', 'write_file'], 'no server is named "fils"; did you mean files?'],
    [['files', 'read_text_file', '{"path":'], 'the arguments: not JSON'],
    [['files', 'read_text_file', '[1]'], '"[1]" is no argument: write KEY=VALUE'],
    [['files', 'read_text_file', 'path=a', 'path=b'], 'the argument path is given twice'],
    [['files', 'read_text_file', '{}', 'path=b'], 'give the arguments once'],
    [['files', 'read_text_file', '@/nowhere.json'], '/nowhere.json cannot be read'],
    // Words are read before the server is started.
    [['gone', 'read_text_file', 'path=a', 'path=b'], 'the argument path is given twice'],
    [['files', 'read_text_file', '--dry'], "Unknown option '--dry'"],
  ])('ends with 2 for %j', async (words, message) => {
    const finished = await call(...words)
    expect(finished).toMatchObject({ code: 2, stdout: '' })
    expect(finished.stderr).toContain(message)
  })
})
