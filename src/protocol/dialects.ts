/**
 * What the providers of models take of the tools in a request: a row for each provider, which `schema-repair.ts` applies to the
 * lists of the clients that use it. Rules are those that providers publish, or that they refuse requests with:
 *
 * - OpenAI: names match `^[a-zA-Z0-9_-]{1,64}$`, and Chat Completions take 1024 characters of a description
 *   (https://platform.openai.com/docs/api-reference/chat/create, https://learn.microsoft.com/azure/ai-foundry/openai/quotas-limits).
 * - Anthropic: names match `^[a-zA-Z0-9_-]{1,128}$`, of remote servers at claude.ai with 64; those of arguments
 *   `^[a-zA-Z0-9_.-]{1,64}$` (https://platform.claude.com/docs/agents-and-tools/tool-use/define-tools).
 * - Gemini: names begin with a letter or an underscore, and have 64 of letters, digits, `_`, `.` and `-`; those of arguments
 *   have no `.` and `-`; schemas are in a subset of OpenAPI 3.0 (https://ai.google.dev/api/caching#Schema,
 *   https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Schema).
 *
 * What all of them refuse is in `schema-repair.ts`.
 */
import type { Client } from '../core/call.ts'
import type { SchemaDialect } from '../core/settings.ts'

/** What one provider takes. */
export interface Dialect {
  readonly toolName: RegExp
  /** The names of arguments; any if undefined. */
  readonly argumentName?: RegExp
  /** The maximum length of the description of a tool, in characters. */
  readonly descriptionLength: number
  /**
   * Set if schemas are in the subset of OpenAPI 3.0 (`schema-subset.ts`), and how it says that `null` is permitted: with
   * `nullable`, which JSON Schema does not know, or by an alternative of this type.
   */
  readonly subset?: 'nullable' | 'alternative'
}

/** More than any provider documents. */
export const MAX_DESCRIPTION_LENGTH = 32_768

/** What is wrong in any form of JSON Schema, which the owner of a server should correct. */
export const common: Dialect = {
  // A client replaces dots where its provider refuses them.
  toolName: /^[a-zA-Z0-9_.-]{1,64}$/,
  argumentName: /^[a-zA-Z0-9_.-]{1,64}$/,
  descriptionLength: MAX_DESCRIPTION_LENGTH,
}

/** By provider; `any` is what all of them take. */
export const dialects: Readonly<Record<Exclude<SchemaDialect, 'auto'>, Dialect>> = {
  openai: { toolName: /^[a-zA-Z0-9_-]{1,64}$/, descriptionLength: 1024 },
  anthropic: { ...common, toolName: /^[a-zA-Z0-9_-]{1,64}$/ },
  gemini: {
    toolName: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/,
    argumentName: /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/,
    descriptionLength: MAX_DESCRIPTION_LENGTH,
    subset: 'nullable',
  },
  any: {
    toolName: /^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/,
    argumentName: /^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/,
    descriptionLength: 1024,
    subset: 'alternative',
  },
}

/**
 * The providers of clients that use one, by how their names in `clientInfo` begin: `claude-ai` and `claude-code`,
 * `codex-mcp-client` and `openai-mcp`, `gemini-cli-mcp-client`. Others, such as editors, offer the models of several.
 */
const PROVIDERS: readonly (readonly [RegExp, Dialect])[] = [
  [/^(?:claude|anthropic)\b/i, dialects.anthropic],
  [/^(?:codex|openai|chatgpt)\b/i, dialects.openai],
  [/^gemini\b/i, dialects.gemini],
]

/** What the provider of a client takes. */
export function dialectFor(setting: SchemaDialect, { info }: Client): Dialect {
  if (setting !== 'auto') return dialects[setting]
  const name = info?.name
  const found = PROVIDERS.find(([pattern]) => typeof name === 'string' && pattern.test(name))
  return found?.[1] ?? dialects.any
}
