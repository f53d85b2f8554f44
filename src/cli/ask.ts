/** Asks in the terminal: for a confirmation, and the input requests of a call, which are confirmations and forms of servers. */
import { createInterface, type Interface } from 'node:readline/promises'
import type { InputRequest, InputResponse } from '../core/call.ts'
import { asObject, isObject } from '../core/json/json.ts'
import { Payload } from '../core/payload.ts'
import { oneLine, visibleText } from '../core/text/escape.ts'
import { parseJson } from '../core/json/read.ts'
import { UsageError } from './command.ts'
import { type Io, writeError } from './io.ts'

/** Asks a question that is answered with yes or no. @throws UsageError with the advice, without a terminal */
export async function confirmed(question: string, advice: string, io: Io): Promise<boolean> {
  if (!io.stdin.isTTY) throw new UsageError(advice)
  return withTerminal(io, (terminal) => isYes(terminal, question))
}

/** Reads a line of an answer. */
export function typedAnswer(question: string, io: Io): Promise<string> {
  return withTerminal(io, async (terminal) => (await terminal.question(question)).trim())
}

async function isYes(terminal: Interface, question: string): Promise<boolean> {
  return /^y(es)?$/i.test((await terminal.question(`${question} [y/N] `)).trim())
}

/** The most fields of a form that are asked for. */
const MAX_FIELDS = 50

/**
 * Answers input requests; without a terminal, confirmations end the call, unless they are answered with yes, and servers get no
 * answer.
 */
export function answering(io: Io, isConfirmed: boolean) {
  return async (request: InputRequest, of: 'gateway' | 'server'): Promise<InputResponse> => {
    const { message, requestedSchema } = request.params?.fields ?? {}
    const text = typeof message === 'string' ? message : 'The server requests input.'
    // What the gateway adds to its question has several lines; the question itself is the first one.
    const [first = ''] = text.split('\n')
    const question = of === 'gateway' ? visibleText(text) : oneLine(text)
    const fields = fieldsOf(requestedSchema)
    if (
      of === 'gateway' &&
      isConfirmed &&
      fields.every(({ name, type }) => name !== 'confirm' || type === 'boolean')
    )
      return accepted({ confirm: true })
    if (io.stdin.isTTY)
      return of === 'gateway' ? confirmation(question, fields, io) : filled(question, fields, io)
    if (of === 'server') return responseOf({ action: 'cancel' })
    const isTyped = isConfirmed
      ? 'run the command in a terminal, where the text can be typed'
      : 'run the command in a terminal, or add --yes'
    throw new Error(
      `the call was not made, because it needs a confirmation: ${oneLine(first)} To confirm it, ${isTyped}`,
    )
  }
}

interface Field {
  readonly name: string
  readonly type: unknown
  readonly title: string
  readonly isRequired: boolean
}

function fieldsOf(schema: unknown): readonly Field[] {
  const { properties, required } = asObject(schema)
  if (!isObject(properties)) return []
  const names: readonly unknown[] = Array.isArray(required) ? required : []
  return Object.entries(properties)
    .slice(0, MAX_FIELDS)
    .map(([name, property]) => {
      const { type, title } = asObject(property)
      return {
        name,
        type,
        title: oneLine(typeof title === 'string' ? title : name),
        isRequired: names.includes(name),
      }
    })
}

/** The question of the gateway: yes or no, or a text that has to be typed. */
async function confirmation(question: string, fields: readonly Field[], io: Io): Promise<InputResponse> {
  const typed = fields.find(({ name, type }) => name === 'confirm' && type === 'string')
  return withTerminal(io, async (terminal) => {
    writeError(`${question}\n`, io)
    const answer = typed
      ? (await terminal.question(`${typed.title}: `)).trim()
      : await isYes(terminal, 'Run it?')
    return answer === '' || answer === false
      ? responseOf({ action: 'decline' })
      : accepted({ confirm: answer })
  })
}

/** A form of a server, field by field. An empty answer leaves a field out, and declines if it is required. */
async function filled(question: string, fields: readonly Field[], io: Io): Promise<InputResponse> {
  return withTerminal(io, async (terminal) => {
    writeError(`The server asks: ${question}\n`, io)
    const content: Record<string, unknown> = {}
    for (const { name, type, title, isRequired } of fields) {
      const answer = (await terminal.question(`${title}${isRequired ? ' (empty: decline)' : ''}: `)).trim()
      if (answer === '' && isRequired) return responseOf({ action: 'decline' })
      if (answer !== '') content[name] = type === 'string' ? answer : valueOf(answer)
    }
    return (await isYes(terminal, 'Send these answers?'))
      ? accepted(content)
      : responseOf({ action: 'decline' })
  })
}

function valueOf(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return text
  }
}

async function withTerminal<Value>(
  { stdin: input, stderr: output }: Io,
  ask: (terminal: Interface) => Promise<Value>,
): Promise<Value> {
  const terminal = createInterface({ input, output })
  try {
    return await ask(terminal)
  } finally {
    terminal.close()
  }
}

function accepted(content: Readonly<Record<string, unknown>>): InputResponse {
  return responseOf({ action: 'accept', content })
}

function responseOf(result: Readonly<Record<string, unknown>>): InputResponse {
  return { result: Payload.of(result) }
}
