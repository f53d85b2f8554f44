/**
 * Makes the package that is given to others, and tries it as they would: `npm run release`. The file is in `out/release`; it is
 * installed into an empty folder with an empty cache, and the installed command then connects to the example server.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const out = join(root, 'out', 'release')
const run = (program: string, ...words: string[]): string =>
  execFileSync(program, words, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

mkdirSync(out, { recursive: true })
const name = run('npm', 'pack', '--silent', '--pack-destination', out).trim().split('\n').at(-1) ?? ''
const file = join(out, name)

const machine = mkdtempSync(join(tmpdir(), 'gatehouse-release-'))
try {
  const empty = [
    '--prefix',
    machine,
    '--cache',
    join(machine, 'cache'),
    '--no-audit',
    '--no-fund',
    '--silent',
  ]
  run('npm', 'install', '--global', ...empty, file)
  const gatehouse = join(machine, 'bin', 'gatehouse')
  const version = run(gatehouse, '--version').trim()
  const found = JSON.parse(
    run(gatehouse, 'doctor', '--json', '--', process.execPath, join(root, 'examples', 'demo', 'shop.ts')),
  ) as { readonly ok: boolean }
  if (!found.ok || name !== `${version.replace(' ', '-')}.tgz`)
    throw new Error(`The installed ${version} does not work: ${JSON.stringify(found)}`)
} finally {
  rmSync(machine, { recursive: true, force: true })
}

const bytes = readFileSync(file)
console.log(`${file}
  ${(bytes.length / 1024 ** 2).toFixed(1)} MB, sha256 ${createHash('sha256').update(bytes).digest('hex')}
  Installed into an empty folder, and tried. Others install it with: npm install --global ${name}
What is left to do is in CONTRIBUTING.md, under "Releasing".`)
