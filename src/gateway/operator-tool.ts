/** A tool of the owner's client, and the parts that schemas and annotations of such tools are made of. */
import type { PageRole } from '../core/auth-settings.ts'
import { GatewayError } from '../core/error.ts'
import type { PageUser } from '../downstream/pages/page-users.ts'

/** The arguments of a call. */
export type Arguments = Readonly<Record<string, unknown>>
/** A JSON Schema, or its properties. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** A tool. Its arguments fit its input schema. */
export interface OperatorTool {
  /** The entry of `tools/list`. */
  readonly definition: Readonly<Record<string, unknown>> & {
    readonly name: string
    readonly inputSchema: JsonSchema
  }
  /** Who may call it: users with one of these roles. */
  readonly roles: readonly PageRole[]
  /** Resolves with the structured result. @throws GatewayError */
  run(given: Arguments, user: PageUser): Promise<object>
}

/** Whether a user is the caller of a call, or acts by the OAuth client that is. */
export function isCaller({ by, principal: { claims = {} } }: PageUser, caller: string): boolean {
  return [by, `client:${String(claims.client_id)}`, `client:${String(claims.azp)}`].includes(caller)
}

// Schemas.

export const text = { type: 'string' }
export const flag = { type: 'boolean' }

/** The same schema with a description. */
export function about(schema: JsonSchema, description: string): JsonSchema {
  return { ...schema, description }
}

export function listOf(items: JsonSchema): JsonSchema {
  return { type: 'array', items }
}

/** Of arguments, which have no other members. */
export function objectOf(properties: JsonSchema, required: readonly string[] = []): JsonSchema {
  return { type: 'object', properties, ...(required.length > 0 && { required }), additionalProperties: false }
}

/** Of results, which may have more members. */
export function resultOf(
  properties: JsonSchema,
  required: readonly string[] = Object.keys(properties),
): JsonSchema {
  return { type: 'object', properties, required }
}

/** An argument that is a text by its schema, where it is given. */
export function textIn(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

// What tools do to their environment, for hosts.

export const reads = { readOnlyHint: true, openWorldHint: false }
export const settles = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
}
export const changes = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}

/** The error of a tool whose setting is off. */
export function off(message: string): GatewayError {
  return new GatewayError('UNSUPPORTED_OPERATION', message, { isResult: true })
}
