import type { Call } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import { oneLine } from '../../core/one-line.ts'
import { isTelling, Redactor } from '../../core/redact.ts'
import { rememberText } from '../../core/remember.ts'
import type { Descriptor } from '../../core/entry.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Rule } from './rules.ts'

type Arguments = Readonly<Record<string, unknown>>

/** How long a value may be that stands in a message, and all of them together, in characters. */
const MAX_VALUE_LENGTH = 200
const MAX_SUMMARY_LENGTH = 1000

/** What a person is asked about a call: one line, in which nothing is hidden. */
export function messageOf(rule: Rule, entry: Descriptor, given: Arguments, server: UpstreamSettings): string {
  const { template } = rule
  const text = template === undefined ? general(entry, given, server) : filled(template, given)
  return `${text}${costs(rule)}${promise(rule)}`
}

/** What the caller says it wants with a call. It stands last: nothing after it could be its word as well as ours. */
export function stated({ intent }: Pick<Call, 'intent'>): string {
  return intent === undefined || intent === ''
    ? ''
    : ` Stated reason, not verified: “${shown(intent).replaceAll(/[“”]/g, '"')}”`
}

/** What people will be asked about calls of a tool; arguments are named in braces. */
export function templateOf(rule: Rule, entry: Descriptor, server: UpstreamSettings): string {
  return `${rule.template ?? `Run ${named(entry)}?${told(entry, server)}`}${costs(rule)}`
}

/** What a person has to type: the value of the argument, or the tool's name where that can not be typed. */
export function typedText({ typed }: Rule, { name }: Descriptor, given: Arguments): string | undefined {
  if (typed === undefined) return undefined
  const value = Object.hasOwn(given, typed) ? given[typed] : undefined
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  const text = isPlain ? String(value).trim() : ''
  const isTypable =
    text !== '' && text.length <= MAX_VALUE_LENGTH && shortLine(text) === text && !isTelling(typed)
  return isTypable ? text : name
}

function filled(template: string, given: Arguments): string {
  return template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    const key = name.trim()
    if (!Object.hasOwn(given, key) || given[key] === undefined) return '?'
    return isTelling(key) ? '***' : shown(given[key])
  })
}

function general(entry: Descriptor, given: Arguments, server: UpstreamSettings): string {
  const values = Object.entries(given).map(([key, value]) => {
    return `${shortLine(key)}: ${isTelling(key) ? '***' : shown(value)}`
  })
  const summary = cut(values.join(', '), MAX_SUMMARY_LENGTH)
  return `Run ${named(entry)}${summary === '' ? '' : ` with ${summary}`}?${told(entry, server)}`
}

function named({ name, upstream }: Descriptor): string {
  return `${cut(shortLine(name), MAX_VALUE_LENGTH)} on ${upstream}`
}

/** The first sentence of what a server says of its tool, where the server is believed. */
function told({ definition }: Descriptor, { trust }: UpstreamSettings): string {
  const { description } = definition
  if (!trust || typeof description !== 'string') return ''
  const [sentence = ''] = description.trim().split(/(?<=[.!?])\s|\n/, 1)
  return sentence === '' ? '' : ` ${cut(shortLine(sentence), MAX_VALUE_LENGTH)}`
}

function costs({ price }: Rule): string {
  return price === undefined ? '' : ` It costs ${price}.`
}

function promise({ remember }: Rule): string {
  if (!remember || remember.offer || remember.max < 2) return ''
  return ` Agreeing holds for ${rememberText(remember)}.`
}

const redactor = new Redactor()

function shown(value: unknown): string {
  if (typeof value === 'string') return cut(shortLine(value), MAX_VALUE_LENGTH)
  const text = JSON.stringify(isObject(value) || Array.isArray(value) ? redactor.value(value) : value)
  return cut(shortLine(text), MAX_VALUE_LENGTH)
}

/** What is cut off need not be read. */
function shortLine(text: string): string {
  return oneLine(text.slice(0, MAX_SUMMARY_LENGTH).toWellFormed())
}

function cut(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest - 1).toWellFormed()}…` : text
}
