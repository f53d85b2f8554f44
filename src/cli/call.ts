/** `gatehouse call`: calls a tool through a gateway in this process, or tries the call. */
import { asGatewayError, type GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import type { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { isDryRunReport } from '../gateway/command-call.ts'
import { openLog } from '../observability/log.ts'
import { Gateway } from '../gateway/gateway.ts'
import { audited } from '../gateway/offline.ts'
import { answering } from './ask.ts'
import { readArguments } from './call-arguments.ts'
import { readNamed, type Source } from './options.ts'
import { configWords, didYouMean, parseWords, UsageError } from './words.ts'
import { type Io, print, printError, printJson, writeError } from './io.ts'

interface CallOptions {
  readonly io: Io
  readonly source: Source
  readonly server: UpstreamSettings
  readonly tool: string
  readonly argumentsFor: Awaited<ReturnType<typeof readArguments>>
  readonly key: string | undefined
  readonly isDryRun: boolean
  readonly isConfirmed: boolean
  readonly isJson: boolean
}

/** `gatehouse call SERVER TOOL [ARGUMENT…]`: exit code 1 if the result is an error. */
export async function call(args: readonly string[], io: Io): Promise<number> {
  const options = await parse(args, io)
  const { settings } = options.source
  if (settings.store.kind === 'memory' && options.key !== undefined && !options.isDryRun)
    writeError('warning: store: memory: the key is forgotten when this command ends\n', io)
  const log = openLog('error', io)
  return audited(settings, log, async (audit) => {
    const gateway = new Gateway(settings, { variables: io.env, log, ...(audit && { audit }) })
    try {
      return await callWith(gateway, options)
    } finally {
      await gateway.close()
    }
  })
}

async function callWith(gateway: Gateway, options: CallOptions): Promise<number> {
  const { io, server, tool, argumentsFor, isJson, isDryRun, isConfirmed, key: idempotencyKey } = options
  const status = await gateway.explore(server.name)
  if (status?.problem !== undefined) throw new Error(`${server.name} cannot be reached: ${status.problem}`)
  const entries = await gateway.entries(server.name)
  const listed = entries.find(({ name }) => name === tool)
  try {
    const result = await gateway.callTool({
      upstream: server.name,
      tool,
      arguments: argumentsFor(listed?.definition.inputSchema),
      isDryRun,
      idempotencyKey,
      answer: answering({ io, isConfirmed }),
    })
    print(isJson ? JSON.stringify(result.value, null, 2) : textOf(result), io)
    return result.member('isError') === true && !isDryRunReport(result) ? 1 : 0
  } catch (thrown) {
    if (thrown instanceof UsageError) throw thrown
    const error = asGatewayError(thrown)
    if (error.code === 'UNKNOWN_TOOL') {
      const names = entries.map(({ name }) => name)
      throw new UsageError(`${server.name} has no tool "${oneLine(tool)}"${didYouMean(tool, names)}`)
    }
    // Errors of the command itself are not failures of the call.
    if (error.code === 'SERVER_ERROR') throw thrown
    return failed(error, options)
  }
}

function failed(error: GatewayError, { isJson, io }: CallOptions): number {
  const { suggestion } = error.extra
  if (isJson) printJson({ error: error.data }, io)
  else printError(oneLine([error.message, suggestion ?? ''].join(' ').trim()), io)
  return 1
}

/** The result as text: its texts, what its other blocks are, and structured content that no text repeats. */
function textOf({ fields: { content, structuredContent } }: Payload): string {
  const blocks: readonly unknown[] = Array.isArray(content) ? content : []
  const lines = blocks.filter(isObject).map(blockText)
  if (lines.length > 0 || structuredContent === undefined) return lines.join('\n')
  return escapeHidden(JSON.stringify(structuredContent, null, 2))
}

function blockText({ type, text, data, mimeType, uri, resource }: Readonly<Record<string, unknown>>): string {
  if (type === 'text' && typeof text === 'string') return escapeHidden(text)
  const embedded = isObject(resource) ? resource : {}
  if (typeof embedded.text === 'string') return escapeHidden(embedded.text)
  const encoded = [data, embedded.blob].find((each) => typeof each === 'string')
  const about = [type, mimeType ?? embedded.mimeType, uri ?? embedded.uri].filter(
    (each) => typeof each === 'string',
  )
  const size = encoded === undefined ? [] : [`${encoded.length} characters of base64`]
  return `[${oneLine([...about, ...size].join(', '))}]`
}

async function parse(args: readonly string[], io: Io): Promise<CallOptions> {
  const separator = args.indexOf('--')
  const { values, positionals } = parseWords(separator === -1 ? args : args.slice(0, separator), {
    config: { type: 'string', short: 'c' },
    'env-file': { type: 'string' },
    key: { type: 'string' },
    'dry-run': { type: 'boolean' },
    yes: { type: 'boolean', short: 'y' },
    json: { type: 'boolean' },
  })
  const isCommand = separator !== -1
  const [first, ...rest] = positionals
  const named = [...configWords(values), ...(isCommand ? args.slice(separator) : positionals.slice(0, 1))]
  const { source, server } = readNamed(named, ['config'], io, { isOne: true })
  const [tool, ...words] = isCommand ? positionals : rest
  if (!server) throw new UsageError('give a server of the configuration')
  if (tool === undefined)
    throw new UsageError(isCommand || first === undefined ? 'give a tool' : `give a tool of ${server.name}`)
  return {
    io,
    source,
    server,
    tool,
    argumentsFor: await readArguments(words, io),
    key: values.key,
    isDryRun: values['dry-run'] ?? false,
    isConfirmed: values.yes ?? false,
    isJson: values.json ?? false,
  }
}
