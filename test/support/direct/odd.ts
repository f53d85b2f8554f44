/** The odd servers, by name. */
import type { OddServer } from './odd-servers.ts'

const text = (value: string): string => `{"type":"text","text":${JSON.stringify(value)}}`
const result = (...blocks: readonly string[]): string => `"result":{"content":[${blocks.join(',')}]}`
const failed = (value: string): string => `"result":{"content":[${text(value)}],"isError":true}`
const tool = (name: string, more = ''): string =>
  `{"name":"get_${name}","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}${more}}`
const tools = (...names: readonly string[]): string =>
  `"result":{"tools":[${names.map((name) => tool(name)).join(',')}]}`
const hello = (revision: string, capabilities: string, more = ''): string =>
  `"result":{"protocolVersion":"${revision}","capabilities":${capabilities},"serverInfo":{"name":"odd","version":"1"}${more}}`

const unknownTool = '"error":{"code":-32602,"message":"Unknown tool: $NAME"}'
const stack = `Error: boom\n    at run (/home/me/app/src/run.ts:12:5)\n    at node:internal/main:1:1`
const failures: Readonly<Record<string, string>> = {
  env: '{"PWD": "/home/user", "HOME": "/root", "api_key": "none", "token_count": 12}',
  count: 'token_count: 12, secret_santa = Ann, password: must have 8 letters',
  path: 'FAIL /home/me/src/a.test.ts:12:5',
  sql: "near line 1: SELECT * FROM users WHERE name = 'ann'",
  stack,
  python: 'Traceback (most recent call last):\n  File "/srv/app.py", line 3, in run\nKeyError: 1',
  host: 'connect ECONNREFUSED 10.0.0.7:5432, db.internal, localhost:3000',
  token: 'Authorization: Bearer abcdefgh12345678 was refused; ghp_abcdefghijklmnopqrstuvwxyz012345',
  prefix: 'MCP error -32602: Input validation error: Invalid arguments for tool prefix',
}

/** A tool that providers of models refuse. */
const refused = `{"name":"get refused","description":"${'x'.repeat(40_000)}","inputSchema":{"type":"object","anyOf":[{"properties":{"n":{"type":"string"}}}]}}`

const old = '2025-11-25'

/** Servers of 2025-11-25 unless they say otherwise. */
export const odd: Readonly<Record<string, OddServer>> = {
  failures: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(old, '{"tools":{}}'),
      'tools/call': unknownTool,
      'tools/list': tools(...Object.keys(failures), 'mute', 'data', 'image', 'own'),
      ...Object.fromEntries(
        Object.entries(failures).map(([name, value]) => [`tools/call get_${name}`, failed(value)]),
      ),
      'tools/call get_mute': '"result":{"content":[],"isError":true}',
      'tools/call get_data': `"result":{"content":[${text('x')}],"isError":true,"structuredContent":{"password":"p4ss","at":"/home/x","n":1.0}}`,
      'tools/call get_image':
        '"result":{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"isError":true}',
      'tools/call get_own': `"result":{"isError":true,"content":[${text('/etc/x')}],"error":{"code":"RATE_LIMIT_EXCEEDED","category":"rate_limited","message":"at /etc/x","retryAfter":3}}`,
    },
  },
  errors: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(old, '{"tools":{},"prompts":{},"resources":{}}'),
      'tools/call': unknownTool,
      'tools/list': tools(
        'null',
        'text',
        'list',
        'clash',
        'own',
        'zero',
        'far',
        'big',
        'none',
        'reserved',
        'path',
      ),
      'tools/call get_null': '"error":{"code":-32000,"message":"No.","data":null}',
      'tools/call get_text': '"error":{"code":-32000,"message":"No.","data":"at /home/me/x"}',
      'tools/call get_list': '"error":{"code":-32000,"message":"No.","data":[1.0,{"a":null}]}',
      'tools/call get_clash':
        '"error":{"code":-32000,"message":"No.","data":{"code":42,"category":"mine","big":12345678901234567890}}',
      'tools/call get_own':
        '"error":{"code":-32000,"message":"MCP error -32000: Slow down.","data":{"code":"SLOW","category":"rate_limited","documentation_url":"https://elsewhere.example/"}}',
      'tools/call get_zero': '"error":{"code":0,"message":"Zero"}',
      'tools/call get_far': '"error":{"code":123456789,"message":"Far","x-more":[true]}',
      'tools/call get_big': '"error":{"code":-2147483649,"message":""}',
      'tools/call get_none': '"error":{"code":-32603,"message":"Internal error"}',
      'tools/call get_reserved': '"error":{"code":-32021,"message":"Mine","data":{"x":1}}',
      'tools/call get_path': `"error":{"code":-32000,"message":"ENOENT /home/me/x in SELECT a FROM b WHERE c = 'd'","data":{"cwd":"/home/me","token":"t0k"}}`,
      'prompts/list': '"result":{"prompts":[]}',
      'prompts/get': '"error":{"code":-32602,"message":"MCP error -32602: Prompt $NAME not found"}',
      'resources/list': '"result":{"resources":[]}',
      'resources/templates/list': '"result":{"resourceTemplates":[]}',
      'resources/read': '"error":{"code":-32602,"message":"MCP error -32602: Resource $NAME not found"}',
      'resources/read odd:///gone':
        '"error":{"code":-32602,"message":"Resource not found","data":{"uri":"odd:///gone"}}',
      'resources/read odd:///old':
        '"error":{"code":-32002,"message":"Resource not found","data":{"uri":"odd:///old"}}',
      'resources/read odd:///zero': '"error":{"code":0,"message":"Unknown resource: odd:///zero"}',
    },
  },
  // Everything that only looks like a mistake.
  content: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(old, '{"tools":{}}'),
      'tools/call': unknownTool,
      'tools/list': tools(
        'unknown',
        'empty',
        'numbers',
        'meta',
        'nulls',
        'structured',
        'links',
        'escapes',
        'false',
        'more',
      ),
      'tools/call get_unknown': result(
        '{"type":"hologram","data":{"a":[1.0]}}',
        '{"type":"text","text":"x","x-own":null}',
      ),
      'tools/call get_empty': '"result":{"content":[]}',
      'tools/call get_numbers':
        '"result":{"content":[],"structuredContent":{"a":1.0,"b":1e3,"c":-0,"d":12345678901234567890,"e":0.1000}}',
      'tools/call get_meta': `"result":{"_meta":{},"content":[{"type":"text","text":"x","_meta":{"a":null},"annotations":{"priority":1.0,"audience":["user"]}}]}`,
      'tools/call get_nulls': `"result":{"content":[${text('x')}],"structuredContent":{"a":null,"b":[],"c":{}},"x":null,"isError":false}`,
      'tools/call get_structured':
        '"result":{"structuredContent":{"z":1,"a":2},"content":[{"type":"text","text":"other words"}]}',
      'tools/call get_links': result(
        '{"type":"resource_link","uri":"odd:///a","name":"a","size":3,"icons":[]}',
        '{"type":"resource","resource":{"uri":"odd:///b","text":"","mimeType":"text/plain"}}',
      ),
      'tools/call get_escapes': `"result":{"content":[{"type":"text","text":"\\u00e9\\/\\ud83d\\ude00 é \\u2028 \\ud800"}]}`,
      'tools/call get_false': `"result":{"isError":false,"content":[${text('')}]}`,
      'tools/call get_more': `"result":{"x-first":1,"content":[${text('x')}],"provenance":{"source":"me"},"error":null,"task":null}`,
    },
  },
  lists: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(
        old,
        '{"tools":{"listChanged":false},"prompts":{},"resources":{"subscribe":false},"completions":{},"logging":{},"experimental":{"own":{"a":[1.0]}},"extensions":{"com.example/x":{"v":1}}}',
        ',"instructions":"Do not.","_meta":{"a":1}',
      ),
      'tools/call': unknownTool,
      'tools/list': `"result":{"x":null,"tools":[${[
        tool('forbidden', ',"execution":{"taskSupport":"forbidden"}'),
        tool('optional', ',"execution":{"taskSupport":"optional","x":1}'),
        tool('bare', ',"execution":{}'),
        tool(
          'icons',
          ',"title":"Order","icons":[{"src":"https://x.example/i.png","sizes":["1x1"]}],"_meta":{"b":1.0},"x-own":{"a":[null]}',
        ),
        '{"name":"get_order","annotations":{"openWorldHint":true,"title":"T","readOnlyHint":true,"x":null},"inputSchema":{"type":"object"}}',
        '{"inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"number","minimum":1.0}},"required":[],"additionalProperties":false},"description":"","name":"get_schema"}',
      ].join(',')}],"_meta":{"c":2}}`,
      'prompts/list': '"result":{"prompts":[{"name":"p","arguments":[],"icons":[],"x":1.0}],"x-more":[]}',
      'prompts/get p':
        '"result":{"messages":[{"role":"user","content":{"type":"text","text":"x","x":null}}],"description":"d","_meta":{"a":1}}',
      'resources/list':
        '"result":{"resources":[{"uri":"odd:///a","name":"a","size":0,"annotations":{"priority":0.50,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{"x":null}}]}',
      'resources/templates/list':
        '"result":{"resourceTemplates":[{"uriTemplate":"odd:///{a}","name":"t","x":[]}]}',
      'resources/read odd:///a':
        '"result":{"contents":[{"uri":"odd:///a","text":"a","x":1.0},{"uri":"odd:///b","blob":"","_meta":{}}],"_meta":{"r":1}}',
      'resources/read odd:///none': '"result":{"contents":[]}',
      'completion/complete': '"result":{"completion":{"values":[],"total":0,"hasMore":false,"x":1.0}}',
      'tools/call get_order': result(text('x')),
    },
  },
  pages: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(old, '{"tools":{}}'),
      'tools/call': unknownTool,
      'tools/list': `"result":{"nextCursor":"b","tools":[${tool('a')}]}`,
      'tools/call get_a': result(text('a')),
    },
  },
  bare: {
    revision: '2025-06-18',
    answers: { initialize: hello('2025-06-18', '{}'), ping: '"result":{}' },
  },
  toolless: {
    revision: '2025-03-26',
    answers: {
      ping: '"result":{}',
      initialize: hello('2025-03-26', '{"resources":{}}'),
      'resources/list': '"result":{"resources":[{"uri":"odd:///a","name":"a"}]}',
      'resources/templates/list': '"result":{"resourceTemplates":[]}',
      'resources/read odd:///a': '"result":{"contents":[{"uri":"odd:///a","text":"a"}]}',
      'resources/read': '"error":{"code":-32002,"message":"Resource not found"}',
    },
  },
  notes: {
    revision: old,
    answers: {
      ping: '"result":{}',
      initialize: hello(old, '{"tools":{},"prompts":{"listChanged":false},"resources":{},"logging":{}}'),
      'tools/call': unknownTool,
      'tools/list': tools('talk', 'change'),
      'prompts/list': '"result":{"prompts":[]}',
      'resources/list': '"result":{"resources":[]}',
      'logging/setLevel': '"result":{}',
      'tools/call get_talk': {
        notes: [
          '"method":"notifications/message","params":{"level":"info","logger":"l","data":{"token_count":12,"password":"p","at":"/home/me"},"x":1.0}',
          '"method":"notifications/message","params":{"level":"error","data":"token: abc123def in /srv/x"}',
          '"method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1.0,"total":4,"message":"a","x":null}',
          '"method":"notifications/message","params":{"level":"notice","data":null}',
        ],
        answer: result(text('said')),
      },
      'tools/call get_change': result(text('changed')),
    },
    changes: [
      '"method":"notifications/tools/list_changed"',
      '"method":"notifications/prompts/list_changed","params":{"_meta":{"a":1.0}}',
      '"method":"notifications/resources/list_changed","params":{}',
      '"method":"notifications/resources/updated","params":{"uri":"odd:///x","title":"X"}',
    ],
  },
  modern: {
    revision: '2026-07-28',
    answers: {
      'server/discover':
        '"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{},"prompts":{},"completions":{}},"instructions":"Ask.","ttlMs":5,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1","title":"M","websiteUrl":"https://m.example"}}}',
      'tools/call': unknownTool,
      'tools/list': `"result":{"resultType":"complete","ttlMs":1000,"cacheScope":"public","tools":[${tool('a', ',"outputSchema":{"type":"array"}')},${tool('fail')},${tool('odd', ',"title":"Odd"')},${tool('error')},${tool('code')},${tool('change')},${refused}]}`,
      'tools/call get_a': '"result":{"resultType":"complete","content":[],"structuredContent":[1.0,null]}',
      'tools/call get_fail': `"result":{"resultType":"complete","content":[${text('{"PWD": "/home/user"}')}],"isError":true}`,
      'tools/call get_odd':
        '"result":{"resultType":"complete","content":[{"type":"odd"}],"structuredContent":"text","_meta":{"x":1.0}}',
      'tools/call get_error': '"error":{"code":-32603,"message":"at /home/me","data":"x"}',
      'tools/call get_code': '"error":{"code":-32019,"message":"Not reserved"}',
      'tools/call get_change': '"result":{"resultType":"complete","content":[]}',
      'prompts/list':
        '"result":{"resultType":"complete","prompts":[{"name":"p"}],"ttlMs":0,"cacheScope":"private"}',
      'prompts/get': '"error":{"code":-32602,"message":"Unknown prompt"}',
      'resources/list': '"result":{"resultType":"complete","resources":[],"ttlMs":0,"cacheScope":"private"}',
      'resources/templates/list':
        '"result":{"resultType":"complete","resourceTemplates":[],"ttlMs":0,"cacheScope":"private"}',
      'resources/read': '"error":{"code":-32602,"message":"Resource not found","data":{"uri":"$NAME"}}',
      'completion/complete': '"result":{"resultType":"complete","completion":{"values":["a"]}}',
    },
    changes: [
      '"method":"notifications/tools/list_changed"',
      '"method":"notifications/prompts/list_changed","params":{}',
    ],
  },
}
