import { LmdbStore } from '../../src/store/lmdb/store.ts'
import { silentLog } from './silent-log.ts'

// A process that uses a store in a folder, until it is killed: it writes down what it was promised.
const [, , directory = '', task = '', name = ''] = process.argv
const store = new LmdbStore(directory, silentLog)
await store.opened()

/** Claims and swaps on and on; each key is told once both have been promised. */
async function write(worker: number): Promise<void> {
  for (let index = 0; ; index++) {
    const key = `call:${name}/${worker}-${index}`
    await store.setIfAbsent(key, 'begun', 3_600_000)
    process.stdout.write(`begun ${key}\n`)
    if (!(await store.compareAndSwap(key, 'begun', 'ended', 3_600_000))) throw new Error(`lost ${key}`)
    process.stdout.write(`ended ${key}\n`)
  }
}

/** Claims the same keys as others do; each key that was got is told. */
async function compete(): Promise<void> {
  const claim = async (index: number): Promise<void> => {
    const key = `call:race/${index}`
    if ((await store.setIfAbsent(key, name, 3_600_000)) === undefined) process.stdout.write(`won ${key}\n`)
  }
  for (let start = 0; start < 500; start += 20) {
    await Promise.all(Array.from({ length: 20 }, (_each, index) => claim(start + index)))
  }
  for (let count = 0; count < 200;) {
    const before = await store.get('call:count')
    if (before === undefined) await store.setIfAbsent('call:count', '0', 3_600_000)
    else if (await store.compareAndSwap('call:count', before, String(Number(before) + 1), 3_600_000)) count++
  }
  await store.close()
}

/** Reads everything, where the store can be used. */
async function look(): Promise<void> {
  let count = 0
  if (store.unavailableReason === undefined)
    for await (const { key } of store.entries()) if (key !== '') count++
  process.stdout.write(store.unavailableReason === undefined ? `found ${count}\n` : 'refused\n')
  await store.close()
}

if (task === 'write') await Promise.all(Array.from({ length: 8 }, (_each, index) => write(index)))
else if (task === 'look') await look()
else await compete()
