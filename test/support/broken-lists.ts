/** Forty lists of tools that clients or the providers of models refuse, each because of one entry, as JSON text. */

/** The text of the broken entries, and where they are listed: nowhere, only as the server has them, or always. */
export type BrokenList = readonly [title: string, entries: string, listed: 'never' | 'kept' | 'always']

const text = '{"type":"string"}'
const tool = (more: string, name = '"bad"'): string => `{"name":${name},${more}}`
/** A tool with this schema. */
const schema = (input: string): string => tool(`"inputSchema":${input}`)
/** A tool with the argument `a` of this schema. */
const property = (rules: string, more = ''): string =>
  schema(`{"type":"object","properties":{"a":${rules}}${more}}`)
const object = '"inputSchema":{"type":"object"}'
const deep = (levels: number): string =>
  `${'{"type":"object","properties":{"a":'.repeat(levels)}${text}${'}}'.repeat(levels)}`

export const brokenLists: readonly BrokenList[] = [
  ['null in place of a tool', 'null', 'never'],
  ['text, a number and a list in place of tools', '"a",7,[[]]', 'never'],
  ['a tool without a name', `{${object}}`, 'never'],
  ['a name that is a number', tool(object, '5'), 'never'],
  [
    'two tools of the same name',
    `${tool(object)},${tool('"description":"second",'.concat(object))}`,
    'always',
  ],
  ['a name of 200 characters', tool(object, JSON.stringify('n'.repeat(200))), 'always'],
  ['a name with spaces', tool(object, '"my tool"'), 'always'],
  ['a name in Chinese', tool(object, '"读取文件"'), 'always'],
  ['a name that begins with a digit', tool(object, '"2nd/tool"'), 'always'],
  [
    'two names with the same alias',
    `${tool(object, '"a.b"')},${tool(object, '"a b"')},${tool(object, '"a_b"')}`,
    'always',
  ],
  [
    'anyOf at the root',
    schema('{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"properties":{"a":{},"b":{}}}'),
    'always',
  ],
  ['oneOf at the root that accepts no object', schema(`{"type":"object","oneOf":[${text}]}`), 'kept'],
  [
    'a reference that contains itself',
    property(
      '{"$ref":"#/$defs/A"}',
      ',"$defs":{"A":{"type":"object","properties":{"next":{"$ref":"#/$defs/A"}}}}',
    ),
    'always',
  ],
  [
    'references in a circle',
    property('{"$ref":"#/$defs/A"}', ',"$defs":{"A":{"$ref":"#/$defs/B"},"B":{"$ref":"#/$defs/A"}}'),
    'always',
  ],
  ['a reference to the root', property('{"$ref":"#"}'), 'always'],
  ['a reference to another host', property('{"$ref":"https://example.com/schema.json#/a"}'), 'always'],
  ['150 schemas in each other', schema(deep(90)), 'always'],
  ['an entry nested deeper than the SDKs read', schema(deep(150)), 'never'],
  [
    'exclusiveMinimum of draft 4',
    property('{"type":"integer","minimum":0,"exclusiveMinimum":true}'),
    'always',
  ],
  ['required that names absent properties', property(text, ',"required":["a","b"]'), 'always'],
  ['required that is true', property('{"type":"string","required":true}'), 'always'],
  ['an array without items', property('{"type":"array"}'), 'always'],
  [
    'items that are a list, as in draft 7',
    property(`{"type":"array","items":[${text},{"type":"number"}],"additionalItems":false}`),
    'always',
  ],
  ['an unknown format', property('{"type":"string","format":"uint128-hex"}'), 'always'],
  [
    'a description of 100 kB',
    tool(`"description":${JSON.stringify('word '.repeat(20_000))},${object}`),
    'always',
  ],
  [
    'halves of surrogate pairs',
    tool(
      '"description":"a\\ud800b","inputSchema":{"type":"object","properties":{"\\udc00":{"type":"string"},"a":{"type":"object","description":"\\ud800","properties":{"\\ud800":{}},"required":["\\ud800"]},"b":{"enum":["\\udfff","c"]}}}',
    ),
    'always',
  ],
  ['an enum of mixed types', property('{"enum":["a",1,null,true,{"b":2}]}'), 'always'],
  ['an empty enum', property('{"type":"string","enum":[]}'), 'always'],
  ['an enum with an empty text', property('{"type":"string","enum":["","a"]}'), 'always'],
  ['the type "any"', property('{"type":"any"}'), 'always'],
  ['the type "STRING"', property('{"type":"STRING"}'), 'always'],
  ['a root of the type string', schema(text), 'never'],
  ['no schema at all', tool('"description":"no arguments"'), 'always'],
  ['a schema that is false', schema('false'), 'never'],
  ['null in place of a nested schema', property('{"type":"object","properties":{"b":null}}'), 'always'],
  ['properties that are a list', schema('{"type":"object","properties":["a","b"]}'), 'always'],
  [
    'boolean schemas',
    schema('{"type":"object","properties":{"a":true,"b":false,"c":{"type":"array","items":true}}}'),
    'always',
  ],
  [
    'numbers beyond all types',
    property(
      '{"type":"integer","maximum":1e999,"minimum":-12345678901234567890123,"multipleOf":0,"maxLength":1e30}',
    ),
    'always',
  ],
  [
    'properties with names of prototypes',
    schema(
      `{"type":"object","properties":{"__proto__":${text},"constructor":{"type":"array"},"toString":null},"required":["__proto__"]}`,
    ),
    'always',
  ],
  [
    'a pattern of another language',
    property('{"type":"string","pattern":"(?P<n>\\\\A[a-z]+\\\\Z)"}'),
    'always',
  ],
  [
    'an argument with brackets',
    schema(
      `{"type":"object","properties":{"filter[id]":${text}},"required":["filter[id]"],"additionalProperties":false}`,
    ),
    'always',
  ],
  [
    'markup and text that changes direction',
    tool(`"title":"<img src=x>\\u202e","description":"</script>\\u202e\\u0000",${object}`),
    'always',
  ],
]
