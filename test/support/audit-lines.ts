import { readFileSync } from 'node:fs'
import { AuditFile } from '../../src/observability/audit/file.ts'
import { isObject, type Json, parse } from './server/json.ts'

/**
 * The whole lines of an audit log, of all processes that write one with this name, in the order of their times; those of one
 * process stay in the order in which it wrote them.
 */
export function auditLines(file: string): Json[] {
  const timed = AuditFile.all(file).flatMap((each) => {
    let latest = 0
    const lines = readFileSync(each, 'utf8').split('\n').slice(0, -1).map(parse).filter(isObject)
    return lines.map((line) => ({ line, at: (latest = Math.max(latest, Date.parse(String(line['time'])))) }))
  })
  return timed.toSorted((one, other) => one.at - other.at).map(({ line }) => line)
}
