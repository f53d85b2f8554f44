import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { folder, shellServer } from '../../support/journey.ts'

const SECRET = 'a-secret-of-the-gateway'
/** What a child may have of the environment of the gateway, as docs/usage.md says. */
const documented =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*)$/
/** Variables that a shell sets itself. */
const ofShell = new Set(['PWD', 'OLDPWD', 'SHLVL', '_'])

/** A configuration whose server notes what it inherits, with what a gateway keeps open: a store, an audit log, a file of variables. */
function noted() {
  const path = folder()
  writeFileSync(join(path, '.env'), `OWN=${SECRET}\nINNER=for-the-server\n`)
  const report = join(path, 'report')
  const server = shellServer(
    `ls -l /proc/self/fd > "${report}.$$"; echo --- >> "${report}.$$"; env >> "${report}.$$"`,
    {},
    { env: { GIVEN: '${INNER}' }, revision: 'auto' },
  )
  const config = {
    store: join(path, 'store'),
    observe: { audit: join(path, 'audit.jsonl') },
    upstreams: { one: server },
  }
  const file = join(path, 'gateway.config.yaml')
  writeFileSync(file, JSON.stringify(config))
  const reports = () =>
    readdirSync(path)
      .filter((name) => name.startsWith('report.'))
      .map((name) => readFileSync(join(path, name), 'utf8'))
  return { path, file, config, reports }
}

function check(reports: readonly string[]): void {
  expect(reports.length).toBeGreaterThan(0)
  for (const report of reports) {
    const [files = '', env = ''] = report.split('---\n')
    const links = [...files.matchAll(/ (\d+) -> (\S+)$/gm)].map(([, fd, link = '']) => ({
      fd: Number(fd),
      link,
    }))
    expect(links.filter(({ fd }) => fd < 3)).toHaveLength(3)
    // The list itself is open in `ls`, and written to its output.
    expect(links.filter(({ fd, link }) => fd < 3 && !/^(?:socket|pipe):|\/report\./.test(link))).toEqual([])
    expect(links.filter(({ fd, link }) => fd > 2 && !/^\/dev\/null$|^\/proc\/\d+\/fd$/.test(link))).toEqual(
      [],
    )
    const names = [...env.matchAll(/^(\w+)=/gm)].map(([, name = '']) => name)
    expect(names).toContain('GIVEN')
    expect(names.filter((name) => name !== 'GIVEN' && !documented.test(name) && !ofShell.has(name))).toEqual(
      [],
    )
    expect(env).not.toContain(SECRET)
  }
}

describe.skipIf(!existsSync('/proc/self/fdinfo'))('a server over stdio (needs /proc)', () => {
  const env = { GATEWAY_TOKEN: SECRET, NODE_OPTIONS: '', 'BASH_FUNC_ls%%': '() { :; }' }

  it('inherits three pipes and the documented variables from a gateway', async () => {
    const { config, reports } = noted()
    const gateway = await startGateway(config, { env: { ...env, OWN: SECRET, INNER: 'x' } })
    onTestFinished(() => gateway.close())
    expect(gateway.url).toBeDefined()
    check(reports())
  })

  it.each([[['check']], [['call', 'one', 'echo']], [['test', 'one']]])(
    'inherits the same from gatehouse %j',
    async ([...words]) => {
      const { file, reports, path } = noted()
      await runCommand([...words, '--config', file], { env, cwd: path })
      check(reports())
    },
  )
})
