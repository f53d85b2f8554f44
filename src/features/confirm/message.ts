import { escapeHidden } from '../../core/hidden.ts'
import { isObject } from '../../core/json.ts'
import { isTelling, Redactor } from '../../core/redact.ts'
import type { Entry } from '../../core/entry.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Rule } from './rules.ts'

type Arguments = Readonly<Record<string, unknown>>

/** How long a value may be that stands in a message, and all of them together, in characters. */
const LONGEST = 200
const LONGEST_SUMMARY = 1000

/** What a person is asked about a call: one line, in which nothing is hidden. */
export function messageOf(rule: Rule, entry: Entry, given: Arguments, server: UpstreamSettings): string {
  const { template } = rule
  const text = template === undefined ? general(entry, given, server) : filled(template, given)
  return `${text}${costs(rule)}${promise(rule)}`
}

/** What people will be asked about calls of a tool; arguments are named in braces. */
export function templateOf(rule: Rule, entry: Entry, server: UpstreamSettings): string {
  return `${rule.template ?? `Run ${named(entry)}?${told(entry, server)}`}${costs(rule)}`
}

/** What a person has to type: the value of the argument, or the tool's name where that can not be typed. */
export function typedText({ typed }: Rule, { name }: Entry, given: Arguments): string | undefined {
  if (typed === undefined) return undefined
  const value = Object.hasOwn(given, typed) ? given[typed] : undefined
  const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
  const text = isPlain ? String(value).trim() : ''
  const isTypable = text !== '' && text.length <= LONGEST && oneLine(text) === text && !isTelling(typed)
  return isTypable ? text : name
}

function filled(template: string, given: Arguments): string {
  return template.replaceAll(/\{([^{}]+)\}/g, (_found, name: string) => {
    const key = name.trim()
    if (!Object.hasOwn(given, key) || given[key] === undefined) return '?'
    return isTelling(key) ? '***' : shown(given[key])
  })
}

function general(entry: Entry, given: Arguments, server: UpstreamSettings): string {
  const values = Object.entries(given).map(([key, value]) => {
    return `${oneLine(key)}: ${isTelling(key) ? '***' : shown(value)}`
  })
  const summary = cut(values.join(', '), LONGEST_SUMMARY)
  return `Run ${named(entry)}${summary === '' ? '' : ` with ${summary}`}?${told(entry, server)}`
}

function named({ name, upstream }: Entry): string {
  return `${cut(oneLine(name), LONGEST)} on ${upstream}`
}

/** The first sentence of what a server says of its tool, where the server is believed. */
function told({ definition }: Entry, { trust }: UpstreamSettings): string {
  const { description } = definition
  if (!trust || typeof description !== 'string') return ''
  const [sentence = ''] = description.trim().split(/(?<=[.!?])\s|\n/, 1)
  return sentence === '' ? '' : ` ${cut(oneLine(sentence), LONGEST)}`
}

function costs({ price }: Rule): string {
  return price === undefined ? '' : ` It costs ${price}.`
}

function promise({ remember }: Rule): string {
  if (!remember || remember.max < 2) return ''
  return ` Agreeing holds for ${remember.max} calls of this tool within ${duration(remember.for)}.`
}

function duration(milliseconds: number): string {
  const minutes = milliseconds / 60_000
  return Number.isInteger(minutes) ? `${minutes} min` : `${Math.ceil(milliseconds / 1000)} s`
}

const redactor = new Redactor()

function shown(value: unknown): string {
  if (typeof value === 'string') return cut(oneLine(value), LONGEST)
  const text = JSON.stringify(isObject(value) || Array.isArray(value) ? redactor.value(value) : value)
  return cut(oneLine(text), LONGEST)
}

function oneLine(text: string): string {
  // What is cut off need not be read.
  return escapeHidden(text.slice(0, LONGEST_SUMMARY).toWellFormed()).replaceAll('\n', '\\n')
}

function cut(text: string, longest: number): string {
  return text.length > longest ? `${text.slice(0, longest - 1).toWellFormed()}…` : text
}
