/** A message no transport may take, and what its sender is told. */
export interface BadMessage {
  readonly name: string
  readonly bytes: string | Buffer
  /** The JSON-RPC code, and that of the gateway's own table. */
  readonly code: number
  readonly error: string
  /** The id in the answer; null where it cannot be read. */
  readonly id?: unknown
}

const call = { jsonrpc: '2.0', id: 5, method: 'tools/call', params: { name: 'echo', arguments: {} } }

function parseError(name: string, bytes: string | Buffer): BadMessage {
  return { name, bytes, code: -32700, error: 'PARSE_ERROR' }
}

function invalid(name: string, value: unknown, id?: unknown): BadMessage {
  const bytes = typeof value === 'string' ? value : JSON.stringify(value)
  return { name, bytes, code: -32600, error: 'INVALID_REQUEST', id }
}

/** A message with something that nests far too deep in one of its members. */
function deep(name: string, member: string, method = 'tools/call'): BadMessage {
  const value = '{"a":['.repeat(2500) + ']}'.repeat(2500)
  const params = { name: 'echo', arguments: {}, protocolVersion: '2025-11-25', [member]: 'DEEP' }
  const text = JSON.stringify({ jsonrpc: '2.0', id: 5, method, params }).replace('"DEEP"', value)
  return invalid(`${name} that nest 5000 deep`, text, 5)
}

/** Text that is no message at all, whoever sends it and however. */
export const badMessages: readonly BadMessage[] = [
  parseError('words', 'GET / HTTP/1.1'),
  parseError('a message without its end', JSON.stringify(call).slice(0, -1)),
  parseError('a message cut in a string', JSON.stringify(call).slice(0, 25)),
  parseError('two messages in one', JSON.stringify(call).repeat(2)),
  parseError('a trailing comma', '{"jsonrpc":"2.0","id":5,"method":"ping",}'),
  parseError('a key without quotes', '{jsonrpc:"2.0",id:5,method:"ping"}'),
  parseError('a number that is none', '{"jsonrpc":"2.0","id":NaN,"method":"ping"}'),
  parseError('a raw control character', '{"jsonrpc":"2.0","id":5,"method":"pi\u0001ng"}'),
  parseError('a byte order mark', `\ufeff${JSON.stringify(call)}`),
  parseError('zero bytes', Buffer.alloc(64)),
  parseError('bytes that are no UTF-8', Buffer.from('{"jsonrpc":"2.0","id":5,"method":"p\xffng"}', 'latin1')),
  parseError(
    'an overlong encoding',
    Buffer.from([...Buffer.from('{"a":"'), 0xc0, 0xaf, ...Buffer.from('"}')]),
  ),
  parseError(
    'half a surrogate in bytes',
    Buffer.from([...Buffer.from('{"a":"'), 0xed, 0xa0, 0x80, ...Buffer.from('"}')]),
  ),
  parseError('a hundred thousand open brackets', '['.repeat(100_000)),
  invalid('null', 'null'),
  invalid('a number', '42'),
  invalid('text', '"tools/call"'),
  invalid('true', 'true'),
  invalid('an empty object', '{}'),
  invalid('no version', { id: 5, method: 'ping' }, 5),
  invalid('another JSON-RPC version', { ...call, jsonrpc: '1.0' }, 5),
  invalid('a version that is a number', { ...call, jsonrpc: 2 }, 5),
  invalid('a method that is a number', { ...call, method: 7 }, 5),
  invalid('a method that is null', { ...call, method: null }, 5),
  invalid('an empty method', { ...call, method: '' }, 5),
  invalid('params that are a list', { ...call, params: ['echo'] }, 5),
  invalid('params that are text', { ...call, params: 'echo' }, 5),
  invalid('an id that is null', { ...call, id: null }),
  invalid('an id that is a fraction', { ...call, id: 1.5 }),
  invalid('an id that is an object', { ...call, id: {} }),
  invalid('an id that is a list', { ...call, id: [1] }),
  invalid('an id that is true', { ...call, id: true }),
  deep('capabilities', 'capabilities', 'initialize'),
  deep('metadata', '_meta'),
  deep('arguments', 'arguments'),
  deep('answers', 'inputResponses'),
  deep('values for the gateway', 'idempotency_key'),
  deep('params', 'anything', 'resources/read'),
  invalid('a key that stands twice', '{"jsonrpc":"2.0","id":5,"method":"ping","method":"tools/call"}', 5),
  invalid('two ids', '{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}'),
  invalid('neither a method nor a result', { jsonrpc: '2.0', id: 5 }, 5),
  invalid('a result that is text', { jsonrpc: '2.0', id: 5, result: 'done' }, 5),
  invalid('an error that is text', { jsonrpc: '2.0', id: 5, error: 'failed' }, 5),
]
