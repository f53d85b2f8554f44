import type { CommandReach, UrlReach } from '../core/settings.ts'

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
    const named = valueOf(words, '--package') ?? valueOf(words, '-p')
    const found = named ?? positional(words, [])
    return found !== undefined && interpreters.has(found) ? undefined : found
  },
}
const pip: Runner = {
  manager: 'pip',
  package: (words) =>
    valueOf(words, '--from') ?? positional(words, ['--with', '--python', '-p', '--index-url']),
}
const docker: Runner = { manager: 'docker', package: (words) => positional(words, dockerValues) }

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

/** Options of `docker run` that take the next word as their value. */
const dockerValues =
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

/** The first word that is neither an option nor the value of one. */
function positional(words: readonly string[], valued: readonly string[]): string | undefined {
  return words.find((word, at) => !word.startsWith('-') && !valued.includes(words[at - 1] ?? ''))
}

function valueOf(words: readonly string[], option: string): string | undefined {
  const joined = words.find((word) => word.startsWith(`${option}=`))
  if (joined !== undefined) return joined.slice(option.length + 1)
  const at = words.indexOf(option)
  return at === -1 ? undefined : words[at + 1]
}
