/**
 * Shows what commands left in the store: the latest report of the conformance suite, by `gatehouse conformance`, and that
 * of the test of the server itself, by `gatehouse test`.
 */
import { isStoreShared } from '../../core/settings.ts'
import type { Call, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { cleanedValue, excerpt } from '../../core/text/redact.ts'
import { failuresIn, type KeptReport, TestReports } from '../../records/test-reports.ts'
import { answered, asTool, pageOf, jsonPage, objectSchema } from '../builtin-tool.ts'
import type { BuiltinPage, Feature, Services } from '../feature.ts'
import { extensionsBadge, qualityBadge, reportsFrame, reportsPage, type ShownServer } from './page.ts'
import { conformanceSchema } from '../settings/describe.ts'

type Deps = Pick<Services, 'store' | 'servers' | 'features' | 'gateway' | 'pages'>

const { name: NAME } = conformanceSchema

/** Publishes the latest report of each server. It has no part in calls. */
export const conformance: Feature<unknown> = {
  ...conformanceSchema,
  create: (_settings, deps) => ({
    builtins: {
      tools: [asTool(definition, async (call) => answered({ ...(await reportFor(call, deps)) }))],
    },
    http: {
      pages: pagesOf(deps),
    },
  }),
}

const definition = {
  name: 'get_conformance_report',
  title: 'Conformance report',
  description:
    'Returns the latest report of the conformance suite for this server: its numbers, and the checks of the extensions that failed. Its member server_test is the latest test of the server itself.',
  inputSchema: objectSchema([], {
    server: { type: 'string', description: 'The server, at the address of several ones.' },
  }),
  outputSchema: objectSchema(
    ['server_name', 'server_version', 'suite_version', 'tested_at', 'results', 'summary'],
    {
      server_name: { type: 'string' },
      server_version: { type: 'string' },
      suite_version: { type: 'string' },
      tested_at: { type: 'string' },
      results: { type: 'array', items: { type: 'object' } },
      summary: { type: 'object' },
      server_test: { type: 'object' },
      more: { type: 'string' },
    },
  ),
  annotations: { readOnlyHint: true, idempotentHint: true, openWorldHint: false },
}

/** How long a page may be cached, in seconds. */
const MAX_AGE = 0

function pagesOf(deps: Deps): readonly BuiltinPage[] {
  const report: Handler = async (call) => {
    if (call.params.fields.format === 'json') return jsonPage(await documentFor(call, deps), MAX_AGE)
    const servers = await serversFor(call, deps)
    const text = reportsPage(servers, isStoreShared(deps.gateway.settings))
    return pageOf({ text, type: 'text/html; charset=utf-8', maxAge: MAX_AGE, frame: reportsFrame })
  }
  const image =
    (draw: (servers: readonly ShownServer[]) => string): Handler =>
    async (call) => {
      const text = draw(await serversFor(call, deps))
      return pageOf({ text, type: 'image/svg+xml', maxAge: MAX_AGE })
    }
  return [
    { path: '/conformance', isNegotiated: true, handle: report },
    { path: '/conformance/*', isNegotiated: true, handle: report },
    { path: '/conformance/badge.svg', handle: image(qualityBadge) },
    { path: '/conformance/*/badge.svg', handle: image(qualityBadge) },
    { path: '/conformance/extensions.svg', handle: image(extensionsBadge) },
    { path: '/conformance/*/extensions.svg', handle: image(extensionsBadge) },
  ]
}

/** The names of the servers at the address of a call, for which the feature is on. */
function namesFor({ target: { upstream } }: Call, { servers, features }: Deps): readonly string[] {
  const names = upstream === undefined ? servers.names() : [upstream]
  return names.filter((name) => features.isOn(NAME, name))
}

function serversFor(call: Call, deps: Deps): Promise<readonly ShownServer[]> {
  return Promise.all(namesFor(call, deps).map((name) => serverOf(name, deps)))
}

async function serverOf(name: string, { store }: Deps): Promise<ShownServer> {
  const [quality, found] = await Promise.all([
    new TestReports(store, 'server-test').latest(name),
    new TestReports(store, 'conformance').latest(name),
  ])
  return { name, quality, conformance: found }
}

/** The report of one server, or those of several, as JSON. @throws RESOURCE_NOT_FOUND if the one has none */
async function documentFor(call: Call, deps: Deps): Promise<object> {
  const servers = await serversFor(call, deps)
  const [first, ...others] = servers
  if (first && others.length === 0) return reportOf(first) ?? notRun(first.name, deps)
  return { reports: servers.flatMap((each) => reportOf(each) ?? []) }
}

/**
 * The report of the conformance suite, with the test of the server as a member. Where only that test ran, the report has
 * no results.
 */
function reportOf({ quality, conformance: found }: ShownServer, shown = withHistory): object | undefined {
  if (!quality) return found && shown(found)
  const { server_name, server_version, suite_version, tested_at } = quality.report
  const summary = { passed: 0, failed: 0, skipped: 0, errors: 0 }
  const none = { server_name, server_version, suite_version, tested_at, results: [], summary }
  return { ...(found ? shown(found) : none), server_test: shown(quality) }
}

function withHistory({ report, history }: KeptReport): object {
  return { ...report, history }
}

/** How many failed checks of a report models get, and how much of each text, in characters. */
const MAX_FAILURES = 30
const MAX_LENGTH = 200

/** What a model needs of a report: what failed, and the numbers. */
function inShort({ report: { results, ...numbers } }: KeptReport): object {
  const failures = failuresIn(results).slice(0, MAX_FAILURES)
  return { ...numbers, results: cleanedValue(failures, (text) => excerpt(text, MAX_LENGTH)) }
}

/** The report in short. @throws RESOURCE_NOT_FOUND if there is none, INVALID_INPUT if it is not clear of which server */
async function reportFor(call: Call, deps: Deps): Promise<object> {
  const names = namesFor(call, deps)
  const { server = names.length === 1 ? names[0] : undefined } = call.params.fields
  if (typeof server !== 'string' || !names.includes(server)) {
    const field = 'server'
    throw new GatewayError('INVALID_INPUT', 'Invalid params: server must be one of the servers.', {
      field,
      reason: server === undefined ? 'required' : 'unknown',
      suggestion: `Give one of ${names.join(', ')}.`,
    })
  }
  const report = reportOf(await serverOf(server, deps), inShort) ?? notRun(server, deps)
  const page = deps.pages.url(`/conformance/${encodeURIComponent(server)}`)
  const others = page === undefined ? 'the commands print the others' : `the others are at ${page}`
  return { ...report, more: `These are the checks that failed, at most ${MAX_FAILURES}: ${others}.` }
}

/** @throws RESOURCE_NOT_FOUND */
function notRun(server: string, { gateway }: Deps): never {
  const where = isStoreShared(gateway.settings) ? '' : ', with a store that is not in memory'
  throw new GatewayError('RESOURCE_NOT_FOUND', `Neither a server test nor the suite has run for ${server}.`, {
    suggestion: `The operator of the gateway can run gatehouse test ${server} and gatehouse conformance ${server}${where}.`,
  })
}
