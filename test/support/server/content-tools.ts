import { type Json, RawJson, textAt } from './json.ts'
import type { Traits } from './revisions.ts'
import { numberIn, textResult, type Tool } from './tool.ts'

/** A PNG picture of one pixel, in base64. */
export const pixel =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const silence = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA='

/** The tools that show what a result can contain. */
export const contentTools: Readonly<Record<string, Tool>> = {
  echo: {
    description: 'Returns the text of its arguments as it came',
    annotations: { readOnlyHint: true, idempotentHint: true },
    run: (call) => {
      const text = textAt(call.text, ['params', 'arguments']) ?? '{}'
      return { ...textResult(text), ...structured(call.world.traits, new RawJson(text)) }
    },
  },
  big: {
    description: 'Returns as many bytes of text as it is told',
    properties: { bytes: { type: 'integer' } },
    run: (_call, args) => textResult('x'.repeat(numberIn(args, 'bytes', 1000))),
  },
  separators: {
    description: 'Returns raw line separators that are no line ends in JSON, and characters of every width',
    run: () => textResult('a\u2028b\u2029c\u0085d é € 😀'),
  },
  all_content: {
    description: 'Returns every kind of content, and one that no revision knows if it is told to',
    properties: { unknown: { type: 'boolean' } },
    run: (call, args) => {
      const unknown = { type: 'com.example/chart', points: [1, 2] }
      return { content: [...everyContent(call.world.traits), ...(args['unknown'] === true ? [unknown] : [])] }
    },
  },
  vendor: {
    description: 'Returns fields that no revision knows, and is listed with some',
    annotations: { readOnlyHint: true, 'x-hint': 'kept' },
    extra: { 'x-tool': { kept: true }, _meta: { 'com.example/tool': [1, 2] } },
    run: () => ({
      content: [
        { type: 'text', text: 'vendor', 'x-block': 1, annotations: { priority: 1, 'x-annotation': 2 } },
      ],
      'x-result': { big: new RawJson('12345678901234567890'), float: new RawJson('1.0') },
      _meta: { 'com.example/result': { kept: true }, plain: 'kept' },
    }),
  },
  structured: {
    description: 'Returns structured content with a schema',
    outputSchema: {
      type: 'object',
      properties: { city: { type: 'string' }, degrees: { type: 'number' } },
      required: ['city', 'degrees'],
    },
    run: (call) => {
      const value = { city: 'Paris', degrees: 21.5 }
      return { ...textResult(JSON.stringify(value)), ...structured(call.world.traits, value) }
    },
  },
  structured_list: {
    description: 'Returns structured content that is no object',
    outputSchema: { type: 'array', items: { type: 'integer' } },
    fits: (traits) => traits.modern,
    run: () => ({ ...textResult('[1,2,3]'), structuredContent: [1, 2, 3] }),
  },
  headers: {
    description: 'Returns its arguments, which a client repeats in HTTP headers',
    properties: {
      region: { type: 'string', 'x-mcp-header': 'Region' },
      count: { type: 'integer', 'x-mcp-header': 'Count' },
      urgent: { type: 'boolean', 'x-mcp-header': 'Urgent' },
      place: { type: 'object', properties: { city: { type: 'string', 'x-mcp-header': 'City' } } },
      plain: { type: 'string' },
    },
    fits: (traits) => traits.modern,
    run: (call) => textResult(textAt(call.text, ['params', 'arguments']) ?? '{}'),
  },
}

function structured(traits: Traits, value: unknown): Json {
  return traits.structured ? { structuredContent: value } : {}
}

function everyContent(traits: Traits): Json[] {
  const link = { type: 'resource_link', uri: 'fake://static', name: 'static', mimeType: 'text/plain' }
  return [
    { type: 'text', text: 'text', annotations: { audience: ['user'], priority: 0.5 } },
    { type: 'image', data: pixel, mimeType: 'image/png' },
    ...(traits.audio ? [{ type: 'audio', data: silence, mimeType: 'audio/wav' }] : []),
    { type: 'resource', resource: { uri: 'fake://static', mimeType: 'text/plain', text: 'static' } },
    { type: 'resource', resource: { uri: 'fake://pixel', mimeType: 'image/png', blob: pixel } },
    ...(traits.resourceLink ? [link] : []),
  ]
}
