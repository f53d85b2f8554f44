import type { ToolSettings, ToolWords } from '../core/settings.ts'
import { settingOf } from '../core/tool-settings.ts'

/** What the owner of a tool says of it. */
export function wordsOfTool(tools: Readonly<Record<string, ToolSettings>>, name: string): ToolWords {
  const found = keys.flatMap((key) => {
    const said = settingOf(tools, name, key)
    return said ? [[key, said.value] as const] : []
  })
  return Object.fromEntries(found)
}

const keys = [
  'category',
  'effects',
  'cli',
  'api',
  'examples',
  'errors',
  'cost',
  'latency',
  'accepts',
  'returns',
  'maxInput',
  'provenance',
  'deprecated',
] as const satisfies readonly (keyof ToolWords)[]
