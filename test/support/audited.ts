import { classify } from '../../src/core/judgement/classify.ts'
import { Payload } from '../../src/core/payload.ts'
import { GatewayError } from '../../src/core/error.ts'
import type { UpstreamSettings } from '../../src/core/settings.ts'
import type { List } from '../../src/lint/asking.ts'
import type { Subject } from '../../src/lint/subject.ts'
import type { Json } from './server/json.ts'
import { serverSettings } from './server-settings.ts'

/** What is different about a server that is audited. */
export interface Difference extends Partial<Omit<Subject, 'tools' | 'settings'>> {
  readonly settings?: Partial<UpstreamSettings>
  readonly tools?: readonly Json[]
}

/** A server without fault that has nothing, but for what is given. */
export function subjectOf({ settings, tools = [], ...rest }: Difference = {}): Subject {
  const reach = { kind: 'command', command: 'notes', args: [], env: {} } as const
  const own = serverSettings({ name: 'notes', reach, transport: 'stdio', ...settings })
  return {
    upstream: own.name,
    settings: own,
    revision: '2025-11-25',
    capabilities: { tools: {}, prompts: {}, resources: {}, logging: {} },
    serverInfo: { name: 'notes', version: '1.0.0' },
    lists: new Map([
      ['tools/list', listOf(tools)],
      ['prompts/list', listOf(rest.prompts ?? [])],
      ['resources/list', listOf(rest.resources ?? [])],
      ['resources/templates/list', listOf(rest.templates ?? [])],
    ]),
    tools: tools.map((definition) => {
      return { name: String(definition['name']), definition, classification: classify(definition, own) }
    }),
    prompts: [],
    resources: [],
    templates: [],
    readings: [],
    unknownMethod: { error: new GatewayError('UNSUPPORTED_OPERATION', 'Method not found') },
    isProtected: false,
    guards: new Map(),
    ...rest,
  }
}

/** A list on one page. */
export function listOf(items: readonly unknown[], more: Partial<List> = {}): List {
  return { items, pages: [items.length], isStable: true, ...more }
}

/** An answer of a server. */
export function answered(result: Json): Subject['unknownMethod'] {
  return { result: Payload.of(result) }
}

/** A tool without fault, but for what is given. */
export function toolOf(more: Json = {}): Json {
  return {
    name: 'get_note',
    title: 'Get a note',
    description: 'Returns the note of a given name.',
    annotations: { readOnlyHint: true },
    inputSchema: {
      type: 'object',
      properties: { name: { type: 'string', description: 'Which note.' } },
      required: ['name'],
      additionalProperties: false,
    },
    outputSchema: { type: 'object' },
    ...more,
  }
}
