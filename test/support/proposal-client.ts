/**
 * A client of the protocol extensions that a public proposal describes (mcp-extension-proposals 0.3.0), as its README and
 * schemas have them: every field is read in the literal place, without `_meta`, and without a word about the gateway.
 */
import { type ClientFace } from './proposal-faces.ts'
import { isObject, type Json, objectAt } from './server/json.ts'

/** What one check found: nothing, or what was missing in which place. */
export interface CheckResult {
  readonly name: string
  readonly problem: string | undefined
}

interface Check {
  readonly name: string
  run(client: ProposalClient): Promise<void>
}

class Missing extends Error {}

function expectThat(condition: boolean, problem: string, seen: unknown): void {
  if (!condition) throw new Missing(`${problem}: ${JSON.stringify(seen).slice(0, 400)}`)
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function listOf(value: unknown): readonly Json[] {
  return Array.isArray(value) ? value.filter(isObject) : []
}

/** Makes the calls of the checks; each result is the response's `result`, or what there is in its place. */
export class ProposalClient {
  readonly #face: ClientFace
  #calls = 0

  constructor(face: ClientFace) {
    this.#face = face
  }

  /** A name that no earlier run used. */
  fresh(prefix: string): string {
    this.#calls += 1
    return `${prefix}-${process.pid}-${Date.now()}-${this.#calls}`
  }

  async call(name: string, args: Json = {}, beside: Json = {}): Promise<Json> {
    return this.request('tools/call', { name, arguments: args, ...beside })
  }

  async request(method: string, params: Json = {}): Promise<Json> {
    const response = await this.#face.request(method, params)
    return isObject(response['result']) ? response['result'] : response
  }

  /** The response as it came. */
  raw(text: string): Promise<Json> {
    return this.#face.raw(text)
  }
}

async function manifestTool(client: ProposalClient, name: string): Promise<Json> {
  const { tools } = await client.call('get_manifest')
  return listOf(tools).find((tool) => tool['name'] === name) ?? {}
}

/** The checks, in the order of the README of the examples. */
const checks: readonly Check[] = [
  {
    name: 'service manifest',
    run: async (client) => {
      const manifest = await client.call('get_manifest')
      expectThat(manifest['manifest_version'] === '0.1.0', 'manifest_version', manifest)
      const { name, version, mcp_spec_version: spec } = objectAt(manifest, 'server')
      expectThat(isText(name) && isText(version) && isText(spec), 'server', manifest['server'])
      expectThat(Array.isArray(manifest['supported_extensions']), 'supported_extensions', manifest)
      const tool = listOf(manifest['tools']).find((each) => each['name'] === 'delete_ticket') ?? {}
      expectThat(isObject(tool['input_schema']), 'input_schema', tool)
      expectThat(
        tool['requires_confirmation'] === true && isText(tool['confirmation_message']),
        'confirmation',
        tool,
      )
      expectThat(tool['risk_level'] === 'destructive' && tool['idempotent'] === true, 'risk_level', tool)
      expectThat(Array.isArray(tool['required_scopes']), 'required_scopes', tool)
      const exporting = await manifestTool(client, 'export_tickets')
      expectThat(exporting['latency'] === 'seconds', 'latency', exporting)
      expectThat(objectAt(exporting, 'cost')['category'] === 'metered', 'cost', exporting)
    },
  },
  {
    name: 'permission check',
    run: async (client) => {
      const refused = await client.call('check_permissions', { tool: 'purge_tickets' })
      expectThat(refused['allowed'] === false && Array.isArray(refused['missing_scopes']), 'allowed', refused)
      expectThat(isText(refused['reason']), 'reason', refused)
      const permitted = await client.call('can_execute', { tool: 'search_tickets' })
      expectThat(permitted['allowed'] === true, 'allowed', permitted)
    },
  },
  {
    name: 'intent hint',
    run: async (client) => {
      const intent = "Find the most recent incident from last Friday's deployment"
      const { suggestion } = await client.call('search_tickets', { query: 'bug' }, { intent })
      const recommended = isObject(suggestion) ? suggestion['recommended_tool'] : undefined
      expectThat(recommended === 'get_recent_incidents', 'suggestion.recommended_tool', suggestion)
    },
  },
  {
    name: 'provenance',
    run: async (client) => {
      const found = await client.call('search_tickets', { query: 'login' })
      const provenance = objectAt(found, 'provenance')
      expectThat(isText(provenance['source']) && isText(provenance['retrieved_at']), 'provenance', found)
      expectThat(isText(provenance['confidence']), 'provenance.confidence', provenance)
      expectThat(Number.isInteger(objectAt(found, 'result')['total_count']), 'result', found)
    },
  },
  {
    name: 'idempotent create',
    run: async (client) => {
      const beside = { idempotency_key: client.fresh('create') }
      const first = await client.call('create_ticket', { title: 'Deploy' }, beside)
      expectThat(objectAt(first, 'idempotency')['was_replay'] === false, 'idempotency', first)
      const second = await client.call('create_ticket', { title: 'Deploy' }, beside)
      const { was_replay: isReplay, original_timestamp: at } = objectAt(second, 'idempotency')
      expectThat(isReplay === true && isText(at), 'idempotency.was_replay', second)
    },
  },
  {
    name: 'human in the loop',
    run: async (client) => {
      const { ticket } = objectAt(await client.call('create_ticket', { title: 'Old' }), 'structuredContent')
      const given = { ticket_id: isObject(ticket) ? ticket['id'] : undefined }
      const asked = await client.call('delete_ticket', given)
      expectThat(asked['requires_confirmation'] === true, 'requires_confirmation', asked)
      expectThat(
        isText(asked['confirmation_message']) && asked['risk_level'] === 'destructive',
        'message',
        asked,
      )
      const deleted = await client.call('delete_ticket', given, { user_confirmed: true })
      const isRefused = deleted['isError'] === true || deleted['requires_confirmation'] === true
      expectThat(!isRefused, 'user_confirmed', deleted)
    },
  },
  {
    name: 'transaction with rollback',
    run: async (client) => {
      const id = client.fresh('tx')
      const begun = await client.call('begin_transaction', { transaction_id: id })
      expectThat(begun['status'] === 'begun' && begun['transaction_id'] === id, 'status', begun)
      const step = await client.call('create_ticket', { title: 'Migration' }, { transaction_id: id })
      const { compensation } = objectAt(step, 'transaction')
      expectThat(isObject(compensation) && compensation['tool'] === 'delete_ticket', 'transaction', step)
      await client.call('create_ticket', { title: 'Migration' }, { transaction_id: id })
      const ended = await client.call('rollback_transaction', { transaction_id: id })
      const statuses = listOf(ended['steps_compensated']).map(({ status }) => status)
      expectThat(
        ended['status'] === 'rolled_back' && statuses.join() === 'compensated,compensated',
        'steps',
        ended,
      )
    },
  },
  {
    name: 'session state',
    run: async (client) => {
      const first = await client.call('search_tickets', { query: 'login' })
      expectThat(isText(first['session_state']), 'session_state', first)
      const { session_state: state } = first
      const next = await client.call('search_tickets', { query: 'login' }, { session_state: state })
      expectThat(
        isText(next['session_state']) && typeof next['state_changed'] === 'boolean',
        'state_changed',
        next,
      )
    },
  },
  {
    name: 'structured error',
    run: async (client) => {
      const given = { ticket_id: 'NONEXISTENT' }
      const asked = await client.call('delete_ticket', given)
      const { confirmation_token } = asked
      const failed = await client.call('delete_ticket', given, { user_confirmed: true, confirmation_token })
      const { code, category, message, suggestion } = objectAt(failed, 'error')
      expectThat(
        code === 'RESOURCE_NOT_FOUND' && category === 'permanent' && isText(message),
        'error',
        failed,
      )
      expectThat(isText(suggestion), 'error.suggestion', failed)
      const broken = objectAt(await client.call('fail'), 'error')
      expectThat(broken['category'] === 'transient' && isText(broken['suggestion']), 'error of a 500', broken)
      const refused = objectAt(await client.call('purge_tickets', {}, { user_confirmed: true }), 'error')
      expectThat(refused['code'] === 'SCOPE_INSUFFICIENT', 'error of a missing scope', refused)
      expectThat(Array.isArray(objectAt(refused, 'details')['missing_scopes']), 'missing_scopes', refused)
    },
  },
  {
    name: 'data references',
    run: async (client) => {
      const exported = await client.call('export_result_ref', {
        tool: 'export_tickets',
        arguments: { format: 'csv' },
      })
      expectThat(isText(exported['ref_id']) && isText(exported['origin_server']), 'ref_id', exported)
      expectThat(isText(exported['mime_type']) && isText(exported['expires_at']), 'mime_type', exported)
      const { algorithm, value } = objectAt(exported, 'checksum')
      expectThat(algorithm === 'sha256' && isText(value), 'checksum', exported)
      const { ref_id, origin_server } = exported
      const imported = await client.call('import_from_ref', { ref_id, origin_server })
      expectThat(imported['status'] === 'imported', 'status', imported)
    },
  },
  {
    name: 'multimodal signature',
    run: async (client) => {
      const tool = await manifestTool(client, 'analyze_image')
      const { input_types: accepted, output_types: returned } = tool
      expectThat(Array.isArray(accepted) && accepted.includes('image/png'), 'input_types', tool)
      expectThat(Array.isArray(returned) && returned.includes('application/json'), 'output_types', tool)
      expectThat(Number.isInteger(tool['max_input_size_bytes']), 'max_input_size_bytes', tool)
    },
  },
  {
    name: 'conformance check',
    run: async (client) => {
      const unknown = await client.call('nonexistent_tool')
      const { code, category } = objectAt(unknown, 'error')
      expectThat(isText(code) && isText(category), 'error of an unknown tool', unknown)
      const listed = await client.request('tools/list')
      expectThat(Array.isArray(listed['tools']), 'tools', listed)
      const method = objectAt(await client.request('nonexistent/method'), 'error')
      expectThat(method['code'] === -32601, 'error of an unknown method', method)
      const invalid = objectAt(await client.raw('this is not valid json{{{'), 'error')
      expectThat(invalid['code'] === -32700, 'error of invalid JSON', invalid)
    },
  },
  {
    name: 'server discovery',
    run: async (client) => {
      const found = await client.call('recommend_servers', { capability_needed: 'design_mockup' })
      const [first] = listOf(found['recommendations'])
      expectThat(isText(first?.['server']) && isText(first['registry_url']), 'recommendations', found)
      const byMethod = await client.request('recommend_servers', { capability_needed: 'design_mockup' })
      expectThat(listOf(byMethod['recommendations']).length > 0, 'recommend_servers', byMethod)
    },
  },
  {
    name: 'event subscription',
    run: async (client) => {
      const subscribe = { server: 'tickets', events: ['ticket.created'], filter: { status: 'open' } }
      const subscribed = await client.call('subscribe_events', { subscribe })
      expectThat(
        subscribed['status'] === 'active' && isText(subscribed['subscription_id']),
        'status',
        subscribed,
      )
      expectThat(Array.isArray(subscribed['supported_events']), 'supported_events', subscribed)
      const byMethod = await client.request('subscribe', { subscribe })
      expectThat(byMethod['status'] === 'active', 'subscribe', byMethod)
      const { subscription_id } = subscribed
      const ended = await client.call('unsubscribe_events', { subscription_id })
      expectThat(isText(ended['status']), 'unsubscribe', ended)
    },
  },
]

/** Makes all checks, one after the other. */
export async function checkProposals(face: ClientFace): Promise<readonly CheckResult[]> {
  const client = new ProposalClient(face)
  const results: CheckResult[] = []
  for (const { name, run } of checks) {
    const problem = await run(client).then(
      () => undefined,
      (error: unknown) => (error instanceof Missing ? error.message : String(error)),
    )
    results.push({ name, problem })
  }
  return results
}
