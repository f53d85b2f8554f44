/** The setting `compat`, which several features have: what they add to a result in the places of the extension proposals. */

/** Not at all, for those who may expect it there, or for everyone. */
export type Compat = boolean | 'always'

/** The schema of the setting of one feature. */
export function compatSetting(description: string) {
  return {
    type: ['boolean', 'string'],
    enum: [true, false, 'on', 'off', 'always'],
    default: true,
    errorMessage: 'must be on, off or always',
    description: `${description} By default \`on\`, and \`always\` with \`compat: proposals\`.`,
  } as const
}
