/** Checks of how a server and its gateway are described: lists, manifest, costs, types, recommendations. */
import { NS } from '../../core/identity.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { aliasOf } from '../../core/text/alias.ts'
import { PROVENANCE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Endpoint } from './client.ts'
import {
  ask,
  checksOf,
  type Context,
  expect,
  expectCalls,
  expectSame,
  CheckFailure,
  isFailed,
  objectAt,
  objectsIn,
  resultOf,
  Skip,
  shown,
  successOf,
} from './check.ts'
import { MAX_PICTURE_BYTES, OTHER_CAPABILITY, OTHER_INTENT, OTHER_SERVER, PRICE } from './echo-server.ts'

/** The manifest of the server under test: from its tool, else from its path. */
async function manifestOf(context: Context): Promise<Fields> {
  if (!context.hasTools) return pageOf(context, `/capabilities/${context.name}`)
  const result = successOf(await context.server.call('gateway_get_manifest'))
  const found = objectAt(result, 'structuredContent')
  expect(found !== undefined, 'get_manifest has no structured content')
  return found
}

async function pageOf({ server }: Context, path: string): Promise<Fields> {
  const { status, text } = await server.get(path)
  expectSame(status, 200, `the status of ${path}`)
  const found = readJson(text)
  expect(isObject(found), `${path} is no JSON object: ${shown(text)}`)
  return found
}

const riskLevels = new Set<unknown>(['safe', 'reversible', 'destructive'])

/** The checks of how a server and its gateway are described. */
export const manifestChecks = checksOf({ category: 'manifest' }, [
  {
    test_id: 'CONF-001',
    proposal_ref: 'proposal-1',
    description: 'The manifest has the format 0.1.0, the server, and the list of its tools.',
    needs: ['manifest'],
    run: async (context) => {
      const manifest = await manifestOf(context)
      expectSame(manifest.manifest_version, '0.1.0', 'manifest_version')
      const server = objectAt(manifest, 'server')
      expectSame(server?.name, context.name, 'server.name')
      expect(
        /^\d+\.\d+\.\d+/.test(String(server?.version)),
        `server.version is ${shown(String(server?.version))}`,
      )
      expect(typeof server?.mcp_spec_version === 'string', 'server.mcp_spec_version is absent')
      expect(Array.isArray(manifest.tools), 'tools is no list')
    },
  },
  {
    test_id: 'CONF-005',
    proposal_ref: 'proposal-1',
    description: 'tools/list returns an array of tools with unique names and schemas of objects.',
    run: async ({ listing: { entries, problem } }) => {
      expect(problem === undefined, problem ?? '')
      const names = new Set<unknown>()
      for (const { name, inputSchema } of entries) {
        expect(
          typeof name === 'string' && name !== '',
          `the name of a tool is ${shown(JSON.stringify(name))}`,
        )
        expect(!names.has(name), `two tools have the name ${name}`)
        names.add(name)
        expectSame(objectAt(inputSchema)?.type, 'object', `the type of inputSchema of ${name}`)
      }
    },
  },
  {
    test_id: 'CONF-0101',
    description: 'The manifest has exactly the listed tools, each with a description, a schema and a risk.',
    needs: ['manifest'],
    run: async (context) => {
      const entries = objectsIn((await manifestOf(context)).tools)
      const listed = context.tools.map(({ name }) => String(name))
      for (const name of listed) {
        const entry = entries.find((each) => each.name === aliasOf(name) || each.name === name)
        expect(entry !== undefined, `the manifest has no tool ${name}`)
        expect(
          riskLevels.has(entry.risk_level),
          `risk_level of ${name} is ${shown(String(entry.risk_level))}`,
        )
        expect(
          typeof entry.description === 'string' && entry.description !== '',
          `${name} has no description`,
        )
        expect(isObject(entry.input_schema), `${name} has no input_schema`)
      }
      expectSame(entries.length, listed.length, 'the number of tools in the manifest')
    },
  },
  {
    test_id: 'CONF-0102',
    description: '/capabilities serves the same manifest, and answers 304 to a request with its ETag.',
    needs: ['manifest'],
    run: async (context) => {
      const path = `/capabilities/${context.name}`
      const { headers } = await context.server.get(path)
      const served = await pageOf(context, path)
      expectSame(objectAt(served, 'server')?.name, context.name, 'server.name')
      const { etag = '' } = headers
      expect(etag !== '', 'the response has no ETag')
      const again = await context.server.get(path, { 'if-none-match': etag })
      expectSame(again.status, 304, 'the status of a request with the ETag')
    },
  },
  {
    test_id: 'CONF-0103',
    description: 'server/discover declares where the manifest is, and how long it may be cached.',
    needs: ['manifest'],
    run: async ({ server }) => {
      const result = resultOf(await server.send('server/discover'))
      const declared = objectAt(result, 'capabilities', 'extensions', `${NS}/manifest`)
      expect(declared !== undefined, `capabilities.extensions has no ${NS}/manifest`)
      expectSame(declared.manifestVersion, '0.1.0', 'manifestVersion')
      expect(Number(declared.ttlSeconds) >= 0, 'ttlSeconds is no duration')
    },
  },
  {
    test_id: 'CONF-0201',
    description:
      'A call with an intent that another tool serves better gets the name of that tool, which is listed.',
    needs: ['intent'],
    run: async ({ ours, settings }) => {
      const answer = await ours.call('get_echo', { text: 'intent' }, { meta: { intent: OTHER_INTENT } })
      const suggestion = objectAt(resultOf(answer), '_meta', `${NS}/suggestion`)
      expectSame(suggestion?.recommended_tool, 'list_entries', 'the suggested tool')
      const isRedirected = objectAt(settings('intent'))?.mode === 'redirect'
      expectSame(answer.result?.isError === true, isRedirected, 'whether the call was not made')
    },
  },
  {
    test_id: 'CONF-0202',
    description: 'A call without an intent gets no suggestion.',
    needs: ['intent'],
    run: async ({ ours }) => {
      const result = successOf(await ours.call('get_echo', { text: 'no intent' }))
      expectSame(objectAt(result, '_meta', `${NS}/suggestion`), undefined, 'the suggestion')
    },
  },
  {
    test_id: 'CONF-0301',
    description: 'A tool with a cost declares it in the manifest, and its results have what they used.',
    needs: ['cost', 'usage', 'manifest'],
    run: async (context) => {
      const manifest = await pageOf(context, `/capabilities/${context.echoName}`)
      const entry = objectsIn(manifest.tools).find(({ name }) => name === 'get_metered')
      const cost = objectAt(entry, 'cost')
      expectSame(cost?.category, 'metered', 'cost.category')
      expectSame(cost?.estimated_units, PRICE.units, 'cost.estimated_units')
      const result = successOf(await context.ours.call('get_metered', { text: 'cost' }))
      expectSame(objectAt(result, '_meta', `${NS}/usage`)?.units, PRICE.units, 'the units of the call')
    },
  },
  {
    test_id: 'CONF-0701',
    description: 'A result that is passed on unchanged has its source, its time, and the confidence exact.',
    needs: ['provenance'],
    run: async ({ ours, echoName }) => {
      const before = Date.now()
      const options = { meta: { [PROVENANCE_KEY]: true } }
      const result = successOf(await ours.call('get_echo', { text: 'source' }, options))
      const stamp = objectAt(result, '_meta', PROVENANCE_KEY)
      expect(String(stamp?.source).startsWith(`${echoName}:`), `source is ${shown(String(stamp?.source))}`)
      expectSame(stamp?.confidence, 'exact', 'confidence')
      const at = Date.parse(String(stamp?.retrieved_at))
      expect(at >= before - 1 && at <= Date.now(), 'retrieved_at is not the time of the call')
    },
  },
  {
    test_id: 'CONF-1001',
    description:
      'A tool that accepts media declares its types and its limit, and larger media do not reach the server.',
    needs: ['multimodal', 'manifest'],
    run: async (context) => {
      const manifest = await pageOf(context, `/capabilities/${context.echoName}`)
      const entry = objectsIn(manifest.tools).find(({ name }) => name === 'get_picture_size')
      expectSame(entry?.max_input_size_bytes, MAX_PICTURE_BYTES, 'max_input_size_bytes')
      expect(Array.isArray(entry?.input_types), 'input_types is no list')
      const picture = (bytes: number) => ({ image: Buffer.alloc(bytes).toString('base64') })
      const { ours, echo } = context
      const fits = successOf(await ours.call('get_picture_size', picture(MAX_PICTURE_BYTES)))
      expectSame(objectAt(fits, 'structuredContent')?.bytes, MAX_PICTURE_BYTES, 'the size that arrived')
      const reached = echo.follow('get_picture_size')
      const large = await ours.call('get_picture_size', picture(MAX_PICTURE_BYTES + 1))
      expect(isFailed(large), 'a larger picture was accepted')
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-1201',
    description: 'The report of the last run is served as JSON, or how to run the suite; a badge shows it.',
    needs: ['conformance'],
    run: async ({ server, name }) => {
      const path = `/conformance/${name}`
      const { status, text } = await server.get(path, { accept: 'application/json' })
      const found = readJson(text)
      expect(isObject(found), `${path} is no JSON object: ${shown(text)}`)
      // The gateway of a run has no store that a report could be in.
      if (status === 404) {
        const { code, suggestion } = objectAt(found, 'error', 'data') ?? {}
        expectSame(code, 'RESOURCE_NOT_FOUND', 'the code of the error')
        expect(String(suggestion).includes('gatehouse conformance'), 'the error does not name the command')
      } else expectSame(found.server_name, name, 'server_name')
      const badge = await server.get(`${path}/badge.svg`)
      expectSame([badge.status, badge.headers['content-type']], [200, 'image/svg+xml'], 'the badge')
    },
  },
  {
    test_id: 'CONF-1301',
    description: 'For what a server cannot do, the configured server is recommended.',
    needs: ['discovery'],
    run: async ({ ours }) => {
      const found = await recommended(ours, OTHER_CAPABILITY)
      expectSame(found[0]?.server, OTHER_SERVER, 'the recommended server')
      expectSame(found[0]?.match_confidence, 'high', 'match_confidence')
    },
  },
  {
    test_id: 'CONF-1302',
    description: 'For an unknown capability nothing is recommended, which is no error.',
    needs: ['discovery'],
    run: async ({ ours, settings }) => {
      const { registry } = objectAt(settings('discovery')) ?? {}
      if (String(registry).startsWith('http')) throw new Skip('features.discovery.registry would be asked')
      expectSame(await recommended(ours, 'xqzjw vkpfy'), [], 'the recommendations')
    },
  },
])

async function recommended(ours: Endpoint, capability: string): Promise<readonly Fields[]> {
  const params = { capability_needed: capability }
  const { recommendations } = resultOf(await ask(ours, 'servers/recommend', 'recommend_servers', params))
  if (!Array.isArray(recommendations)) throw new CheckFailure('recommendations is no list')
  return objectsIn(recommendations)
}
