/** The section `fleet`: how gateways that share a store reach each other. */
import type { FromSchema } from '../../core/schema/from-schema.ts'
import type { FleetSettings } from '../../core/settings.ts'

/** The JSON Schema of `fleet`. */
export const fleetSchema = {
  type: 'object',
  errorMessage: 'must be a mapping such as { listen: 0.0.0.0:8901 }',
  default: {},
  description:
    'How gateways that share a store reach each other: a request that reaches one gateway and is about a session of another one is forwarded to that one. Gateways on one machine with a store folder use a socket in it and need no settings.',
  properties: {
    listen: {
      type: 'string',
      pattern:
        '^(?:[A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\]):(?:\\d{1,4}|[1-5]\\d{4}|6[0-4]\\d{3}|65[0-4]\\d{2}|655[0-2]\\d|6553[0-5])$',
      errorMessage: 'must be an address and a port up to 65535 such as 0.0.0.0:8901',
      description:
        'The address and port for other gateways. Default with Redis: a free port, on loopback if Redis is there, otherwise on all addresses. If the port is taken, one of the 63 behind it is used: each of several workers has its own. Only gateways with the same store are served there.',
      examples: ['0.0.0.0:8901'],
    },
    address: {
      type: 'string',
      pattern: '^https?://[^/\\s]+/?$',
      errorMessage: 'must be a URL without a path such as http://10.0.0.7:8901',
      description:
        'The URL at which the other gateways reach this one. Default: the address in POD_IP, or the name of the machine, and the port of `listen`.',
      examples: ['http://10.0.0.7:8901'],
    },
  },
  additionalProperties: false,
} as const

/** Converts the value of `fleet` to settings. */
export function fleetSettings({ listen, address }: FromSchema<typeof fleetSchema>): FleetSettings {
  const [, host, port] = /^(.*):(\d+)$/.exec(listen ?? '') ?? []
  return {
    ...(host !== undefined && { listen: { host: host.replaceAll(/[[\]]/g, ''), port: Number(port) } }),
    ...(address !== undefined && { address: address.replace(/\/$/, '') }),
  }
}
