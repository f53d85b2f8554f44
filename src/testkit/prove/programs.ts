/** Which words of a command line are programs, and not what these work on. */
import { basename } from 'node:path'

/** Commands that run the file or package that the next word names. */
const runners =
  /^(?:node|bunx?|deno|tsx|ts-node|npx|npm|pnpm|yarn|python[\d.]*|uvx?|ruby|perl|php|java|sh|bash)(?:\.(?:exe|cmd))?$/
/** Their words before it. */
const subcommands = /^(?:run|exec|x|dlx|tool)$/
/** Their options with a word of its own: a file that is loaded first, and the folder of a project. */
const loading = /^(?:-r|--require|--import|--loader|--env-file)$/
const placing = /^--(?:directory|project)$/

/**
 * The positions of the program in a command line, and of the files that it loads first: 1 in `node server.js docs`, 0 in
 * `/usr/bin/server docs`.
 */
export function programsIn(words: readonly string[]): ReadonlySet<number> {
  const programs = new Set<number>()
  for (const [at, word] of words.entries()) {
    const before = words[at - 1] ?? ''
    const isRunner = runners.test(basename(word))
    const isPassedOver = word.startsWith('-') || placing.test(before) || (at > 0 && subcommands.test(word))
    if (loading.test(before)) programs.add(at)
    else if (!isRunner && !isPassedOver) return programs.add(at)
  }
  return programs
}
