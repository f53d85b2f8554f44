/** Checks that a schema cannot express: consistency between values. */
import { isObject } from '../core/json/json.ts'
import { isLoopbackHost } from '../core/address.ts'
import { isHttpUrl } from './names.ts'
import { pageWarnings, requiresTokens, checkAuth } from './sections/auth-checks.ts'
import { areEventsOn, eventProblems } from './sections/events.ts'
import { idleMasks, maskProblems } from './sections/tool-checks.ts'
import type { Checked, Finding } from './problem.ts'
import { auditWarnings } from './sections/observe.ts'
import { checkStore } from './sections/store.ts'
import { checkUpstream } from './sections/upstream.ts'
import { missingTokens, sharedGrants } from './sections/upstream-oauth.ts'

/**
 * Checks a file's expanded values beyond the schema: consistency between keys, and whether URLs are valid and
 * directories exist. It makes no assumptions about types.
 */
export function checkTogether(value: unknown, directory: string): Checked {
  if (!isObject(value)) return { problems: [], warnings: [] }
  const upstreams = isObject(value.upstreams) ? Object.entries(value.upstreams) : []
  const isStrict = value.profile === 'corporate'
  const hasAuth = isObject(value.auth)
  const checked = upstreams.map(([name, upstream]) => {
    return isObject(upstream)
      ? checkUpstream(upstream, ['upstreams', name], {
          directory,
          isStrict,
          hasAuth,
          features: value.features,
        })
      : nothing
  })
  const listen = isObject(value.listen) ? value.listen : {}
  const isReachable = isOpenHost(listen) || listen.public_url !== undefined
  const servers = Object.fromEntries(upstreams)
  const ofGrants = [
    ...sharedGrants(servers, isReachable && !requiresTokens(value.auth)),
    ...missingTokens(servers, value.auth),
  ]
  const all = [checkAuth(value), checkStore(value.store, directory), ...checked]
  return {
    problems: [
      ...checkListen(listen, value),
      ...maskProblems(value.features, ['features']),
      ...idleMasks(value.features, upstreams),
      ...eventProblems(value.events, ['events'], {
        servers: upstreams.map(([name]) => name),
        isOn: areEventsOn(value.features),
      }),
      ...all.flatMap(({ problems }) => problems),
    ],
    warnings: [
      ...all.flatMap(({ warnings }) => warnings),
      ...ofGrants,
      ...pageWarnings(value),
      ...auditWarnings(value.observe, directory),
    ],
  }
}

type Values = Readonly<Record<string, unknown>>

const nothing: Checked = { problems: [], warnings: [] }

function checkListen(listen: Values, { auth, profile }: Values): Finding[] {
  const problems: Finding[] = []
  const isOpen = isOpenHost(listen)
  if (isOpen && auth !== 'none' && !requiresTokens(auth)) {
    const message =
      'everyone who can reach this address could call every tool: configure `auth`, write `auth: none` at the top level of the file if that is intended, or listen on 127.0.0.1'
    problems.push({ path: ['listen', 'host'], message })
  }
  const origins = Array.isArray(listen.origins) ? listen.origins : [listen.origins]
  const isKnownOutside = isOpen || typeof listen.public_url === 'string' || profile === 'corporate'
  if (isKnownOutside && origins.includes('*')) {
    const message =
      '`*` allows any web page to call the tools, so it is not accepted on an address that others can reach, nor in the profile corporate: list the origins'
    problems.push({ path: ['listen', 'origins'], message })
  }
  if (typeof listen.public_url === 'string' && !isHttpUrl(listen.public_url)) {
    problems.push({
      path: ['listen', 'public_url'],
      message: 'must be a URL such as https://mcp.example.com',
    })
  }
  return problems
}

/** Whether other machines can reach the address. */
function isOpenHost({ host }: Readonly<Record<string, unknown>>): boolean {
  return typeof host === 'string' && !isLoopbackHost(host)
}
