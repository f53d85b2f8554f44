import { fitting } from './glob.ts'
import type { ToolSettings } from './settings.ts'

/** What one setting of a tool is and which glob says so: the most specific one that has this setting. */
export function settingOf<Key extends keyof ToolSettings>(
  tools: Readonly<Record<string, ToolSettings>>,
  name: string,
  key: Key,
): { readonly glob: string; readonly value: NonNullable<ToolSettings[Key]> } | undefined {
  for (const glob of fitting(Object.keys(tools), name)) {
    const value = tools[glob]?.[key]
    if (value !== undefined) return { glob, value }
  }
  return undefined
}
