/** The objects of the dashdash format. */
import type { EntryDefinition } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { type ResourceWords, settingAt } from '../../core/settings.ts'
import { starsIn } from '../../core/text/pattern.ts'
import { installationOf, ownErrors, possibleErrors } from '../model/facts.ts'
import { examplesOf } from '../model/parameters.ts'
import type { ServerDescription, ToolDescription } from '../model/description.ts'
import { clipped, oneLine } from '../model/text.ts'

/** The version of the dashdash specification, and its URL. */
export const specVersion = '0.2.0'
export const specUrl = 'https://github.com/visionik/dashdash'

type Json = Record<string, unknown>

/** The description of a server for authors of skills. */
export function serverObject(server: ServerDescription): Json {
  const { name, description, emoji, links, front, contentVersion, changedAt } = server
  const install = installationOf(server)
  const needs = needsOf(server)
  return {
    specVersion,
    identity: { name, description, ...(emoji !== undefined && { emoji }) },
    accessLevel: server.accessLevel,
    alternativeAccess: alternativeAccess(server),
    ...(Object.keys(install).length > 0 && { install }),
    ...(needs && { requires: needs }),
    invocation: { modelInvocable: true, userInvocable: true },
    ...(front.rates.length > 0 && { rateLimit: front.rates.join(', ') }),
    ...(links.homepage !== undefined && { homepage: links.homepage }),
    ...(links.repository !== undefined && { repository: links.repository }),
    ...(links.statusPage !== undefined && { statusPage: links.statusPage }),
    ...(contentVersion !== '' && { contentVersion }),
    ...(changedAt !== undefined && { lastUpdated: dayOf(changedAt) }),
  }
}

/** The three URLs of alternatives, which are always present. */
export function alternativeAccess({
  links,
}: ServerDescription): Record<'cliUrl' | 'apiUrl' | 'webUrl', string | null> {
  return { cliUrl: links.cli, apiUrl: links.api, webUrl: links.web }
}

/** The description of a tool for authors of skills. */
export function toolObject(tool: ToolDescription): Json {
  const { classification, facts, words, effects } = tool
  const isRead = classification.op === 'read'
  const examples = examplesOf(tool)
  const errors = possibleErrors(tool)
  return {
    category: tool.category,
    operationType: classification.op,
    idempotent: classification.idempotent,
    ...(!isRead && { idempotentWithKey: classification.idempotent || facts.isIdempotentWithKey === true }),
    sideEffects: effects,
    ...(!isRead && { reversible: facts.undo !== undefined }),
    ...(tool.undoneBy !== undefined && { reverseMethod: tool.undoneBy }),
    ...(words.cli !== undefined && { cliEquivalent: words.cli }),
    ...(words.api !== undefined && { apiEquivalent: words.api }),
    ...(facts.rates !== undefined && facts.rates.length > 0 && { rateLimit: facts.rates.join(', ') }),
    ...(examples.length > 0 && { examples }),
    ...(errors.length > 0 && { errors }),
  }
}

/**
 * The same for a tool in a list, which clients load in full: without what is not known to be false, zero or empty, and
 * without the examples and errors that are derived from its schema and the gateway, which are in `ai_help`.
 */
export function listedToolObject(tool: ToolDescription): Json {
  const { examples, errors, ...object } = toolObject(tool)
  const { words } = tool
  const members = {
    ...object,
    ...((words.examples?.length ?? 0) > 0 && { examples }),
    ...((words.errors?.length ?? 0) > 0 && { errors: ownErrors(tool) }),
  }
  return without(members, tool.denied)
}

/** An object without the members that have their default value, except for those that are known to have it. */
function without(object: Json, known: ReadonlySet<string>): Json {
  return Object.fromEntries(
    Object.entries(object).filter(([key, value]) => !isDefault(value) || known.has(key)),
  )
}

/**
 * The object of an entry in a list: what the server itself says there comes first. A server that is not trusted says
 * nothing about what the gateway judges and limits, unless it is stricter.
 */
export function withOwnWords(object: Json, { dashdash: own }: EntryDefinition, isTrusted: boolean): Json {
  if (!isObject(own)) return object
  return { ...object, ...(isTrusted ? own : stricterWords(own, object)) }
}

/**
 * The object of a server: what it says of itself comes first, in the same way, but not how it is installed and what that
 * requires, since clients connect to the gateway.
 */
export function withServerWords(object: Json, own: unknown, isTrusted: boolean): Json {
  if (!isObject(own)) return object
  const { install: _install, requires: _requires, ...words } = own
  if (isTrusted) return { ...object, ...words }
  const access = withMissing(object.alternativeAccess, words.alternativeAccess)
  return { ...object, ...stricterWords(words, object), ...(access && { alternativeAccess: access }) }
}

/** The members that the gateway judges or sets, and whether a value is stricter than its own. */
const judged: Readonly<Record<string, (value: unknown, own: unknown) => boolean>> = {
  specVersion: () => false,
  contentVersion: () => false,
  // Its members are taken one by one.
  alternativeAccess: () => false,
  rateLimit: () => false,
  reverseMethod: () => false,
  accessLevel: isLater(['read', 'interact', 'full']),
  operationType: isLater(['read', 'write', 'delete', 'admin', 'execute']),
  idempotent: isFalse,
  idempotentWithKey: isFalse,
  reversible: isFalse,
}

function stricterWords(words: Json, object: Json): Json {
  const kept = Object.entries(words).filter(([key, value]) => {
    const isStricter = Object.hasOwn(judged, key) ? judged[key] : undefined
    return isStricter?.(value, object[key]) ?? true
  })
  return Object.fromEntries(kept)
}

/** Whether a value comes after another one in an order, from the lowest risk to the highest. */
function isLater(order: readonly unknown[]): (value: unknown, own: unknown) => boolean {
  return (value, own) => order.indexOf(value) > order.indexOf(own)
}

function isFalse(value: unknown): boolean {
  return value === false
}

/** Members, of which those that are null have the other value; undefined if there are none of either. */
function withMissing(known: unknown, others: unknown): Json | undefined {
  if (!isObject(known) || !isObject(others)) return undefined
  return Object.fromEntries(Object.entries(known).map(([key, value]) => [key, value ?? others[key] ?? null]))
}

/** Whether a member has its default value. */
function isDefault(value: unknown): boolean {
  return value === false || value === 0 || (Array.isArray(value) && value.length === 0)
}

/** What is known of the resources of a server. */
type ResourceFacts = Pick<ServerDescription, 'canSubscribe' | 'resourceWords'>

/** The same for a resource or resource template in a list: without what is not known to be false or zero. */
export function listedResourceObject(definition: EntryDefinition, facts: ResourceFacts): Json {
  const words = wordsOfResource(addressOf(definition), facts)
  return without(resourceObject(definition, facts), new Set(Object.keys(words)))
}

/** The description of a resource or resource template. */
export function resourceObject(definition: EntryDefinition, facts: ResourceFacts): Json {
  const address = addressOf(definition)
  const [scheme = ''] = address.split(':')
  const [family = ''] = oneLine(definition.mimeType).split('/')
  return {
    resourceType: clipped(isDescriptiveScheme(scheme) ? scheme : family || scheme || 'resource', 40),
    refreshable: facts.canSubscribe,
    // Unless the configuration has its lifetime, it is not cached.
    cacheDuration: 0,
    ...(/^https?:\/\//.test(address) && { webEquivalent: address }),
    ...wordsOfResource(address, facts),
  }
}

function addressOf({ ownUri, uri, uriTemplate }: EntryDefinition): string {
  return oneLine(ownUri ?? uri ?? uriTemplate)
}

/** What the configuration says of a resource. */
function wordsOfResource(address: string, { resourceWords }: ResourceFacts): Json {
  const word = <Key extends keyof ResourceWords>(key: Key) =>
    settingAt<ResourceWords, Key>(resourceWords, address, key)
  const [type, refreshable, cache, web, api] = [
    word('type'),
    word('refreshable'),
    word('cache'),
    word('web'),
    word('api'),
  ]
  return {
    ...(type && { resourceType: clipped(oneLine(type.value), 40) }),
    ...(refreshable && { refreshable: refreshable.value }),
    ...(cache && { cacheDuration: Math.floor(cache.value / 1000) }),
    ...(web && { webEquivalent: filled(web, address) }),
    ...(api && { apiEquivalent: filled(api, address) }),
  }
}

/** A text with the URI in the place of `{uri}`, and what the stars of the glob stand for in that of `{1}`, `{2}`. */
function filled({ glob, value }: { readonly glob: string; readonly value: string }, address: string): string {
  const stars = starsIn(glob, address) ?? []
  return oneLine(value).replaceAll(/\{(uri|\d+)\}/g, (whole, name: string) =>
    name === 'uri' ? address : (stars[Number(name) - 1] ?? whole),
  )
}

/** A time as a date. */
export function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

/** Whether a URI scheme says what a resource is, not just how its bytes are fetched. */
function isDescriptiveScheme(scheme: string): boolean {
  return scheme !== '' && !/^(?:https?|data|urn)$/.test(scheme)
}

/** The known requirements; undefined if there are none. */
export function needsOf({
  requires,
}: ServerDescription): Readonly<Record<string, readonly string[]>> | undefined {
  const known = Object.entries(requires).filter(([, values]) => values.length > 0)
  return known.length > 0 ? Object.fromEntries(known) : undefined
}
