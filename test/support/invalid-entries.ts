/** Entries of lists as servers in many languages send them, and what clients get of each. */
type Entry = unknown

/** An invalid entry, what is listed of it (nothing if it is left out), and why, as a part of the finding. */
export type InvalidEntry = readonly [given: Entry, listed: Entry, problem: string]

const schema = { type: 'object' }
const tool = (more: object): object => ({ name: 'a', inputSchema: schema, ...more })

export const invalidTools: readonly InvalidEntry[] = [
  [null, undefined, 'it is null'],
  ['a', undefined, 'it is "a"'],
  [7, undefined, 'it is 7'],
  [[], undefined, 'name is missing'],
  [{ inputSchema: schema }, undefined, 'name is missing'],
  [tool({ name: null }), undefined, 'name is null'],
  [tool({ name: 5 }), undefined, 'name is 5'],
  [tool({ name: '' }), undefined, 'name is empty'],
  [tool({ name: ['a'] }), undefined, 'name is a list'],
  [tool({ title: null }), tool({}), 'title is null: removed'],
  [tool({ description: null }), tool({}), 'description is null: removed'],
  [tool({ description: ['a'] }), tool({}), 'description is a list: removed'],
  [tool({ description: { en: 'a' } }), tool({}), 'description is an object: removed'],
  [tool({ annotations: null }), tool({}), 'annotations is null: removed'],
  [tool({ annotations: [] }), tool({ annotations: {} }), 'annotations is an empty list: read as {}'],
  [tool({ annotations: ['readOnly'] }), tool({}), 'annotations is a list: removed'],
  [
    tool({ annotations: { readOnlyHint: 'true', destructiveHint: 0, title: 5 } }),
    tool({ annotations: { readOnlyHint: true, destructiveHint: false } }),
    'annotations.title is 5: removed',
  ],
  [tool({ annotations: { readOnlyHint: null } }), tool({ annotations: {} }), 'readOnlyHint is null: removed'],
  [{ name: 'a' }, tool({}), 'inputSchema is missing'],
  [tool({ inputSchema: null }), tool({}), 'inputSchema is null'],
  [tool({ inputSchema: [] }), tool({}), 'inputSchema is an empty list'],
  [tool({ inputSchema: {} }), tool({}), 'inputSchema is an object'],
  [tool({ inputSchema: true }), tool({}), 'inputSchema is true'],
  [tool({ inputSchema: false }), undefined, 'inputSchema is false'],
  [tool({ inputSchema: 'none' }), undefined, 'inputSchema is "none"'],
  [tool({ inputSchema: { type: 'string' } }), undefined, 'inputSchema.type is "string"'],
  [tool({ inputSchema: { type: 'OBJECT' } }), tool({}), 'inputSchema.type is "OBJECT"'],
  [tool({ inputSchema: { type: ['object', 'null'] } }), tool({}), 'inputSchema.type is a list'],
  [
    tool({ inputSchema: { properties: { b: {} } } }),
    tool({ inputSchema: { type: 'object', properties: { b: {} } } }),
    'inputSchema.type is missing',
  ],
  [
    tool({ inputSchema: { type: 'object', properties: [] } }),
    tool({ inputSchema: { type: 'object', properties: {} } }),
    'inputSchema.properties is an empty list: read as {}',
  ],
  [tool({ inputSchema: { type: 'object', properties: null } }), tool({}), 'properties is null: removed'],
  [tool({ inputSchema: { type: 'object', properties: ['b'] } }), tool({}), 'properties is a list: removed'],
  [
    tool({ inputSchema: { type: 'object', properties: { b: null, c: 'string', d: [], e: 5 } } }),
    tool({ inputSchema: { type: 'object', properties: { b: {}, c: { type: 'string' }, d: {}, e: {} } } }),
    'inputSchema.properties.b is null: read as {}',
  ],
  [tool({ inputSchema: { type: 'object', required: null } }), tool({}), 'required is null: removed'],
  [tool({ inputSchema: { type: 'object', required: true } }), tool({}), 'required is true: removed'],
  [
    tool({ inputSchema: { type: 'object', required: {} } }),
    tool({ inputSchema: { type: 'object', required: [] } }),
    'required is an object: read as []',
  ],
  [
    tool({ inputSchema: { type: 'object', required: ['b', null, 5] } }),
    tool({ inputSchema: { type: 'object', required: ['b'] } }),
    'inputSchema.required[1] is null: removed',
  ],
  [
    tool({ inputSchema: { type: 'object', required: 'b' } }),
    tool({ inputSchema: { type: 'object', required: ['b'] } }),
    'inputSchema.required is "b": read as ["b"]',
  ],
  [tool({ inputSchema: { type: 'object', $schema: 5 } }), tool({}), '$schema is 5: removed'],
  [tool({ outputSchema: null }), tool({}), 'outputSchema is null: removed'],
  [tool({ outputSchema: [] }), tool({}), 'outputSchema is an empty list: removed'],
  [tool({ outputSchema: 'text' }), tool({}), 'outputSchema is "text": removed'],
  [
    tool({ outputSchema: { type: 'object', properties: [], required: null } }),
    tool({ outputSchema: { type: 'object', properties: {} } }),
    'outputSchema.required is null: removed',
  ],
  [
    tool({ outputSchema: { type: 'object', properties: { b: { minLength: 2, pattern: String.raw`^\Z` } } } }),
    tool({ outputSchema: { type: 'object', properties: { b: { minLength: 2 } } } }),
    'outputSchema has patterns that clients cannot compile: removed',
  ],
  [
    tool({
      outputSchema: { type: 'object', patternProperties: { '(?i)a': {} }, additionalProperties: false },
    }),
    tool({ outputSchema: { type: 'object' } }),
    'outputSchema.patternProperties is "(?i)a", which is not a regular expression of ECMA-262: it is not checked',
  ],
  [
    tool({ outputSchema: { type: 'object', properties: { b: { pattern: '(?<=a)b' } } } }),
    tool({ outputSchema: { type: 'object', properties: { b: { pattern: '(?<=a)b' } } } }),
    'outputSchema.properties.b.pattern is "(?<=a)b", which cannot be matched in bounded time: it is not checked',
  ],
  [
    tool({ inputSchema: { type: 'object', properties: { b: { pattern: String.raw`^a\Z` } } } }),
    tool({ inputSchema: { type: 'object', properties: { b: { pattern: String.raw`^a\Z` } } } }),
    'inputSchema.properties.b.pattern is "^a\\\\Z", which is not a regular expression of ECMA-262: it is not checked',
  ],
  ...['input_schema', 'parameters'].flatMap((key) =>
    [undefined, null, {}, [], 'none', false].map((inputSchema): InvalidEntry => {
      const named = { type: 'object', properties: { b: { type: 'string' } } }
      const given = { name: 'a', ...(inputSchema !== undefined && { inputSchema }), [key]: named }
      return [given, { ...given, inputSchema: named }, `taken from ${key}`]
    }),
  ),
  [
    tool({ outputSchema: { type: 'object', properties: { b: { $ref: '#/$defs/Missing' } } } }),
    tool({}),
    "outputSchema cannot be used (can't resolve reference",
  ],
  [
    tool({ outputSchema: { type: 'object', properties: { b: { minLength: '3' } } } }),
    tool({}),
    'outputSchema cannot be used',
  ],
  [tool({ outputSchema: { type: 'strings' } }), tool({}), 'outputSchema cannot be used'],
  [tool({ _meta: null }), tool({}), '_meta is null: removed'],
  [tool({ _meta: [] }), tool({ _meta: {} }), '_meta is an empty list: read as {}'],
  [tool({ _meta: 'x' }), tool({}), '_meta is "x": removed'],
  [tool({ icons: null }), tool({}), 'icons is null: removed'],
  [tool({ icons: {} }), tool({ icons: [] }), 'icons is an object: read as []'],
  [tool({ icons: 'https://a/b.png' }), tool({}), 'icons is "https://a/b.png": removed'],
  [
    tool({ icons: [null, {}, { src: 'a:b', sizes: '48x48', theme: 'blue', mimeType: null }] }),
    tool({ icons: [{ src: 'a:b', sizes: ['48x48'] }] }),
    'icons[1].src is missing: icons[1] is removed',
  ],
  [tool({ execution: null }), tool({}), 'execution is null: removed'],
  [
    tool({ execution: { taskSupport: 'always' } }),
    tool({ execution: {} }),
    'execution.taskSupport is "always": removed',
  ],
]

export const invalidPrompts: readonly InvalidEntry[] = [
  [null, undefined, 'it is null'],
  [{ name: 5 }, undefined, 'name is 5'],
  [{ description: 'x' }, undefined, 'name is missing'],
  [
    { name: 'a', description: null, title: 5, icons: null, _meta: null },
    { name: 'a' },
    'title is 5: removed',
  ],
  [{ name: 'a', arguments: null }, { name: 'a' }, 'arguments is null: removed'],
  [{ name: 'a', arguments: {} }, { name: 'a', arguments: [] }, 'arguments is an object: read as []'],
  [{ name: 'a', arguments: { b: {} } }, { name: 'a' }, 'arguments is an object: removed'],
  [
    { name: 'a', arguments: [null, 'b', {}, { name: 'c', description: null, required: 'true' }] },
    { name: 'a', arguments: [{ name: 'c', required: true }] },
    'arguments[2].name is missing: arguments[2] is removed',
  ],
]

export const invalidResources: readonly InvalidEntry[] = [
  [null, undefined, 'it is null'],
  [{ name: 'a' }, undefined, 'uri is missing'],
  [{ name: 'a', uri: 5 }, undefined, 'uri is 5'],
  [{ name: 'a', uri: '' }, undefined, 'uri is empty'],
  [{ uri: 'a:b' }, { uri: 'a:b', name: 'b' }, 'name is missing: taken from uri'],
  [{ uri: 'a:b', name: null }, { uri: 'a:b', name: 'b' }, 'name is null: taken from uri'],
  [
    { uri: 'a:b', name: 'a', mimeType: null, size: '5', description: 5, _meta: [], icons: {} },
    { uri: 'a:b', name: 'a', _meta: {}, icons: [] },
    'size is "5": removed',
  ],
  [
    {
      uri: 'a:b',
      name: 'a',
      annotations: { audience: 'user', priority: 5, lastModified: '2025-02-30T10:00:00Z' },
    },
    { uri: 'a:b', name: 'a', annotations: { audience: ['user'] } },
    'annotations.lastModified is "2025-02-30T10:00:00Z": removed',
  ],
  [
    { uri: 'a:b', name: 'a', annotations: { audience: ['user', 'robot'], lastModified: '2025-02-03' } },
    { uri: 'a:b', name: 'a', annotations: { audience: ['user'] } },
    'annotations.audience[1] is "robot": removed',
  ],
]

/** The same for the capabilities of a server. */
export const invalidCapabilities: readonly (readonly [given: unknown, read: unknown])[] = [
  [undefined, {}],
  [null, {}],
  [[], {}],
  [true, {}],
  [{ prompts: [] }, { prompts: {} }],
  [
    { tools: true, prompts: null, resources: false, logging: [], completions: 1 },
    { tools: {}, logging: {}, completions: {} },
  ],
  [
    { tools: { listChanged: 'true' }, resources: { listChanged: null, subscribe: 1 }, prompts: ['list'] },
    { tools: { listChanged: true }, resources: { subscribe: true }, prompts: {} },
  ],
  [
    { experimental: [], extensions: { a: true, b: null, c: { d: 1 } }, tasks: [] },
    { experimental: {}, extensions: { a: {}, c: { d: 1 } }, tasks: {} },
  ],
]
