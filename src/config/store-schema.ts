import type { JsonSchema } from '../core/schema.ts'

/** The JSON Schema of `store`. */
export const storeSchema: JsonSchema = {
  type: 'string',
  pattern: '^(memory|rediss?://\\S+|\\..*|/.*|[A-Za-z]:[\\\\/].*)$',
  'x-secret': true,
  errorMessage:
    'must be memory, the path of a folder such as ./state, or the URL of a Redis or Valkey server such as redis://127.0.0.1:6379',
  description:
    'Where what outlives a call is kept: in a folder, which several gateways of one machine may share (by default `.gatehouse` beside the file, or a folder of the user where that can not be written to), in this process alone, or in Redis or Valkey (6 or later) that several machines share. In a folder and in memory each gateway counts rates by itself. While Redis is away, each gateway counts rates by itself, as if the limits were for it alone, and `/ready` says so; what else needs the store fails.',
  examples: ['./state', 'memory', 'redis://127.0.0.1:6379', '${REDIS_URL}'],
}
