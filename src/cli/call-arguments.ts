/** The arguments of a tool from the words of a command line: JSON, `KEY=VALUE`, `@FILE`, or `-` for standard input. */
import { readText, whyUnreadable } from '../config/secrets.ts'
import { isObject } from '../core/json/json.ts'
import { UsageError } from './words.ts'
import { type Io, pathOf } from './io.ts'
import { duplicateKey, parseJson } from '../core/json/read.ts'

type Fields = Readonly<Record<string, unknown>>

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
