import { NS } from '../../wire/extensions.ts'

/** The name of the feature. */
export const NAME = 'dashdash'

/** There is nothing to set but whether it is on. */
export type Settings = Readonly<Record<never, never>>

/** The JSON Schema of the settings of descriptions. */
export const settingsSchema = {
  type: 'object',
  description:
    'What servers, tools and resources are for, do and need, beside each of them, for agents and those who write skills.',
  properties: {},
} as const

/** Where the objects stand in `_meta`, and the name of the extension. */
export const META_KEY = `${NS}/dashdash`
