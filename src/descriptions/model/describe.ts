/**
 * Creates the description of one server, or of all, from records and settings, and that of the gateway itself:
 * authentication, limits, extensions.
 */
import { createHash } from 'node:crypto'
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import type { Descriptor, EntryDefinition, Risk, ServerRecord, ToolDetails } from '../../core/descriptor.ts'
import { self } from '../../core/identity.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import { verbClass } from '../../core/judgement/lexicon.ts'
import { DEFAULT_RATE, limitScope } from '../../core/principal.ts'
import {
  featureSettings,
  isAsked,
  onlyServer,
  settingOf,
  type Settings,
  type ToolSettings,
  type ToolWords,
  type UpstreamSettings,
} from '../../core/settings.ts'
import { reportedRisk, type StatedTool, statedTool } from '../../core/stated-tool.ts'
import { aliasOf, ownAliasOf } from '../../core/text/alias.ts'
import { actionOf } from '../../core/text/synonyms.ts'
import { stem, wordsOf } from '../../core/text/words.ts'
import { shapeOf } from '../../core/undo/tool-shape.ts'
import { ownTitle } from './completed.ts'
import {
  asksForToken,
  type AuthMethod,
  type Front,
  type Links,
  type ServerDescription,
  type ToolDescription,
} from './description.ts'
import { authNames, isApart, requiredScopes } from './facts.ts'
import {
  accessOf,
  asksOf,
  categoriesOf,
  describe,
  objectOf,
  ownWordsOf,
  purposeOf,
  purposeOfAll,
  triggersOf,
} from './purpose.ts'
import { clean, firstSentence, oneLine } from './text.ts'

/** The input of a description: the record and the settings of a server. */
interface Source {
  readonly record: ServerRecord
  readonly settings: Pick<UpstreamSettings, 'tools' | 'resources' | 'recommend' | 'trust'>
  /** The types of events that no tool has, as they are named at the address of the server. */
  readonly events?: readonly EventType[]
}

interface EventType {
  readonly name: string
  readonly description: string
}

/** The exposed names of tools, prompts and resources. */
export interface Naming {
  name(upstream: string, name: string): string
  uri(upstream: string, uri: string): string
  /** The names of events; absent where they have their own. */
  event?(upstream: string, name: string): string
  /** Tools of several servers may have the same name. */
  readonly isApart?: boolean
}

const asListed: Naming = { name: (_upstream, name) => name, uri: (_upstream, uri) => uri }

/** The description of one server. */
export function describeServer(
  { record, settings, events = [] }: Source,
  front: Front,
  naming: Naming = asListed,
): ServerDescription {
  const { about, info, name, contentVersion, changedAt, capabilities } = record
  const tools = toolsOf({ record, settings }, naming, asksForToken(front))
  const purpose = purposeOf(record, tools)
  const written = about.useWhen?.map(oneLine)
  const useWhen = written ?? asksOf(tools)
  const named = <Kept extends EntryDefinition>(entries: readonly Kept[]) =>
    entries.map((entry) => namedAs(entry, name, naming))
  const own = semver(info.version)
  return {
    name,
    title: oneLine(info.title) || name,
    purpose,
    description: describe(purpose, written ?? triggersOf(tools), written ? undefined : about.about),
    useWhen,
    notFor: about.notFor?.map(oneLine) ?? [],
    ...(about.emoji !== undefined && { emoji: about.emoji }),
    ...own,
    isUp: record.isUp,
    accessLevel: about.access ?? accessOf(tools),
    links: linksOf(record),
    install: about.install ?? {},
    requires: {
      auth: about.requires?.auth ?? authNames(front),
      // Those of the server itself are the gateway's business.
      env: about.requires?.env ?? [],
      scopes: about.requires?.scopes ?? scopesOf(tools),
    },
    contentVersion,
    ...(changedAt !== undefined && { changedAt }),
    canSubscribe: canSubscribe(capabilities),
    tools,
    prompts: named(record.prompts),
    resources: named(record.resources),
    templates: named(record.resourceTemplates),
    resourceWords: settings.resources ?? {},
    recommend: settings.recommend,
    events: eventsOf(events, name, naming),
    parts: [],
    front,
  }
}

/** The description of all servers together; unavailable ones contribute no tools. */
export function describeAllServers(parts: readonly ServerDescription[], front: Front): ServerDescription {
  const up = parts.filter(({ isUp }) => isUp)
  const changes = parts.flatMap(({ changedAt }) => changedAt ?? [])
  const purpose = purposeOfAll(parts, isApart({ front, parts }))
  const most = Math.max(1, Math.floor(8 / parts.length))
  const useWhen = [...new Set(parts.flatMap((part) => part.useWhen.slice(0, most)))]
  const tools = up.flatMap((part) => part.tools)
  return {
    name: self.name,
    title: self.title,
    purpose,
    description: describe(purpose, useWhen),
    useWhen,
    // Another server may be suitable for this.
    notFor: parts.flatMap((part) => part.notFor.map((each) => `${each} (with ${part.name})`)),
    version: front.version,
    isUp: up.length > 0,
    accessLevel: widest(parts),
    links: { cli: null, api: null, web: null },
    install: {},
    requires: { auth: authNames(front), env: [], scopes: scopesOf(tools) },
    contentVersion: digest(parts.map((part) => `${part.name} ${part.contentVersion} ${part.isUp}`)),
    ...(changes.length > 0 && { changedAt: Math.max(...changes) }),
    canSubscribe: parts.some((part) => part.canSubscribe),
    tools,
    prompts: up.flatMap(({ prompts }) => prompts),
    resources: up.flatMap(({ resources }) => resources),
    templates: up.flatMap(({ templates }) => templates),
    resourceWords: {},
    recommend: parts.flatMap(({ recommend }) => recommend),
    events: parts.flatMap(({ events }) => events),
    parts,
    front,
  }
}

function toolsOf({ record, settings }: Source, naming: Naming, isGuarded: boolean): ToolDescription[] {
  const categories = categoriesOf(record.tools, record.name)
  const ownWords = ownWordsOf(record.tools, record.name)
  const drawn = record.tools.map((tool, at): ToolDescription => {
    const { definition, classification } = tool.entry
    const stated = statedTool(definition)
    const words = { ...statedWords(stated), ...wordsOfTool(settings.tools, tool.entry.name) }
    const name = naming.name(record.name, tool.entry.name)
    const title = ownTitle(definition) || oneLine(tool.entry.name)
    const undo = tool.facts.undo?.tool
    const description = clean(definition.description).trim()
    return {
      name,
      alias: name === tool.entry.name ? tool.alias : aliasOf(name),
      upstream: record.name,
      ...(naming.isApart === true && { of: record.name }),
      title,
      description: description === '' ? title : description,
      summary: firstSentence(definition.description) || title,
      category: oneLine(words.category) || (categories.get(tool) ?? record.name),
      effects: words.effects?.map(oneLine) ?? effectsOf(tool.entry, ownWords[at] ?? []),
      scopes: isGuarded ? requiredScopes(tool.facts) : [],
      isDeprecated: words.deprecated !== undefined || shapeOf(definition).isDeprecated,
      denied: deniedOf(tool.entry, settings.tools),
      ...(undo !== undefined && { undoneBy: naming.name(record.name, undo) }),
      ...(tool.facts.event !== undefined && { event: eventName(record.name, tool.facts.event, naming) }),
      definition,
      classification,
      facts: tool.facts,
      words,
      risk: riskOf(tool, stated, settings),
      ...questionOf(tool, stated, settings),
      ...(stated.scopes && { ownScopes: stated.scopes }),
      ...(tool.statistics && { statistics: tool.statistics }),
    }
  })
  return withOwnAliases(drawn)
}

/** What the server or the configuration says is false. */
function deniedOf(
  { name, definition }: Descriptor,
  tools: Readonly<Record<string, ToolSettings>>,
): ToolDescription['denied'] {
  const hints = asObject(definition.annotations)
  const stated = statedTool(definition).idempotent ?? hints.idempotentHint
  const isRepeatable = settingOf(tools, name, 'idempotent')?.value ?? stated
  const cannotUndo =
    settingOf(tools, name, 'undo')?.value === 'none' || settingOf(tools, name, 'pivot')?.value === true
  return new Set([
    ...(isRepeatable === false ? (['idempotent'] as const) : []),
    ...(cannotUndo ? (['reversible'] as const) : []),
  ])
}

function eventsOf(
  events: readonly EventType[],
  upstream: string,
  naming: Naming,
): ServerDescription['events'] {
  return events.map(({ name, description }) => ({
    name: eventName(upstream, name, naming),
    description: clean(description).trim(),
  }))
}

function eventName(upstream: string, name: string, { event }: Naming): string {
  return event ? event(upstream, name) : name
}

/** Gives tools with the same alias distinct ones: a shared alias would not identify the tool. */
function withOwnAliases(tools: readonly ToolDescription[]): ToolDescription[] {
  const count = new Map<string, number>()
  for (const { alias } of tools) count.set(alias, (count.get(alias) ?? 0) + 1)
  return tools.map((tool) => {
    const isOwn = tool.alias === tool.name || count.get(tool.alias) === 1
    return isOwn ? tool : { ...tool, alias: ownAliasOf(tool.name) }
  })
}

function namedAs(entry: EntryDefinition, upstream: string, naming: Naming): EntryDefinition {
  const { uri, uriTemplate, name } = entry
  // The kind of a resource is only visible in its original URI.
  if (typeof uri === 'string') return { ...entry, uri: naming.uri(upstream, uri), ownUri: uri }
  if (typeof uriTemplate === 'string')
    return { ...entry, uriTemplate: naming.uri(upstream, uriTemplate), ownUri: uriTemplate }
  return typeof name === 'string' ? { ...entry, name: naming.name(upstream, name) } : entry
}

function linksOf({ about, info }: ServerRecord): Links {
  const site = webUrl(info.websiteUrl)
  const { cli, api, web, homepage = site, repository, statusPage, documentation } = about
  return {
    cli: webUrl(cli) ?? null,
    api: webUrl(api) ?? null,
    web: webUrl(web) ?? site ?? null,
    ...withUrl('homepage', homepage),
    ...withUrl('repository', repository),
    ...withUrl('statusPage', statusPage),
    ...withUrl('documentation', documentation),
  }
}

function withUrl<Key extends string>(key: Key, value: unknown): { readonly [key in Key]?: string } {
  const url = webUrl(value)
  const found: { [key in Key]?: string } = {}
  if (url !== undefined) found[key] = url
  return found
}

/** The URL of a web page, without user and password. */
function webUrl(value: unknown): string | undefined {
  if (typeof value !== 'string' || !URL.canParse(value)) return undefined
  const url = new URL(value)
  if (!/^https?:$/.test(url.protocol) || url.username !== '' || url.password !== '') return undefined
  return url.href === `${value}/` ? value : url.href
}

function canSubscribe({ resources }: EntryDefinition): boolean {
  return isObject(resources) && resources.subscribe === true
}

function scopesOf(tools: readonly ToolDescription[]): string[] {
  return [...new Set(tools.flatMap(({ scopes }) => scopes))].toSorted()
}

function widest(parts: readonly ServerDescription[]): ServerDescription['accessLevel'] {
  const levels = parts.map(({ accessLevel }) => accessLevel)
  if (levels.includes('full')) return 'full'
  return levels.includes('interact') ? 'interact' : 'read'
}

function digest(lines: readonly string[]): string {
  return createHash('sha256').update(lines.join('\n')).digest('hex').slice(0, 16)
}

/** A version padded to three numbers; with the original text if that differs. */
function semver(version: unknown): { readonly version: string; readonly wireVersion?: string } {
  const written = oneLine(version)
  const [, major, minor = '0', patch = '0', rest = ''] =
    /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?([-+][\w.+-]+)?$/.exec(written) ?? []
  const padded = major === undefined ? '0.0.0' : `${major}.${minor}.${patch}${rest}`
  return { version: padded, ...(written !== '' && written !== padded && { wireVersion: written }) }
}

/** The question about calls of a tool, of the gateway or of a server that asks itself. */
function questionOf(
  { entry: { name }, facts }: ToolDetails,
  stated: StatedTool,
  { tools, trust }: Source['settings'],
): { readonly question?: string } {
  const isOwners = settingOf(tools, name, 'confirm') !== undefined
  const own = trust ? (stated.question ?? '') : ''
  if (facts.confirmation?.isSkippedIfUndoable) return {}
  const question = facts.confirmation?.message ?? (stated.needsConfirmation && !isOwners ? own : undefined)
  return question === undefined ? {} : { question }
}

/** The risk of a tool: its owner says it, or else its server, if it is trusted and nobody has to be asked before a call. */
function riskOf(
  { entry, facts }: ToolDetails,
  stated: StatedTool,
  { tools, trust }: Source['settings'],
): Risk {
  const { risk } = entry.classification
  if (settingOf(tools, entry.name, 'risk') !== undefined) return risk
  return reportedRisk(stated.risk, risk, trust && facts.confirmation === undefined)
}

/** What the server says of a tool, as its owner would say it. */
function statedWords({ cost, latency, accepts, returns, maxInput }: StatedTool): ToolWords {
  return {
    ...(cost && { cost }),
    ...(latency && { latency }),
    ...(accepts && { accepts }),
    ...(returns && { returns }),
    ...(maxInput !== undefined && { maxInput }),
  }
}

/** The configured description of a tool. */
function wordsOfTool(tools: Readonly<Record<string, ToolSettings>>, name: string): ToolWords {
  const found = keys.flatMap((key) => {
    const setting = settingOf(tools, name, key)
    return setting ? [[key, setting.value] as const] : []
  })
  return Object.fromEntries(found)
}

const keys = [
  'category',
  'effects',
  'cli',
  'api',
  'examples',
  'errors',
  'cost',
  'latency',
  'accepts',
  'returns',
  'maxInput',
  'provenance',
  'deprecated',
] as const satisfies readonly (keyof ToolWords)[]

/** The side effects of a tool, derived from its name; empty if it is read-only. */
function effectsOf({ classification, upstream, definition }: Descriptor, words: readonly string[]): string[] {
  if (classification.op === 'read') return []
  const [verb = '', ...rest] = words
  if (rest.length === 0 || !isVerb(verb, definition.description)) return [`may change data of ${upstream}`]
  return [`${conjugated(verb)} ${object(rest)} in ${upstream}`]
}

/** Whether a name begins with its verb: it may begin with a noun, as in `file_upload`. */
function isVerb(word: string, description: unknown): boolean {
  if (!/^[a-z]{2,}$/.test(word)) return false
  const root = stem(word)
  const kind = verbClass(word)
  const [first = ''] = typeof description === 'string' ? wordsOf(description.slice(0, 100)) : []
  // Words of administration are often nouns: `role`, `billing`.
  return (kind !== undefined && kind !== 'admin') || actionOf(root) !== undefined || stem(first) === root
}

function conjugated(verb: string): string {
  if (/[^aeiou]y$/.test(verb)) return `${verb.slice(0, -1)}ies`
  return /(?:s|x|z|ch|sh|o)$/.test(verb) ? `${verb}es` : `${verb}s`
}

const articles: ReadonlySet<string> = new Set([
  'a',
  'an',
  'the',
  'all',
  'any',
  'multiple',
  'to',
  'from',
  'in',
])

function object(words: readonly string[]): string {
  const [first = ''] = words
  const noun = objectOf(words).at(-1) ?? ''
  const isBare =
    articles.has(first) || /[^s]s$/.test(noun) || /(?:[a-z]{3}ing|data|content|access|children)$/.test(noun)
  const article = isBare ? '' : /^[aeiou]/.test(first) ? 'an ' : 'a '
  return article + words.join(' ')
}

interface GatewayFacts {
  readonly settings: Settings
  /** Whether a feature is on for a server or, without a name, at all. */
  isOn(feature: string, upstream?: string): boolean
  /** Callers are authenticated, or the profile is `corporate`. */
  readonly isGuarded: boolean
  /** The URL of a page of the gateway; undefined if it serves none. */
  page(path: string): string | undefined
}

/** The extensions in a manifest, and their features. */
const extensions = [
  ['progress_notifications', 'progress'],
  ['idempotency', 'idempotency'],
  ['transactions', 'transactions'],
  ['session_state', 'state'],
  ['human_in_the_loop', 'confirm'],
  ['data_references', 'references'],
  ['subscribe_notify', 'events'],
  ['structured_errors', 'errors'],
  ['provenance', 'provenance'],
  ['intent_hints', 'intent'],
  ['server_recommendations', 'discovery'],
  ['multimodal_signatures', 'multimodal'],
  ['conformance', 'conformance'],
] as const

/** Describes the gateway for documents about one server, or about all of them. */
export function frontOf(upstream: string | undefined, options: GatewayFacts): Front {
  const { settings, isOn, page } = options
  const isOne = onlyServer(settings) !== undefined
  const isServed = page('/mcp') !== undefined
  const path = upstream === undefined || isOne ? '/mcp' : `/mcp/${upstream}`
  const isThere = upstream !== undefined || isOne || settings.listen.aggregate
  const endpoint = isThere ? page(path) : undefined
  // Transactions need explicit calls of the client, and idempotency keys for steps.
  const canBegin = isAsked(settings) && isOn('idempotency', upstream)
  const isPossible = (extension: string): boolean => {
    if (extension === 'transactions') return canBegin
    return extension !== 'subscribe_notify' || isAsked(settings)
  }
  return {
    ...(endpoint !== undefined && { endpoint }),
    version: self.version,
    profile: settings.profile,
    auth: authOf(options, isServed),
    rates: ratesOf(options, upstream),
    limits: !isServed ? [] : [`A request may have at most ${settings.listen.body} bytes`],
    extensions: extensions.flatMap(([name, feature]) =>
      isOn(feature, upstream) && isPossible(name) ? [name] : [],
    ),
    hasDryRuns: isOn('dry_run', upstream),
    hasEvents: isOn('events', upstream),
    isRecorded: settings.observe.audit !== undefined,
    hasHelp: isOn('help', upstream) && isAsked(settings),
    isHelpListed: isOn('help', upstream) && isListed(options, 'help', upstream),
    isSkillListed: isOn('skills', upstream) && listedBy(settings, 'skills', upstream) !== false,
    ownTools: settings.metaTools,
  }
}

/** Whether the tool of a feature is listed: by its own settings, else by those of all built-in tools. */
function isListed({ settings }: GatewayFacts, feature: string, upstream: string | undefined): boolean {
  const { metaTools } = settings
  return metaTools !== 'off' && (listedBy(settings, feature, upstream) ?? metaTools === 'listed')
}

/** Validated by the feature's schema when the configuration was loaded. */
function listedBy(settings: Settings, feature: string, upstream: string | undefined): boolean | undefined {
  const own = featureSettings(settings, feature, upstream)
  return isObject(own) && typeof own.listed === 'boolean' ? own.listed : undefined
}

/** The authentication of callers over HTTP; stdio has none. */
function authOf({ settings: { auth }, isOn }: GatewayFacts, isServed: boolean): Front['auth'] {
  if (!isServed || !isProtected(auth)) return { methods: ['none'] }
  const { authorizationServers, elevateUrl, session } = auth
  const methods: AuthMethod[] =
    authorizationServers.length > 0 ? ['oauth2_code', 'bearer_token'] : ['bearer_token']
  const claims = claimsOf(auth)
  return {
    methods,
    ...(claims && { claims }),
    issuers: authorizationServers,
    ...(elevateUrl !== undefined && { elevateUrl }),
    ...(isOn('permissions') && { sessionTtl: Math.round(session.idle / 1000) }),
  }
}

/** The claims that are read: of a signed token, or else of the response of the introspection endpoint. */
function claimsOf({ jwt, introspect }: AuthSettings): Front['auth']['claims'] {
  const times = { nbf: 'the start of validity, checked if present' }
  if (jwt) {
    return {
      iss: 'required, the configured issuer',
      aud: 'required, the URL of this endpoint or another configured audience',
      exp: 'required, the end of validity',
      ...times,
      iat: 'required, the time of issue, which is not in the future',
      ...Object.fromEntries(jwt.requiredClaims.map((claim) => [claim, 'required'])),
      sub: 'required, the identity of the caller',
      [jwt.scopeClaim]: 'the scopes of the caller; none without it',
    }
  }
  return (
    introspect && {
      active: 'required, true',
      aud: `${introspect.requiresAudience ? 'required' : 'checked if present'}, the URL of this endpoint or another configured audience`,
      exp: 'the end of validity, checked if present',
      ...times,
      sub: 'the identity of the caller',
      client_id: 'the identity of a caller that is a client, if there is no subject',
      scope: 'the scopes of the caller; none without it',
    }
  )
}

/** The rate limits per caller, for the server or for all servers. */
function ratesOf({ settings, isGuarded }: GatewayFacts, upstream: string | undefined): string[] {
  const all = rateIn(featureSettings(settings, 'rate_limit'))
  const own = upstream === undefined ? undefined : rateIn(featureSettings(settings, 'rate_limit', upstream))
  const { together, alone } = limitScope(all, own, isGuarded ? [DEFAULT_RATE] : undefined)
  return [together, alone].flatMap((each) => each ?? [])
}

/** Validated by the feature's schema when the configuration was loaded. */
function rateIn(settings: unknown): readonly string[] | 'off' | undefined {
  const rate = isObject(settings) ? settings.rate : undefined
  if (rate === undefined || rate === 'off') return rate
  return Array.isArray(rate) ? rate.map(String) : typeof rate === 'string' ? rate.split(',') : undefined
}
