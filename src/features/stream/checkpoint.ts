/**
 * Checkpoint tokens: where a collection goes on, sealed, so that the caller cannot read or change it.
 *
 * Invariant: a token is valid only for its caller, server, tool and arguments. All others are refused with the same error.
 */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { NextPage } from '../../core/judgement/pages.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import { argumentsHash } from '../../records/receipts.ts'

/** Where a collection goes on. */
export interface Checkpoint {
  readonly next: NextPage
  /** How many chunks were sent before. */
  readonly sequence: number
}

/** How long a token is valid, in milliseconds. */
const CHECKPOINT_TTL_MS = 3_600_000
/** How long a token may be, in characters. */
const MAX_TOKEN_LENGTH = 65_536

/** A token for the rest of the pages of a call. */
export function sealCheckpoint({ next, sequence }: Checkpoint, call: Call, seal: Seal): string {
  const value = {
    tool: call.target.name,
    arguments: argumentsHash(call.params.fields.arguments),
    argument: next.argument,
    cursor: next.value,
    sequence,
  }
  return seal.close(value, useOf(call), world.now() + CHECKPOINT_TTL_MS)
}

/** The content of a token of the caller. @throws RESOURCE_NOT_FOUND */
export function openCheckpoint(token: string, call: Call, seal: Seal): Checkpoint {
  const opened = token.length > MAX_TOKEN_LENGTH ? undefined : seal.open(token, useOf(call))
  if (opened?.kind === 'expired') throw expired()
  const value = opened?.kind === 'valid' && isObject(opened.value) ? opened.value : {}
  const { tool, arguments: hash, argument, cursor, sequence } = value
  const isOwn = tool === call.target.name && hash === argumentsHash(call.params.fields.arguments)
  if (!isOwn || typeof argument !== 'string' || typeof sequence !== 'number') throw unknownCheckpoint()
  return { next: { argument, value: cursor }, sequence }
}

function useOf({ principal, target }: Call): SealUse {
  return { purpose: 'checkpoint', binding: JSON.stringify([principal.id, target.upstream]) }
}

/** The error for every token that is not valid for the call. */
export function unknownCheckpoint(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'Checkpoint not found.', {
    field: 'checkpoint_token',
    reason: 'unknown',
    suggestion: 'Send a checkpoint_token with the tool and the arguments that it was given for.',
  })
}

function expired(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'Checkpoint not found.', {
    field: 'checkpoint_token',
    reason: 'expired',
    suggestion: 'The checkpoint_token has expired: make the call again without it, from the first page on.',
  })
}
