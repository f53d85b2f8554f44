/** `gatehouse call`: calls a tool through a gateway in this process, or tries the call. */
import { asGatewayError } from '../core/error.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { type Fields, type Payload } from '../core/payload.ts'
import { escapeHidden, oneLine } from '../core/text/escape.ts'
import { isDryRunReport } from '../gateway/command-call.ts'
import { withAudit } from './config-file.ts'
import { answering } from './ask.ts'
import { didYouMean, type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, printError, writeError, pathOf } from './io.ts'
import type { Output } from './output.ts'
import { connected, readServer, withGateway } from './source.ts'
import { readText, whyUnreadable } from '../config/secrets.ts'
import { duplicateKey, parseJson } from '../core/json/read.ts'

/** `gatehouse call SERVER TOOL [ARGUMENT…]`: exit code 1 if the result is an error. */
export async function call(given: Given<typeof commands.call>, io: Io): Promise<Output> {
  const { source, server } = readServer(given, io)
  const { settings } = source
  const { tool, key: idempotencyKey, dryRun: isDryRun, yes, json: isJson } = given
  const argumentsFor = await readArguments(given.words, io)
  if (settings.store.kind === 'memory' && idempotencyKey !== undefined && !isDryRun)
    writeError('warning: store: memory: the key is forgotten when this command ends\n', io)
  return withAudit(settings, io, (audit) =>
    withGateway(settings, { io, ...(audit && { audit }) }, async (gateway) => {
      await connected(gateway, server)
      const entries = await gateway.entries(server.name)
      const listed = entries.find(({ name }) => name === tool)
      try {
        const result = await gateway.callTool({
          upstream: server.name,
          tool,
          arguments: argumentsFor(listed?.definition.inputSchema),
          isDryRun,
          idempotencyKey,
          answer: answering(io, yes),
        })
        const code = result.member('isError') === true && !isDryRunReport(result) ? 1 : 0
        return { json: result.value, text: textOf(result), code }
      } catch (thrown) {
        if (thrown instanceof UsageError) throw thrown
        const error = asGatewayError(thrown)
        if (error.code === 'UNKNOWN_TOOL') {
          const names = entries.map(({ name }) => name)
          throw new UsageError(`${server.name} has no tool "${oneLine(tool)}"${didYouMean(tool, names)}`)
        }
        // Errors of the command itself are not failures of the call.
        if (error.code === 'SERVER_ERROR') throw thrown
        const { suggestion = '' } = error.extra
        if (isJson) return { json: { error: error.data }, text: '', code: 1 }
        printError(oneLine(`${error.message} ${suggestion}`.trim()), io)
        return 1
      }
    }),
  )
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
  const embedded = asObject(resource)
  if (typeof embedded.text === 'string') return escapeHidden(embedded.text)
  const encoded = [data, embedded.blob].find((each) => typeof each === 'string')
  const about = [type, mimeType ?? embedded.mimeType, uri ?? embedded.uri].filter(
    (each) => typeof each === 'string',
  )
  const size = encoded === undefined ? [] : [`${encoded.length} characters of base64`]
  return `[${oneLine([...about, ...size].join(', '))}]`
}

/** The most that is read from standard input, in bytes: as much as from a file. */
const MAX_BYTES = 1024 * 1024

/** The arguments, for the input schema of the tool, if it is known: text stays text where the schema says so. */
type ArgumentsFor = (schema: unknown) => Fields

/** Reads the words before a server is started for them. @throws UsageError */
export async function readArguments(words: readonly string[], io: Io): Promise<ArgumentsFor> {
  const [first = ''] = words
  const isWhole = first === '-' || first.startsWith('@') || first.trimStart().startsWith('{')
  if (!isWhole) return keyValues(words)
  const whole = await wholeArguments(words, io)
  return () => whole
}

async function wholeArguments([first = '', ...others]: readonly string[], io: Io): Promise<Fields> {
  if (others.length > 0)
    throw new UsageError('give the arguments once: as JSON, KEY=VALUE words, @FILE, or - for standard input')
  if (first === '-') return parsed(await standardInput(io), 'standard input')
  return first.startsWith('@')
    ? parsed(fileText(first.slice(1), io), first.slice(1))
    : parsed(first, 'the arguments')
}

function parsed(text: string, where: string): Fields {
  let value: unknown
  try {
    value = parseJson(text)
  } catch (error) {
    throw new UsageError(`${where}: not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
  const key = duplicateKey(text, value)
  if (key !== undefined) throw new UsageError(`${where}: the argument ${key} is given twice`)
  if (isObject(value)) return value
  throw new UsageError(`${where}: must be a JSON object, such as {"path":"a.txt"}`)
}

function fileText(file: string, io: Io): string {
  try {
    return readText(pathOf(file, io))
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${whyUnreadable(error)}`)
  }
}

async function standardInput({ stdin }: Io): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stdin) {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(String(chunk))
    size += bytes.length
    if (size > MAX_BYTES) throw new UsageError('standard input is larger than 1 MB')
    chunks.push(bytes)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function keyValues(words: readonly string[]): ArgumentsFor {
  const texts = new Map<string, string>()
  for (const word of words) {
    const at = word.indexOf('=')
    if (at < 1) throw new UsageError(`"${word}" is no argument: write KEY=VALUE, or a JSON object in quotes`)
    const key = word.slice(0, at)
    if (texts.has(key)) throw new UsageError(`the argument ${key} is given twice`)
    texts.set(key, word.slice(at + 1))
  }
  return (schema) =>
    Object.fromEntries([...texts].map(([key, text]) => [key, valueOf(key, text, propertyOf(schema, key))]))
}

function propertyOf(schema: unknown, key: string): unknown {
  const properties = isObject(schema) ? schema.properties : undefined
  return isObject(properties) && Object.hasOwn(properties, key) ? properties[key] : undefined
}

/** Text where the schema takes only text, or where it is not JSON; otherwise the JSON value. */
function valueOf(name: string, text: string, schema: unknown): unknown {
  if (isObject(schema) && schema.type === 'string') return text
  let value: unknown
  try {
    value = parseJson(text)
  } catch {
    return text
  }
  const key = duplicateKey(text, value)
  if (key !== undefined) throw new UsageError(`${name}.${key} is given twice`)
  return value
}
