import { referenceSettings } from './reference-world.ts'

/** Settings of references in tests of records: data may be larger than a record, and lives as long as usual. */
export const recordSettings = {
  ...referenceSettings,
  ttl: 900_000,
  argument: 10_000_000,
  total: 100_000_000,
}
