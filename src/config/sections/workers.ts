/** The setting `workers`: how many processes serve, its schema and its check. */
import type { Fields } from '../../core/payload.ts'
import { atValue, type Finding } from '../problem.ts'

/** The most processes of one gateway. As many can write an audit log (`observability/audit/file.ts`). */
const MAX_WORKERS = 64

/** The JSON Schema of `workers`. */
export const workersSchema = {
  type: ['integer', 'string'],
  minimum: 1,
  maximum: MAX_WORKERS,
  pattern: '^auto$',
  default: 1,
  errorMessage: `must be a whole number from 1 to ${MAX_WORKERS}, or auto for one process for each core`,
  description:
    'How many processes serve as one gateway, on one port: `auto` for one for each core that this process may use. More than one need a `store` that they share. A change needs a restart. See [Workers](operating.md#workers).',
  examples: ['auto', 4],
} as const

/** Whether several processes serve, which `auto` means on every machine. */
export function areSeveral(workers: unknown): boolean {
  return workers === 'auto' || (typeof workers === 'number' && workers > 1)
}

/** Checks that the workers have a store that they share. */
export function checkWorkers({ workers, store }: Fields): Finding[] {
  return atValue(
    ['workers'],
    areSeveral(workers) &&
      store === 'memory' &&
      'several processes cannot share `store: memory`: set `store: ./folder`, or the URL of a Redis or Valkey server, or `workers: 1`',
  )
}
