import { GatewayError } from '../core/error.ts'
import { metaKeys } from './extensions.ts'
import type { JsonRpcMessage } from './jsonrpc.ts'
import { isObject } from '../core/json.ts'
import { claimsModern, findRevision } from './revisions.ts'

/**
 * Tells the era of a message: by its body first, by the version header where the body says nothing
 * (2026-07-28 basic/lifecycle). @throws INVALID_INPUT for a header that claims what the body lacks
 */
export function classify(message: JsonRpcMessage, versionHeader: string | undefined): 'legacy' | 'modern' {
  if (message.kind === 'response') return 'legacy'
  if (hasClaim(message)) return 'modern'
  const isModernHeader = versionHeader !== undefined && claimsModern(versionHeader)
  if (message.kind === 'notification') return isModernHeader ? 'modern' : 'legacy'
  if (!isModernHeader || message.method === 'initialize') return 'legacy'
  throw new GatewayError('INVALID_INPUT', `Invalid params: _meta lacks ${metaKeys.version}.`, {
    suggestion: `A request of revision ${versionHeader} carries ${metaKeys.version} and ${metaKeys.capabilities} in params._meta.`,
  })
}

/** Whether a version header names a revision the gateway can not know the rules of. */
export function isUnknownVersion(versionHeader: string | undefined): boolean {
  return versionHeader !== undefined && findRevision(versionHeader) === undefined
}

function hasClaim(message: JsonRpcMessage): boolean {
  if (message.kind === 'response') return false
  const meta = message.params.fields._meta
  return isObject(meta) && Object.hasOwn(meta, metaKeys.version)
}
