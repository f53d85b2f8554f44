/** How a server is installed and reached, from its command line or URL. */
import type { CommandReach, UrlReach } from '../../core/settings.ts'

type Reach = CommandReach | UrlReach

/** What a server is installed with, by package manager, as far as its command line says so. */
export function installOf(reach: Reach): Readonly<Record<string, string>> {
  if (reach.kind === 'url') return {}
  const name = (reach.command.split(/[\\/]/).at(-1) ?? '').replace(/\.(?:exe|cmd)$/i, '').toLowerCase()
  const known = runners[name]
  const found = known?.package(reach.args)
  return known && found !== undefined && looksLikePackage.test(found) ? { [known.manager]: found } : {}
}

/** The names of the variables a server is given; never their values. */
export function variablesOf(reach: Reach): string[] {
  return reach.kind === 'command' ? Object.keys(reach.env).toSorted() : []
}

/** How the gateway proves to the server behind it who it is. */
export function authOf(reach: Reach): string[] {
  if (reach.kind === 'command') return []
  if (reach.oauth) return ['oauth2']
  const names = Object.keys(reach.headers)
  if (names.includes('authorization')) return ['bearer-token']
  return names.some((name) => /key|token|auth/.test(name)) ? ['api-key'] : []
}

interface Runner {
  readonly manager: 'npm' | 'pip' | 'docker'
  package(words: readonly string[]): string | undefined
}

/** Names of packages and images, with a version: a path, a URL or a value of an option is none. */
const looksLikePackage =
  /^(?:@[a-z0-9][\w.-]*\/)?[a-z0-9][\w.-]*(?:[/:][a-z0-9][\w.-]*){0,4}(?:@[\w.^~:-]+|==[\w.]+)?$/i

/** Runs a package of npm. */
const npm: Runner = {
  manager: 'npm',
  package: (words) => {
    const found = packageIn(words, { naming: ['--package', '-p'], valued: [], bare: npmBare })
    return found !== undefined && interpreters.has(found) ? undefined : found
  },
}
const pip: Runner = {
  manager: 'pip',
  package: (words) => packageIn(words, { naming: ['--from'], valued: pipValued, bare: pipBare }),
}
const docker: Runner = {
  manager: 'docker',
  package: (words) => packageIn(words, { naming: [], valued: dockerValued, bare: dockerBare }),
}

const runners: Readonly<Record<string, Runner>> = {
  npx: npm,
  bunx: npm,
  pnpm: after(['dlx'], npm),
  yarn: after(['dlx'], npm),
  npm: after(['exec'], npm),
  uvx: pip,
  uv: after(['tool', 'run'], pip),
  pipx: after(['run'], pip),
  docker: after(['run'], docker),
  podman: after(['run'], docker),
}

/** Packages that run a script, which is what is installed then. */
const interpreters: ReadonlySet<string> = new Set(['tsx', 'ts-node', 'node', 'bun', 'deno'])

/** Options that stand alone, and those that take the next word as their value. */
const npmBare = ['--', '-y', '--yes', '-q', '--quiet', '--silent', '--prefer-offline', '--prefer-online']
const pipBare = ['-q', '--quiet', '--offline', '--isolated', '--no-cache', '--refresh']
const pipValued = ['--with', '--python', '-p', '--index-url']
const dockerBare = '-i -t -it -ti -d --interactive --tty --detach --rm --init --privileged --read-only'.split(
  ' ',
)
const dockerValued =
  '-e --env --env-file -v --volume --mount -p --publish --name --network --net -u --user -w --workdir --entrypoint -h --hostname -l --label -m --memory --cpus --platform --add-host --pull'.split(
    ' ',
  )

/** The same, where the first words are these. */
function after(first: readonly string[], { manager, package: found }: Runner): Runner {
  return {
    manager,
    package: (words) =>
      first.every((word, at) => words[at] === word) ? found(words.slice(first.length)) : undefined,
  }
}

/** What the options of a runner are. */
interface Options {
  /** Those that name the package. */
  readonly naming: readonly string[]
  readonly valued: readonly string[]
  readonly bare: readonly string[]
}

/** The package a command line names; undefined after an unknown option, which may take the next word. */
function packageIn(words: readonly string[], { naming, valued, bare }: Options): string | undefined {
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    if (!word.startsWith('-')) return word
    const [option = '', value] = word.split(/=(.*)/s)
    if (naming.includes(option)) return value ?? words[at + 1]
    if (value !== undefined || bare.includes(word)) continue
    if (!valued.includes(word)) return undefined
    at += 1
  }
  return undefined
}
