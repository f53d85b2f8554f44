import type { Cost } from '../core/record.ts'
import type { ToolSettings } from '../core/settings.ts'
import { costSettings } from './about-settings.ts'
import { given } from './given.ts'

/** What the configuration says of a tool, as it is written. */
export type ToolValues = Pick<ToolSettings, Unchanged> & {
  readonly rename?: string
  readonly scopes?: string | readonly string[]
  readonly approvers?: string | readonly string[]
  readonly key_argument?: string | false
  readonly forward_key?: boolean
  readonly auto_key?: number
  readonly type_to_confirm?: string
  readonly cost?: string | Cost
  readonly max_input?: number
  readonly provenance?: { readonly source?: string; readonly version?: string; readonly json_path?: string }
} & Readonly<Partial<Record<'effects' | 'accepts' | 'returns', string | readonly string[]>>>
type Unchanged = Exclude<
  keyof ToolSettings,
  | 'scopes'
  | 'approvers'
  | 'effects'
  | 'accepts'
  | 'returns'
  | 'cost'
  | 'maxInput'
  | 'provenance'
  | 'keyArgument'
  | 'forwardKey'
  | 'autoKey'
  | 'typeToConfirm'
>

/** What the configuration says of a tool. */
export function toolSettings(values: ToolValues): ToolSettings {
  const {
    key_argument: keyArgument,
    forward_key: forwardKey,
    auto_key: autoKey,
    rename: _rename,
    ...others
  } = values
  const { type_to_confirm: typeToConfirm, max_input: maxInput, cost, provenance, ...more } = others
  const { scopes, approvers, effects, accepts, returns, ...rest } = more
  const lists = { scopes, approvers, effects, accepts, returns }
  const found = { keyArgument, forwardKey, autoKey, typeToConfirm, maxInput }
  return {
    ...rest,
    ...given(found),
    ...Object.fromEntries(Object.entries(given(lists)).map(([key, names]) => [key, [names].flat()])),
    ...(cost !== undefined && { cost: costSettings(cost) }),
    ...(provenance && { provenance: provenanceSettings(provenance) }),
  }
}

/** The new names of tools, by the names their server has for them. */
export function renamesOf(tools: Readonly<Record<string, ToolValues>>): Readonly<Record<string, string>> {
  const renamed = Object.entries(tools).map(([name, { rename }]) => [name, rename])
  return Object.fromEntries(renamed.filter(([, rename]) => rename !== undefined))
}

function provenanceSettings({ json_path: jsonPath, ...rest }: NonNullable<ToolValues['provenance']>) {
  return { ...rest, ...(jsonPath !== undefined && { jsonPath }) }
}
