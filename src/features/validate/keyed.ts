import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { withKeyArgument } from '../../core/key-argument.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { hasIdempotencyKey, idempotencyKeyOf } from '../../wire/extensions.ts'
import type { Deps } from '../feature.ts'

/** The arguments of a call with its idempotency key where its server wants one; nothing where that adds nothing. @throws INVALID_INPUT */
export function argumentsWithKey(call: Call, entry: Descriptor, deps: Deps): unknown {
  const { upstream, name } = entry
  if (call.target.isBuiltin || !hasIdempotencyKey(call) || !deps.isOn('idempotency', upstream))
    return undefined
  const setting = settingOf(deps.server(upstream)?.tools ?? {}, name, 'keyArgument')?.value
  const filled = withKeyArgument(call, idempotencyKeyOf(call), setting, entry)
  return filled === call ? undefined : filled.params.fields.arguments
}
