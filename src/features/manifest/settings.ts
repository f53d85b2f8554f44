import { durationSchema, sizeSchema } from '../../core/units.ts'

/** The settings of the manifest: times in milliseconds, sizes in bytes. */
export interface Settings {
  readonly ttl: number
  readonly inline: number
  readonly listed?: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings of the manifest. */
export const settingsSchema = {
  type: 'object',
  description: 'The service manifest: what each tool does, costs and needs, in one document for programs.',
  properties: {
    ttl: {
      ...durationSchema,
      default: '60s',
      description: 'How long a manifest may be kept before it is asked for again.',
    },
    inline: {
      ...sizeSchema,
      default: '16KB',
      description: 'How large a manifest may be to be sent along when a client connects.',
    },
    listed: {
      type: 'boolean',
      description: 'Whether `get_manifest` stands in lists of tools; as `meta_tools` says unless given.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description:
        'Whether the members of the manifest also stand at the top of the result of `get_manifest`.',
    },
  },
} as const
