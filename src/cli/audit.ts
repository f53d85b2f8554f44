/** `gatehouse audit verify`: checks the hash chain of an audit log, and its anchor in the store. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { openLog } from '../gateway/gateway.ts'
import { anchorsIn, openSharedStore, verifyAudit } from '../gateway/offline.ts'
import { didYouMean, parseWords, readSource, UsageError } from './options.ts'

const options = {
  head: { type: 'string' },
  config: { type: 'string', short: 'c' },
  'env-file': { type: 'string' },
  json: { type: 'boolean' },
} as const

/** `gatehouse audit verify FILE…`: finds the first line of an audit log that was removed, altered or moved. Exits with 1 if there is one. */
export async function audit(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseWords(args, options)
  const [action, ...files] = positionals
  if (action !== 'verify')
    throw new UsageError(`use gatehouse audit verify FILE${didYouMean(action ?? '', ['verify'])}`)
  if (files.length === 0) throw new UsageError('give the file of an audit log')
  for (const file of files) if (!existsSync(file)) throw new Error(`${file} does not exist`)
  const results = await verifyAll(files, values)
  const isWhole = results.every(({ problem }) => !problem)
  if (values.json) {
    const logs = results.map(({ last, anchored = null, ...result }) => ({
      ...result,
      ...(last && { head: last.hash }),
      anchored,
    }))
    process.stdout.write(`${JSON.stringify({ ok: isWhole, logs }, null, 2)}\n`)
    return isWhole ? 0 : 1
  }
  for (const { files: logFiles, lines, last, anchored, problem } of results) {
    if (problem) {
      const place = problem.line === undefined ? '' : `:${problem.line}`
      process.stderr.write(`${problem.file}${place}: ${problem.reason}\n`)
    } else {
      process.stdout.write(
        `${logFiles.join(', ')}: ${lines} lines, intact; head ${last?.hash}${endText(anchored, values.head)}\n`,
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
): Results {
  const isGiven = config !== undefined
  const store = await storeOf({ config, envFile }).catch((error: unknown) => {
    // A configuration that merely is in the current folder must not prevent the verification of the chain.
    if (isGiven) throw error
    const reason = error instanceof Error ? error.message : String(error)
    process.stderr.write(`gatehouse: the store was not checked: ${reason}\n`)
  })
  try {
    const anchorOf = async (file: string) => store?.anchors?.read(resolve(file))
    return await verifyAudit(files, { head, anchorOf })
  } finally {
    await store?.close()
  }
}

async function storeOf(wanted: Pick<Parameters<typeof readSource>[0], 'config' | 'envFile'>) {
  if (wanted.config === undefined && !existsSync('gateway.config.yaml')) return undefined
  const { settings } = readSource({ ...wanted, isForStore: true })
  const { store: place } = settings
  if (place.kind === 'memory' || (place.kind === 'folder' && !existsSync(place.path))) return undefined
  const store = await openSharedStore(settings, openLog('warn', process.stderr.isTTY))
  return { anchors: anchorsIn(settings, () => store), close: () => store.close() }
}
