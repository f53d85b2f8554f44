// The most that a keyed call could reach: how many records the disk takes, each awaited until it is durable.
import { mkdirSync } from 'node:fs'
import { open } from 'lmdb'
import { middleOf, type Middle } from './middle.ts'

/** Records that were written durably, two for each keyed call: its intent and its outcome. */
export interface Commits {
  readonly concurrency: number
  /** Characters of one record. */
  readonly size: number
  readonly recordsPerSecond: Middle
}

const ROUNDS = 5
const SIZE = 512

/** Writes records into an LMDB file with the options of the gateway's store, and nothing around it. */
export async function measureCommits(folder: string, concurrencies: readonly number[]): Promise<Commits[]> {
  mkdirSync(folder, { recursive: true })
  const database = open<string, string>({
    path: `${folder}/store`,
    noSubdir: false,
    encoding: 'string',
    useVersions: true,
    overlappingSync: false,
  })
  const record = 'x'.repeat(SIZE)
  let key = 0
  const round = async (concurrency: number): Promise<number> => {
    const started = performance.now()
    let written = 0
    const writer = async (): Promise<void> => {
      while (performance.now() < started + 1000) {
        await database.put(`key ${key++}`, record)
        written++
      }
    }
    await Promise.all(Array.from({ length: concurrency }, writer))
    return (written * 1000) / (performance.now() - started)
  }
  try {
    const measured: Commits[] = []
    for (const concurrency of concurrencies) {
      const rates: number[] = []
      for (let at = 0; at < ROUNDS; at++) rates.push(await round(concurrency))
      const recordsPerSecond = middleOf(rates)
      if (recordsPerSecond) measured.push({ concurrency, size: SIZE, recordsPerSecond })
    }
    return measured
  } finally {
    await database.close()
  }
}
