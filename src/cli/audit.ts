import { existsSync } from 'node:fs'
import { verifyAudit } from '../offline.ts'
import { didYouMean } from './did-you-mean.ts'
import { parseWords, UsageError } from './options.ts'

/** `gatehouse audit verify FILE…`: finds the first line of an audit log that was removed, altered or moved. */
export async function audit(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseWords(args, { head: { type: 'string' }, json: { type: 'boolean' } })
  const [action, ...files] = positionals
  if (action !== 'verify')
    throw new UsageError(`write gatehouse audit verify FILE${didYouMean(action ?? '', ['verify'])}`)
  if (files.length === 0) throw new UsageError('name the file of an audit log')
  for (const file of files) if (!existsSync(file)) throw new Error(`there is no ${file}`)
  const verdicts = await verifyAudit(files, values.head)
  const isWhole = verdicts.every(({ problem }) => !problem)
  if (values.json) {
    const logs = verdicts.map(({ last, ...verdict }) => ({ ...verdict, ...(last && { head: last.hash }) }))
    process.stdout.write(`${JSON.stringify({ ok: isWhole, logs }, null, 2)}\n`)
    return isWhole ? 0 : 1
  }
  for (const { files: own, lines, last, problem } of verdicts) {
    if (problem) {
      const place = problem.line === undefined ? '' : `:${problem.line}`
      process.stderr.write(`${problem.file}${place}: ${problem.reason}\n`)
    } else process.stdout.write(`${own.join(', ')}: ${lines} lines, unbroken; head ${last?.hash}\n`)
  }
  return isWhole ? 0 : 1
}
