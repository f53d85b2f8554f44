/** What the schemas of the settings of features are made of: the feature around them, and the forms that most settings have. */
import type { FeatureSchema } from './settings.ts'

/** How a feature is configured, with everything of it in one object. */
type Declared = Omit<FeatureSchema, 'place' | 'schema'> & {
  /** Where the settings are; under `features` by default. */
  readonly place?: FeatureSchema['place']
  readonly description?: string
  /** `off` if the feature must be turned on explicitly. */
  readonly default?: unknown
  /** The settings by name; none if the feature is only on or off. */
  readonly properties?: Readonly<Record<string, unknown>>
}

/** The schema of the settings of a feature. `SettingsIn` is their type. */
export function defineSettings<const Given extends Declared>({
  name,
  place = 'features',
  choice,
  isLeftToGateway,
  isLeftToPersonal,
  properties = {},
  ...about
}: Given) {
  return {
    name,
    place,
    ...(choice !== undefined && { choice }),
    ...(isLeftToGateway && { isLeftToGateway }),
    ...(isLeftToPersonal && { isLeftToPersonal }),
    // The properties are those given, of which the parameter only knows that they are some.
    schema: { type: 'object', ...about, properties: properties as PropertiesOf<Given> },
  } as const
}

type PropertiesOf<Given> = Given extends { readonly properties: infer Properties }
  ? Properties
  : Record<never, never>

/** A setting of a form, with its default. */
export function setting<const Form extends object>(form: Form, fallback: unknown, description: string) {
  return { ...form, default: fallback, description }
}

/** A setting that is on or off. */
export function flag(fallback: boolean, description: string) {
  return setting({ type: 'boolean' }, fallback, description)
}

/** The values of `compat`, by which features also give things in the places of the extension proposals. */
export type Compat = boolean | 'always'

/** The setting `compat`: not at all, for those who may expect it there, or for everyone. */
export function compatSetting(description: string) {
  return setting(
    {
      type: ['boolean', 'string'],
      enum: [true, false, 'on', 'off', 'always'],
      errorMessage: 'must be on, off or always',
    },
    true,
    `${description} By default \`on\`, and \`always\` with \`compat: proposals\`.`,
  )
}
