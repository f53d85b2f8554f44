/** The objects of the dashdash format. */
import type { EntryDefinition } from '../../core/descriptor.ts'
import { ownErrors, possibleErrors } from '../model/failures.ts'
import { examplesOf } from '../model/parameters.ts'
import type { ServerDescription, ToolDescription } from '../model/description.ts'
import { clipped, oneLine } from '../model/text.ts'

/** The version of the dashdash specification that documents follow, and where it is. */
export const specVersion = '0.2.0'
export const specUrl = 'https://github.com/visionik/dashdash'

type Json = Record<string, unknown>

/** What a server says of itself for those who write skills about it. */
export function serverObject(server: ServerDescription): Json {
  const { name, description, emoji, links, install, front, contentVersion, changedAt } = server
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

/** The three URLs of other ways to the same, which are always named. */
export function alternativeAccess({
  links,
}: ServerDescription): Record<'cliUrl' | 'apiUrl' | 'webUrl', string | null> {
  return { cliUrl: links.cli, apiUrl: links.api, webUrl: links.web }
}

/** What is members of a tool for those who write skills about it. */
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
 * The same beside a tool in a list, which clients carry in full: without what is so by default, and without the
 * examples and errors that follow from its schema and the gateway, which `ai_help` has.
 */
export function listedToolObject(tool: ToolDescription): Json {
  const { examples, errors, ...object } = toolObject(tool)
  const { words } = tool
  const members = {
    ...object,
    ...((words.examples?.length ?? 0) > 0 && { examples }),
    ...((words.errors?.length ?? 0) > 0 && { errors: ownErrors(tool) }),
  }
  return Object.fromEntries(Object.entries(members).filter(([, value]) => !isDefault(value)))
}

/** Whether a member says no more than its absence. */
function isDefault(value: unknown): boolean {
  return value === false || value === 0 || (Array.isArray(value) && value.length === 0)
}

/** The same for a resource or a template of resources in a list. */
export function listedResourceObject(definition: EntryDefinition, canSubscribe: boolean): Json {
  const entries = Object.entries(resourceObject(definition, canSubscribe))
  return Object.fromEntries(entries.filter(([, value]) => !isDefault(value)))
}

/** What is members of a resource or a template of resources of a server. */
export function resourceObject(definition: EntryDefinition, canSubscribe: boolean): Json {
  const address = oneLine(definition.ownUri ?? definition.uri ?? definition.uriTemplate)
  const [scheme = ''] = address.split(':')
  const [family = ''] = oneLine(definition.mimeType).split('/')
  const web = /^https?:\/\//.test(address) ? address : undefined
  return {
    resourceType: clipped(isTelling(scheme) ? scheme : family || scheme || 'resource', 40),
    refreshable: canSubscribe,
    // Its lifetime is unknown, so it is not cached.
    cacheDuration: 0,
    ...(web !== undefined && { webEquivalent: web }),
  }
}

/** A point in time as a day. */
export function dayOf(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

/** A scheme says more than a type of media, unless it only says how bytes are got. */
function isTelling(scheme: string): boolean {
  return scheme !== '' && !/^(?:https?|data|urn)$/.test(scheme)
}

/** What it requires, as far as that is known; nothing where nothing is. */
export function needsOf({
  requires,
}: ServerDescription): Readonly<Record<string, readonly string[]>> | undefined {
  const known = Object.entries(requires).filter(([, values]) => values.length > 0)
  return known.length > 0 ? Object.fromEntries(known) : undefined
}
