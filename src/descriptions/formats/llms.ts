/** llms.txt and llms-full.txt (https://llmstxt.org). */
import { guideOf } from './help.ts'
import type { ServerDescription } from '../model/description.ts'
import { sectionsOf } from '../sections/sections.ts'

/** What is in the short guide; the rest is in the full one. */
const short: ReadonlySet<string> = new Set([
  'whenToUse',
  'quickReference',
  'installation',
  'authentication',
  'rateLimits',
  'alternativeAccess',
  'bestPractices',
])

/** The short guide of `/llms.txt`: when to use it, which tools there are, how to connect. */
export function llmsText(description: ServerDescription): string {
  return guideOf(
    description,
    sectionsOf(description, 'signatures').filter(({ key }) => short.has(key)),
  )
}

/** The guide of `/llms-full.txt`, with everything about each tool. */
export function llmsFullText(description: ServerDescription): string {
  return guideOf(description, sectionsOf(description))
}
