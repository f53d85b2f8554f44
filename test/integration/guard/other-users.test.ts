import {
  chmodSync,
  copyFileSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { runCommand } from '../../support/gateway.ts'

const isAdministrator = process.getuid?.() === 0
const OTHER_USER = 65_534
const TOLD = 'belongs to another user'

const root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-users-')))
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A folder in which everybody can create files, like that of temporary files. */
function sharedFolder(): string {
  const path = mkdtempSync(join(root, 'shared-'))
  chmodSync(path, 0o1777)
  return path
}

function ownFolder(): string {
  return mkdtempSync(join(root, 'own-'))
}

/** Gives a path to the other user. */
function planted(path: string): string {
  lchownSync(path, OTHER_USER, OTHER_USER)
  return path
}

/** A configuration whose server leaves a trace when it is started. */
function traced(folder: string, more: object = {}) {
  const trace = join(root, `trace-${Math.random()}`)
  const file = join(folder, 'gateway.config.yaml')
  const server = { command: ['sh', '-c', `touch ${trace}`], start_timeout: '2s' }
  writeFileSync(file, JSON.stringify({ store: 'memory', upstreams: { one: server }, ...more }))
  return { file, hasRun: () => existsSync(trace) }
}

describe.skipIf(!isAdministrator)(
  'what another user made in a folder of all users (needs the rights of root)',
  () => {
    it.each([
      ['check'],
      ['serve', '--port', '0'],
      ['stdio'],
      ['call', 'one', 'tool'],
      ['explain', 'one', 'tool'],
      ['lint', 'one'],
      ['plan'],
      ['test', 'one'],
      ['health'],
      ['ops', 'list'],
      ['approvals', 'list'],
      ['tx', 'list'],
      ['store', 'info'],
    ])('is no configuration of gatehouse %s', async (...words) => {
      const cwd = sharedFolder()
      const { file, hasRun } = traced(cwd)
      planted(file)
      const { code, stderr } = await runCommand(
        words.filter((word) => typeof word === 'string'),
        { cwd },
      )
      expect([code === 0, stderr]).toEqual([false, expect.stringContaining(TOLD)])
      expect(hasRun()).toBe(false)
    })

    it('is no link to a configuration, and no file of variables', async () => {
      const [cwd, own] = [sharedFolder(), ownFolder()]
      const { file } = traced(own)
      symlinkSync(file, join(cwd, 'gateway.config.yaml'))
      planted(join(cwd, 'gateway.config.yaml'))
      expect((await runCommand(['check'], { cwd })).stderr).toContain(TOLD)

      const other = sharedFolder()
      const mine = traced(other)
      writeFileSync(join(other, '.env'), 'ONE=1')
      planted(join(other, '.env'))
      const { stderr } = await runCommand(['check'], { cwd: other })
      expect(stderr).toContain(`${join(other, '.env')} ${TOLD}`)
      expect(mine.hasRun()).toBe(false)
    })

    it('is neither a configuration nor a secret that is named', async () => {
      const cwd = sharedFolder()
      const { file } = traced(cwd)
      planted(file)
      expect((await runCommand(['check', '--config', file])).stderr).toContain(TOLD)

      writeFileSync(join(cwd, 'token'), 'planted')
      planted(join(cwd, 'token'))
      const own = traced(ownFolder(), { page: { url: `\${file:${join(cwd, 'token')}}` } })
      expect((await runCommand(['check', '--config', own.file])).stderr).toContain(TOLD)
    })

    it.each<[string, (file: string) => string]>([
      [
        'in a folder of another user',
        (file) => {
          const above = planted(made(join(sharedFolder(), 'above')))
          copyFileSync(file, join(above, 'file'))
          return join(above, 'file')
        },
      ],
      ['behind a link to a folder', (file) => join(plantedLink(dirname(file)), basename(file))],
      [
        'behind a link of this user to one of another',
        (file) => {
          const link = join(ownFolder(), 'link')
          symlinkSync(plantedLink(file), link)
          return link
        },
      ],
    ])('is neither a configuration nor a secret that is named: %s', async (_what, given) => {
      const { file, hasRun } = traced(ownFolder())
      expect((await runCommand(['check', '--config', given(file)])).stderr).toContain(TOLD)
      expect(hasRun()).toBe(false)

      const token = join(ownFolder(), 'token')
      writeFileSync(token, 'planted')
      const own = traced(ownFolder(), { page: { url: `\${file:${given(token)}}` } })
      expect((await runCommand(['check', '--config', own.file])).stderr).toContain(TOLD)
    })

    it('is no file that a command reads or writes', async () => {
      const victim = join(ownFolder(), 'victim')
      writeFileSync(victim, 'unchanged')
      const [link, dangling] = [plantedLink(victim), plantedLink(join(ownFolder(), 'none'))]
      const { file } = traced(ownFolder(), { store: join(ownFolder(), 'store') })
      const config = ['--config', file]
      await runCommand(['store', 'import', ...config, ownExport()])
      for (const words of [
        ['store', 'export', ...config, link, '--force'],
        ['store', 'export', ...config, dangling],
        ['store', 'import', ...config, plantedLink(ownExport())],
        ['init', '--config', link, '--force'],
        ['init', '--from', plantedLink(victim), '--config', join(ownFolder(), 'new.yaml')],
        ['replay', link],
        ['plan', ...config, '--pack', link],
        ['verify', link],
        ['audit', 'verify', link],
        ['prove', 'one', ...config, '--sandbox', plantedLink(ownFolder())],
        ['prove', 'one', ...config, '--sandbox', 'server', '--arguments', link],
      ])
        expect([words, (await runCommand(words)).stderr]).toEqual([words, expect.stringContaining(TOLD)])
      expect(readFileSync(victim, 'utf8')).toBe('unchanged')
      expect(existsSync(realpathSync(dirname(dangling)) + '/none')).toBe(false)
    })

    it('is no audit log in a folder of another user', async () => {
      const above = planted(made(join(sharedFolder(), 'above')))
      const { file } = traced(ownFolder(), { observe: { audit: join(above, 'audit.jsonl') } })
      const { stderr } = await runCommand(['serve', '--port', '0', '--config', file])
      expect(stderr).toContain(TOLD)
      expect(readdirSync(above)).toEqual([])
    })

    it.each<[string, (shared: string) => string]>([
      ['a folder', (shared) => planted(made(join(shared, 'store')))],
      [
        'a link',
        (shared) => {
          symlinkSync(ownFolder(), join(shared, 'store'))
          return planted(join(shared, 'store'))
        },
      ],
      [
        'a folder in one',
        (shared) => {
          made(join(planted(made(join(shared, 'above'))), 'store'))
          return join(shared, 'above', 'store')
        },
      ],
      [
        'a folder that does not exist in one',
        (shared) => join(planted(made(join(shared, 'above'))), 'store'),
      ],
      [
        'a file in one',
        (shared) => {
          const store = made(join(shared, 'store'))
          chmodSync(store, 0o777)
          writeFileSync(join(store, 'data.mdb'), '')
          planted(join(store, 'data.mdb'))
          return store
        },
      ],
      [
        'a link in one',
        (shared) => {
          const store = made(join(shared, 'store'))
          chmodSync(store, 0o777)
          symlinkSync(ownFolder(), join(store, 'blobs'))
          planted(join(store, 'blobs'))
          return store
        },
      ],
    ])('is refused as a store: %s', async (_what, make) => {
      const store = make(sharedFolder())
      const { file } = traced(ownFolder(), { store })
      const { code, stdout, stderr } = await runCommand(['store', 'info', '--config', file])
      expect([code, stdout + stderr]).toEqual([1, expect.stringContaining(TOLD)])
    })

    it('is no audit log, and no file for an export', async () => {
      const shared = sharedFolder()
      const audit = join(shared, 'audit.jsonl')
      writeFileSync(audit, '')
      planted(audit)
      const { file } = traced(ownFolder(), { observe: { audit }, profile: 'open' })
      await runCommand(['call', 'one', 'tool', '--config', file])
      expect(readFileSync(audit, 'utf8')).toBe('')

      const output = join(shared, 'export')
      writeFileSync(output, '')
      planted(output)
      const own = traced(ownFolder(), { store: join(ownFolder(), 'store') })
      const empty = join(ownFolder(), 'empty.jsonl')
      writeFileSync(empty, '{"format":"gatehouse-store","version":1}\n')
      await runCommand(['store', 'import', '--config', own.file, empty])
      const { stderr } = await runCommand(['store', 'export', '--config', own.file, output, '--force'])
      expect(stderr).toContain(TOLD)
      expect(readFileSync(output, 'utf8')).toBe('')
    })
  },
)

describe.skipIf(!isAdministrator)(
  'what another user made in a folder of its own (needs the rights of root)',
  () => {
    it('is no configuration where it is not named', async () => {
      const cwd = planted(ownFolder())
      planted(traced(cwd).file)
      expect((await runCommand(['check'], { cwd })).stderr).toContain(TOLD)
    })

    it('is no folder of a configuration that is not named', async () => {
      const cwd = ownFolder()
      const { hasRun } = traced(cwd)
      planted(cwd)
      expect((await runCommand(['check'], { cwd })).stderr).toContain(TOLD)
      expect(hasRun()).toBe(false)
    })

    it('is the configuration, with the variables and the store beside it, where it is named', async () => {
      const cwd = planted(ownFolder())
      const { file, hasRun } = traced(cwd, { store: join(cwd, 'store') })
      writeFileSync(join(cwd, '.env'), 'ONE=1')
      for (const path of [file, join(cwd, '.env'), made(join(cwd, 'store'))]) planted(path)
      const { stderr, stdout } = await runCommand(['check', '--config', file])
      expect(stdout + stderr).not.toContain(TOLD)
      expect(hasRun()).toBe(true)
      expect((await runCommand(['store', 'info', '--config', file])).stderr).not.toContain(TOLD)
    })
  },
)

describe.skipIf(!isAdministrator)('a file of this user (needs the rights of root)', () => {
  it('is no configuration where every user can change it, unless it is named', async () => {
    const cwd = mkdtempSync(join(tmpdir(), 'gatehouse-users-'))
    onTestFinished(() => rmSync(cwd, { recursive: true }))
    const { file, hasRun } = traced(cwd)
    chmodSync(cwd, 0o755)
    chmodSync(file, 0o666)
    expect((await runCommand(['check'], { cwd })).stderr).toContain('can be changed by every user')
    expect(hasRun()).toBe(false)
    await runCommand(['check', '--config', file])
    expect(hasRun()).toBe(true)
  })

  it('is a configuration where other users cannot get to it', async () => {
    const cwd = ownFolder()
    const { file, hasRun } = traced(cwd)
    chmodSync(file, 0o666)
    await runCommand(['check'], { cwd })
    expect(hasRun()).toBe(true)
  })
})

/** A link of the other user in a folder where everybody can create files. */
function plantedLink(target: string): string {
  const link = join(sharedFolder(), 'link')
  symlinkSync(target, link)
  return planted(link)
}

/** An export without entries. */
function ownExport(): string {
  const file = join(ownFolder(), 'export')
  writeFileSync(file, '{"format":"gatehouse-store","version":1}\n')
  return file
}

function made(path: string): string {
  mkdirSync(path)
  return path
}
