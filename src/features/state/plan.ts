/** What the settings of session state mean for one server: who gets a token, and what it leads to. */
import type { Call } from '../../core/call.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { isAskedFor, SESSION_STATE_KEY } from '../../protocol/meta-keys.ts'
import { rememberedNames } from './remember.ts'
import type { StateSettings } from './settings.ts'

/** What session state means for one server. */
export interface StatePlan extends Pick<StateSettings, 'ttl' | 'max' | 'transaction' | 'compat'> {
  /** Whether the token of a client leads to a connection of its own. */
  readonly isConnecting: boolean
  /** The remembered arguments of a tool; undefined if there are none. */
  readonly namesOf: ReturnType<typeof rememberedNames>
  /** Whether models copy tokens, as an argument. */
  readonly isForModels: boolean
  /** Whether a token helps a client that never asks for one. */
  readonly isForAll: boolean
  /** Whether a call without a token gets a connection of its own. */
  isBeginning(call: Call): boolean
}

/** The plan for a server. */
export function planFor(
  { connection, remember, ...settings }: StateSettings,
  { isolation }: Pick<UpstreamSettings, 'isolation'>,
  isForModels: boolean,
): StatePlan {
  const isConnecting = connection === 'on' || (connection === 'auto' && isolation !== 'shared')
  const isOwnForAll = connection === 'on' || (isForModels && isolation === 'per_client')
  const namesOf = rememberedNames(remember)
  return {
    ...settings,
    isConnecting,
    namesOf,
    isForModels,
    isForAll: (isConnecting && isOwnForAll) || namesOf !== undefined || settings.transaction,
    isBeginning: (call) =>
      isConnecting &&
      ((isOwnForAll && call.client.session === undefined) || isAskedFor(call, SESSION_STATE_KEY)),
  }
}
