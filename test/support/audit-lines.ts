import { readFileSync } from 'node:fs'
import { AuditFile } from '../../src/observability/audit/file.ts'
import { isObject, type Json, parse } from './server/json.ts'

/** The whole lines of an audit log, of all processes that write one with this name, in the order of their times. */
export function auditLines(file: string): Json[] {
  const lines = AuditFile.all(file).flatMap((each) =>
    readFileSync(each, 'utf8').split('\n').slice(0, -1).map(parse).filter(isObject),
  )
  return lines.toSorted((one, other) => Date.parse(String(one['time'])) - Date.parse(String(other['time'])))
}
