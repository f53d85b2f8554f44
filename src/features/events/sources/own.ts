/** What the gateway notices itself, and other features publish. */
import type { Services } from '../../feature.ts'
import { type EventSource, type EventType, forEveryone } from '../event-types.ts'

type Deps = Pick<Services, 'features'>

/** The events of the gateway itself. */
export function ownEvents({ features }: Deps): EventSource {
  const types = (upstream: string | undefined): readonly EventType[] =>
    upstream !== undefined && features.isOn('contract', upstream) ? [contractType(upstream)] : []
  return { name: 'gateway', types, described: types }
}

function contractType(upstream: string): EventType {
  const version = { type: 'string', description: 'A version of what the server offers.' }
  return {
    ...forEveryone,
    upstream,
    name: 'contract_changed',
    description:
      'What the server offers has changed in a way that clients can notice, and has another version.',
    inputSchema: { type: 'object', additionalProperties: false },
    payloadSchema: {
      type: 'object',
      properties: { before: version, after: version },
      required: ['before', 'after'],
    },
  }
}
