import { readFileSync } from 'node:fs'
import { isObject, type Json, parse } from './server/json.ts'

/** The whole lines of an audit log. */
export function auditLines(file: string): Json[] {
  return readFileSync(file, 'utf8').split('\n').slice(0, -1).map(parse).filter(isObject)
}
