/** `gatehouse replay`: serves a recording in the place of its server, or turns a request of it into a test. */
import { fromArguments } from '../config/load.ts'
import type { Settings } from '../core/settings.ts'
import { oneLine, shortened } from '../core/text/escape.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import type { Cassette } from '../testkit/cassette.ts'
import { conversationsOf, testFile } from '../testkit/conversations.ts'
import { createPlayer } from '../testkit/player.ts'
import { plainSettings } from '../testkit/settings.ts'
import { type Io, pathOf, write } from './io.ts'
import { writePrivate } from './private-file.ts'
import { readRecording } from './recording-file.ts'
import { serveOne } from './serve-one.ts'
import { parseWords, portOf, UsageError } from './words.ts'

/** The maximum length of a line of `--list`, in characters. */
const MAX_LISTED = 160

/** `gatehouse replay FILE`: serves a recording over stdio, or over HTTP with `--port`. */
export async function replay(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parseWords(args, {
    port: { type: 'string', short: 'p' },
    host: { type: 'string' },
    list: { type: 'boolean' },
    'to-test': { type: 'string' },
    output: { type: 'string', short: 'o' },
  })
  const [file, ...others] = positionals
  if (file === undefined || others.length > 0) throw new UsageError('give one recording')
  const port = portOf(values.port)
  const cassette = readRecording(file, io)
  if (values.list === true) return list(cassette, io)
  if (values['to-test'] !== undefined)
    return toTest(cassette, values['to-test'], { output: values.output, io })
  const { intercept, revision } = createPlayer(cassette)
  const gateway = new Gateway(replaySettings(revision, { port, host: values.host, io }), {
    variables: {},
    log: openLog('warn', io),
    intercept,
  })
  await serveOne(gateway, port, io)
  return 0
}

/** Settings for a gateway whose server is a recording: its command is never run. */
function replaySettings(
  revision: string,
  {
    port,
    host,
    io,
  }: { readonly port: number | undefined; readonly host: string | undefined; readonly io: Io },
): Settings {
  const listen = { ...(port !== undefined && { port }), ...(host !== undefined && { host }) }
  const settings = fromArguments(['recording'], { listen, env: io.env })
  const [server] = settings.upstreams
  if (!server) throw new Error('a recording needs a server')
  return plainSettings(settings, { ...server, revision, roots: 'client' })
}

function list(cassette: Cassette, io: Io): number {
  for (const [index, { method, params, line }] of conversationsOf(cassette).entries()) {
    const text = oneLine(`${index + 1}  ${method} ${JSON.stringify(params)}`)
    write(`${shortened(text, MAX_LISTED)}  (line ${line})\n`, io)
  }
  return 0
}

function toTest(
  cassette: Cassette,
  number: string,
  { output, io }: { readonly output: string | undefined; readonly io: Io },
): number {
  const conversations = conversationsOf(cassette)
  const conversation = /^\d+$/.test(number) ? conversations[Number(number) - 1] : undefined
  if (!conversation) {
    const range = conversations.length === 0 ? 'it has no requests' : `1 to ${conversations.length}`
    throw new UsageError(`--to-test must be the number of a request: ${range}, listed by --list`)
  }
  const text = testFile(conversation, cassette)
  if (output === undefined) write(text, io)
  else writePrivate(pathOf(output, io), text, { isNew: true })
  return 0
}
