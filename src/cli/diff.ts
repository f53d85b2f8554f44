/** `gatehouse diff`: compares two recordings, or a recording with what its server answers now. */
import { oneLine, shortened } from '../core/text/escape.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { type Cassette, parseCassette } from '../testkit/cassette.ts'
import {
  diffCassettes,
  type Comparison,
  type ChangedValue,
  repeatLive,
  type Skipped,
} from '../testkit/diff.ts'
import { cassetteMask, recordingInterceptor } from '../testkit/recorder.ts'
import { plainSettings } from '../testkit/settings.ts'
import { readNamed } from './options.ts'
import { type Io, write } from './io.ts'
import { secretVariables } from './record.ts'
import { readRecording } from './recording-file.ts'
import { configWords, parseWords, UsageError } from './words.ts'

/** The maximum length of a printed value, in characters. */
const MAX_SHOWN = 200

interface Report extends Comparison {
  /** The requests of the recording that were not made at the live server. */
  readonly skipped: readonly Skipped[]
}

/** `gatehouse diff A.jsonl B.jsonl` or `--live SERVER`: exit code 1 if the answers differ. */
export async function diff(args: readonly string[], io: Io): Promise<number> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), {
    config: { type: 'string', short: 'c' },
    'env-file': { type: 'string' },
    live: { type: 'string' },
    'allow-writes': { type: 'boolean' },
    json: { type: 'boolean' },
  })
  const isLive = values.live !== undefined || separator !== -1
  const [first, second, ...others] = positionals
  if (first === undefined || others.length > 0 || isLive === (second !== undefined))
    throw new UsageError('give two recordings, or one and --live SERVER, --live URL or -- COMMAND')
  const before = readRecording(first, io)
  const named = [
    ...configWords(values),
    ...(values.live === undefined ? [] : [values.live]),
    ...(separator === -1 ? [] : args.slice(separator)),
  ]
  const report: Report = isLive
    ? await diffLive(before, named, { withWrites: values['allow-writes'] ?? false, io })
    : { ...diffCassettes(before, readRecording(second ?? '', io)), skipped: [] }
  write(values.json === true ? `${JSON.stringify(report, null, 2)}\n` : printed(report), io)
  return report.differences.length === 0 ? 0 : 1
}

async function diffLive(
  before: Cassette,
  named: readonly string[],
  { withWrites, io }: { readonly withWrites: boolean; readonly io: Io },
): Promise<Report> {
  const { source, server } = readNamed(named, ['config'], io, { isOne: true })
  if (!server) throw new UsageError('give a server of the configuration')
  const lines: string[] = []
  const intercept = recordingInterceptor({
    mask: cassetteMask(source.settings, server.name, secretVariables(io)),
    now: Date.now,
    write: (line) => lines.push(line),
  })
  const gateway = new Gateway(plainSettings(source.settings, server), {
    variables: io.env,
    log: openLog('error', io),
    intercept,
  })
  try {
    const status = await gateway.explore(server.name)
    if (status?.problem !== undefined) throw new Error(`${server.name} cannot be reached: ${status.problem}`)
    const skipped = await repeatLive(before, gateway.handle, { upstream: server.name, withWrites })
    // Nothing is recorded before a client requests something.
    const after = lines.length === 0 ? { ...before, frames: [] } : parseCassette(lines.join(''), server.name)
    const { compared, differences } = diffCassettes(before, after)
    const isMade = (line: number | undefined) => !skipped.some((each) => each.line === line)
    // What was not asked is not missing, and what the gateway asks for itself is not new.
    return {
      compared,
      skipped,
      differences: differences.filter(({ kind, lines: [line] }) => kind !== 'added' && isMade(line)),
    }
  } finally {
    await gateway.close()
  }
}

function printed({ compared, differences, skipped }: Report): string {
  const lines = differences.flatMap(({ kind, method, params, lines: [before, after], values }) => {
    const sign = { changed: '~', removed: '-', added: '+' }[kind]
    const where = [before, after].flatMap((line) => line ?? []).join(' and ')
    return [`${sign} ${method} ${shown(params)} (line ${where})`, ...values.map(valueLine)]
  })
  const notMade = skipped.map(
    ({ method, name, line, reason }) =>
      `  not made: ${method}${name === undefined ? '' : ` ${oneLine(name)}`} (line ${line}): ${reason}`,
  )
  const count = `${differences.length} of ${compared} compared requests differ, or are in one only`
  const summary = differences.length === 0 ? `No difference in ${compared} compared requests` : count
  return `${[...lines, ...notMade, summary].join('\n')}\n`
}

function valueLine(value: ChangedValue): string {
  const before = 'before' in value ? shown(value.before) : 'absent'
  const after = 'after' in value ? shown(value.after) : 'absent'
  return `    ${oneLine(value.path)}: ${before} → ${after}`
}

function shown(value: unknown): string {
  return shortened(oneLine(JSON.stringify(value) ?? 'nothing'), MAX_SHOWN)
}
