import type { JsonSchema } from '../core/schema.ts'

/** The JSON Schema of `store`. */
export const storeSchema: JsonSchema = {
  type: 'string',
  pattern: '^(memory|rediss?://\\S+)$',
  default: 'memory',
  'x-secret': true,
  errorMessage:
    'must be memory, or the URL of a Redis or Valkey server such as redis://127.0.0.1:6379; a file can not be the store in this release',
  description:
    'Where what outlives a call is kept: in this process alone, or in Redis or Valkey (6 or later) that several gateways share. While Redis is away, each gateway counts rates by itself, as if the limits were for it alone, and `/ready` says so; what else needs the store fails.',
  examples: ['redis://127.0.0.1:6379', '${REDIS_URL}'],
}
