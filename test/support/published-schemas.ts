import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Where published JSON Schemas lie: a folder beside the checkout, unless PUBLISHED_SCHEMAS names another. */
const folder = process.env.PUBLISHED_SCHEMAS ?? join(import.meta.dirname, '../../../shared/schemas')

/** Whether a published schema is there to be held against; tests that need it are skipped otherwise. */
export function hasSchema(name: string): boolean {
  return existsSync(join(folder, name))
}

/** The text of a published schema. */
export function schemaText(name: string): string {
  return readFileSync(join(folder, name), 'utf8')
}
