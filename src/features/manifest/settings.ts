/** How the manifest is configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { pauseSchema, sizeSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const manifestSchema = {
  name: 'manifest',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description: 'The service manifest: what each tool does, costs and needs, in one document for programs.',
    properties: {
      ttl: {
        ...pauseSchema,
        default: '60s',
        description: 'How long a manifest may be cached.',
      },
      inline: {
        ...sizeSchema,
        default: '16KB',
        description: 'The maximum size of a manifest that is sent when a client connects.',
      },
      listed: {
        type: 'boolean',
        description: 'Whether `get_manifest` is listed as a tool; `meta_tools` decides if not given.',
      },
      compat: {
        type: 'boolean',
        default: true,
        description:
          'Whether the members of the manifest are also sent at the top level of the result of `get_manifest`.',
      },
    },
  },
} as const satisfies FeatureSchema

/** The settings of the manifest: times in milliseconds, sizes in bytes. */
export type ManifestSettings = SettingsIn<typeof manifestSchema>
