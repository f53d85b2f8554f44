/** `gatehouse audit verify`: checks the hash chain of an audit log, and its anchor in the store. */
import { existsSync } from 'node:fs'
import { openLog } from '../observability/log.ts'
import { openSharedStore } from '../gateway/offline.ts'
import { anchorsIn } from '../observability/audit/anchor.ts'
import { verifyAudit } from '../observability/audit/verify.ts'
import { CONFIG_FILE, readStored } from './config-file.ts'
import { didYouMean, parseWords, UsageError } from './words.ts'
import { inputPath, type Io, pathOf, printError, printJson, write, writeError } from './io.ts'

const options = {
  head: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
} as const

/** `gatehouse audit verify FILE…`: finds the first line of an audit log that was removed, altered or moved. Exits with 1 if there is one. */
export async function audit(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, options)
  const [action, ...files] = positionals
  if (action !== 'verify')
    throw new UsageError(`use gatehouse audit verify FILE${didYouMean(action ?? '', ['verify'])}`)
  if (files.length === 0) throw new UsageError('give the file of an audit log')
  const given = new Map(files.map((file) => [inputPath(file, io), file]))
  for (const [path, file] of given) if (!existsSync(path)) throw new Error(`${file} does not exist`)
  const shown = (path: string): string => given.get(path) ?? path
  const results = (await verifyAll([...given.keys()], values, io)).map(({ problem, ...result }) => ({
    ...result,
    files: result.files.map(shown),
    ...(problem && { problem: { ...problem, file: shown(problem.file) } }),
  }))
  const isWhole = results.every(({ problem }) => !problem)
  if (values.json) {
    const logs = results.map(({ last, anchored = null, ...result }) => ({
      ...result,
      ...(last && { head: last.hash }),
      anchored,
    }))
    printJson({ ok: isWhole, logs }, io)
    return isWhole ? 0 : 1
  }
  for (const { files: logFiles, lines, last, anchored, problem } of results) {
    if (problem) {
      const place = problem.line === undefined ? '' : `:${problem.line}`
      writeError(`${problem.file}${place}: ${problem.reason}\n`, io)
    } else {
      write(
        `${logFiles.join(', ')}: ${lines} lines, intact; head ${last?.hash}${endText(anchored, values.head)}\n`,
        io,
      )
    }
  }
  return isWhole ? 0 : 1
}

/** What proves the end of a log, apart from the files in its own folder. */
function endText(anchored: number | undefined, head: string | undefined): string {
  if (anchored !== undefined) return `; anchored in the store up to line ${anchored}`
  if (head !== undefined) return ''
  return '; the end is not anchored: the removal of the last lines together with the .head file would go unnoticed (give --config of the gateway, or --head)'
}

type Results = ReturnType<typeof verifyAudit>

/** Also verifies against the anchor in the store, if a configuration names an existing store. */
async function verifyAll(
  files: readonly string[],
  { head, config, 'env-file': envFile }: { head?: string; config?: string; 'env-file'?: string },
  io: Io,
): Results {
  const isGiven = config !== undefined
  const store = await storeOf({ config, envFile }, io).catch((error: unknown) => {
    // A configuration that merely is in the current folder must not prevent the verification of the chain.
    if (isGiven) throw error
    const reason = error instanceof Error ? error.message : String(error)
    printError(`the store was not checked: ${reason}`, io)
  })
  try {
    const anchorOf = async (file: string) => store?.anchors?.read(file)
    return await verifyAudit(files, { head, anchorOf })
  } finally {
    await store?.close()
  }
}

async function storeOf(wanted: Parameters<typeof readStored>[0], io: Io) {
  if (wanted.config === undefined && !existsSync(pathOf(CONFIG_FILE, io))) return undefined
  const settings = readStored(wanted, io)
  const { store: place } = settings
  if (place.kind === 'memory' || (place.kind === 'folder' && !existsSync(place.path))) return undefined
  const store = await openSharedStore(settings, openLog('warn', io))
  return { anchors: anchorsIn(settings, () => store), close: () => store.close() }
}
