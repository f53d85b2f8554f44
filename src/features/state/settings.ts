/** The settings of session state, and what they mean for one server. */
import type { Call } from '../../core/call.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'
import { isAskedFor, SESSION_STATE_KEY } from '../../protocol/meta-keys.ts'
import { type RememberSetting, rememberedNames, rememberSchema } from './remember.ts'

/** Durations in milliseconds, sizes in bytes. */
export interface Settings {
  readonly ttl: number
  readonly max: number
  readonly connection: 'auto' | 'on' | 'off'
  readonly remember: RememberSetting
  readonly transaction: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  properties: {
    ttl: {
      ...durationSchema,
      default: '24h',
      description: 'How long a session state lasts after it was last renewed.',
    },
    max: {
      ...sizeSchema,
      default: '64KB',
      description:
        'The longest token. A state that is larger is kept in the store, and its token is a short handle.',
    },
    connection: {
      enum: ['auto', 'on', 'off'],
      default: 'auto',
      description:
        'Which clients get their own connection to the server, which their token selects again: those that ask for a session state (`auto`, except for servers with `isolation: shared`), all that have no session (`on`), or none (`off`).',
    },
    remember: rememberSchema,
    transaction: {
      type: 'boolean',
      default: false,
      description:
        'Whether calls with the token of a call that named its transaction are steps of this transaction, while it is active.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether the state is also sent at `session_state` and `state_changed` of results.',
    },
  },
} as const

/** What session state means for one server. */
export interface StatePlan extends Pick<Settings, 'ttl' | 'max' | 'transaction' | 'compat'> {
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
  { connection, remember, ...settings }: Settings,
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
