import {
  chmodSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
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
    ])('is no store, which is told: %s', async (_what, make) => {
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
      await runCommand(['store', 'import', '--config', own.file, output])
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

function made(path: string): string {
  mkdirSync(path)
  return path
}
