import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GatewayError } from '../../src/core/error.ts'
import { isObject, readJson } from '../../src/core/json/json.ts'
import type { Bounds } from '../../src/durable/bounds.ts'
import { Collection, type RecordKind } from '../../src/durable/collection.ts'
import type { KeyPrefix, Store } from '../../src/store/store.ts'
import type { StoreUnderTest } from './store-contract.ts'

interface Note {
  readonly text: string
  readonly count?: unknown
}

const HOUR = 3_600_000
let last = 0

/** A prefix that no other test has: it is not among those of the product. */
function freshPrefix(end: '/' | ':'): KeyPrefix {
  const prefix: string = `notes-${process.pid}-${Date.now()}-${++last}${end}`
  return prefix as KeyPrefix
}

/** A kind of records with a version, a text, and any value. */
function noteKind(more: Partial<RecordKind<Note>> = {}): RecordKind<Note> {
  return {
    name: 'note',
    prefix: freshPrefix('/'),
    encode: (note) => JSON.stringify({ v: 1, ...note }),
    decode: (text) => {
      const value = readJson(text)
      return isObject(value) && value['v'] === 1 && typeof value['text'] === 'string'
        ? { text: value['text'], ...('count' in value && { count: value['count'] }) }
        : undefined
    },
    ttlOf: () => HOUR,
    ...more,
  }
}

function bound(limits: Pick<Bounds<Note>, 'count' | 'bytes' | 'sizeOf'>): Bounds<Note> {
  return {
    ...limits,
    refuse: (limit, left) => new GatewayError('QUOTA_EXHAUSTED', `too much: ${limit}`, { details: { left } }),
  }
}

/** Another process has another object for the same store. */
function ofAnotherProcess(store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/** What collections promise over every store. `open` gives the store of the running test. */
export function collectionContract(open: () => StoreUnderTest): void {
  describe('records', () => {
    it('are added once, and read, listed and removed', async () => {
      const notes = new Collection(open().store, noteKind())
      expect(await notes.get('a')).toBeUndefined()
      expect(await notes.insert('a', { text: 'one' })).toBeUndefined()
      expect(await notes.insert('a', { text: 'two' })).toEqual({ record: { text: 'one' } })
      await notes.put('b', { text: 'three' })
      expect(Object.fromEntries(await notes.list())).toEqual({ a: { text: 'one' }, b: { text: 'three' } })
      expect(await notes.remove('a')).toBe(true)
      expect(await notes.remove('a')).toBe(false)
      expect(await notes.has('a')).toBe(false)
      expect(await notes.get('b')).toEqual({ text: 'three' })
    })

    it('are added by one of many processes', async () => {
      const { store } = open()
      const kind = noteKind()
      const adding = Array.from({ length: 30 }, (_, at) =>
        new Collection(store, kind).insert('a', { text: String(at) }),
      )
      const found = await Promise.all(adding)
      expect(found.filter((each) => each === undefined)).toHaveLength(1)
      const [first] = found.flatMap((each) => each?.record ?? [])
      expect(await new Collection(store, kind).get('a')).toEqual(first)
    })

    it('lose none of many concurrent changes', async () => {
      const { store } = open()
      const kind = noteKind()
      const changes = Array.from({ length: 40 }, () =>
        new Collection(store, kind).update('a', (before) => ({ text: `${before?.text ?? ''}x` })),
      )
      const lengths = (await Promise.all(changes)).map((after) => after?.text.length ?? 0)
      expect(lengths.toSorted((one, other) => one - other)).toEqual(
        Array.from({ length: 40 }, (_, at) => at + 1),
      )
      expect((await new Collection(store, kind).get('a'))?.text).toBe('x'.repeat(40))
    })

    it('stay as they are, or are removed, as the change decides', async () => {
      const notes = new Collection(open().store, noteKind())
      expect(await notes.update('a', () => 'keep')).toBeUndefined()
      expect(await notes.update('a', () => 'remove')).toBeUndefined()
      await notes.put('a', { text: 'one' })
      expect(await notes.update('a', () => 'keep')).toEqual({ text: 'one' })
      const failing = notes.update('a', () => {
        throw new TypeError('not this one')
      })
      await expect(failing).rejects.toThrow('not this one')
      expect(await notes.get('a')).toEqual({ text: 'one' })
      expect(await notes.update('a', () => 'remove')).toBeUndefined()
      expect(await notes.has('a')).toBe(false)
    })

    it('are kept for longer as they are, and withdrawn only if they are as they were written', async () => {
      const { store, pass } = open()
      const kind = noteKind({ ttlOf: () => 300 })
      const notes = new Collection(store, kind)
      await store.put(notes.keyOf('a'), '{"text":"one", "v":1}', 300)
      await notes.put('b', { text: 'two' })
      await notes.extend('a', 60_000)
      await notes.extend('c', 60_000)
      await pass(310)
      expect(await store.get(notes.keyOf('a'))).toBe('{"text":"one", "v":1}')
      expect(await notes.ids()).toEqual(['a'])
      expect(await notes.withdraw('a', { text: 'one' })).toBe(false)
      await notes.put('a', { text: 'one' }, 60_000)
      await pass(310)
      expect(await notes.withdraw('a', { text: 'one' })).toBe(true)
      expect(await notes.ids()).toEqual([])
    })

    it('that were listed before are not read again, and only texts that match are read', async () => {
      const { store } = open()
      let reads = 0
      const kind = noteKind()
      const decode = (text: string) => {
        reads++
        return kind.decode(text)
      }
      const notes = new Collection(store, { ...kind, decode, isReadOften: true })
      for (const id of ['a', 'b']) await notes.put(id, { text: id })
      expect(await notes.all()).toHaveLength(2)
      await notes.put('b', { text: 'changed' })
      expect((await notes.all()).map(({ text }) => text).toSorted()).toEqual(['a', 'changed'])
      expect(reads).toBe(3)
      expect([...(await notes.list(undefined, (text) => text.includes('changed'))).keys()]).toEqual(['b'])
    })

    it('that were listed are remembered although only some are listed after that', async () => {
      const kind = noteKind()
      const read: string[] = []
      const decode = (text: string) => {
        read.push(text)
        return kind.decode(text)
      }
      const notes = new Collection(open().store, { ...kind, decode, isReadOften: true })
      for (const id of ['ada:1', 'bob:1']) await notes.put(id, { text: id })
      await notes.all()
      await notes.all('ada')
      await notes.list(undefined, (text) => text.includes('bob'))
      await notes.all()
      expect(read).toHaveLength(2)
    })

    it('do not grow by what a change that lost a race would have written', async () => {
      const { store } = open()
      const kind = noteKind()
      const notes = new Collection(store, kind)
      const grown: number[] = []
      const raced = async (second: 'keep' | 'remove'): Promise<void> => {
        await notes.put('a', { text: 'one' })
        const swaps = new Proxy(store, {
          get: (target, name) => {
            const member: unknown = Reflect.get(target, name, target)
            if (name !== 'compareAndSwap') return typeof member === 'function' ? member.bind(target) : member
            return async (): Promise<boolean> => {
              await notes.put('a', { text: 'other' })
              return false
            }
          },
        })
        const decide = ({ text } = { text: '' }) => (text === 'one' ? { text: 'mine' } : second)
        const racing = new Collection(swaps, kind)
        await racing.update('a', decide, undefined, (by) => grown.push(by))
      }
      await raced('keep')
      expect(grown).toEqual([])
      await raced('remove')
      expect(grown).toEqual([-kind.encode({ text: 'other' }).length])
    })

    it('that their kind does not expect hide no others', async () => {
      const kind = noteKind()
      const decode = (text: string) => {
        if (text.includes('odd')) throw new TypeError('no owner')
        return kind.decode(text)
      }
      const notes = new Collection(open().store, { ...kind, decode })
      for (const text of ['odd', 'plain']) await notes.put(text, { text })
      expect(await notes.all()).toEqual([{ text: 'plain' }])
      expect(await notes.get('odd')).toBeUndefined()
    })

    it('of a kind without a time say for how long they are added', async () => {
      const { store, pass } = open()
      const { ttlOf: _, ...kind } = noteKind()
      const notes = new Collection(store, kind)
      await notes.insert('a', { text: 'one' }, {}, 300)
      await pass(310)
      expect(await notes.has('a')).toBe(false)
    })

    it('say by how much they grow, and what a change found out', async () => {
      const notes = new Collection(open().store, noteKind())
      const length = await notes.put('a', { text: 'one' })
      const grown: number[] = []
      await notes.update(
        'a',
        (before) => ({ text: `${before?.text} more` }),
        undefined,
        (by) => grown.push(by),
      )
      await notes.update(
        'a',
        () => 'keep',
        undefined,
        (by) => grown.push(by),
      )
      expect(grown).toEqual([5])
      expect(await notes.put('a', { text: 'one more' })).toBe(length + 5)
      expect(await notes.change('a', (before) => ['remove', before?.text.length])).toBe(8)
    })

    it('that change all the time are not changed', async () => {
      const { store } = open()
      const kind = noteKind()
      const notes = new Collection(store, kind)
      let changes = 0
      const changing = new Collection(store, kind).update('a', () => {
        void notes.put('a', { text: `another ${++changes}` })
        return { text: 'mine' }
      })
      await expect(changing).rejects.toMatchObject({
        code: 'CONFLICT',
        message: 'The note changed too often to be written.',
      })
      expect(await notes.get('a')).toEqual({ text: `another ${changes}` })
    })

    it('expire, each at its time', async () => {
      const { store, pass } = open()
      const notes = new Collection(store, noteKind({ ttlOf: ({ text }) => Number(text) }))
      await notes.put('a', { text: '300' })
      await notes.insert('b', { text: '60000' })
      await notes.update('c', () => ({ text: '300' }))
      await pass(310)
      expect([...(await notes.list()).keys()]).toEqual(['b'])
      expect(await notes.insert('a', { text: '60000' })).toBeUndefined()
    })

    it('that are damaged or of another version count as none, and only a change replaces them', async () => {
      const { store } = open()
      const kind = noteKind()
      const notes = new Collection(store, kind)
      const texts = ['', '{', 'null', '{"v":2,"text":"later"}', '"\\ud800"', '[]']
      for (const [at, text] of texts.entries()) await store.put(`${kind.prefix}${at}`, text, HOUR)
      expect(await notes.list()).toEqual(new Map())
      for (const [at, text] of texts.entries()) {
        const id = String(at)
        expect(await notes.get(id)).toBeUndefined()
        expect(await notes.has(id)).toBe(true)
        expect(await notes.insert(id, { text: 'new' })).toEqual({ record: undefined })
        expect(await notes.update(id, () => 'keep')).toBeUndefined()
        expect(await store.get(`${kind.prefix}${id}`)).toBe(text)
        expect(await notes.update(id, (before) => ({ text: String(before) }))).toEqual({ text: 'undefined' })
      }
    })

    it('come back with lone surrogates and all digits of their numbers', async () => {
      const notes = new Collection(open().store, noteKind())
      const long = readJson('{"text":"n","count":12345678901234567890}')
      await notes.put('n', isObject(long) ? { text: 'n', count: long['count'] } : { text: '' })
      expect(JSON.stringify(await notes.get('n'))).toBe('{"text":"n","count":12345678901234567890}')
      const unit = fc.integer({ min: 0, max: 0xff_ff }).map((code) => String.fromCharCode(code))
      const texts = fc.asyncProperty(fc.string({ unit }), async (text) => {
        const lone = `${text}\ud83d`
        await notes.put('t', { text: lone })
        expect(await notes.get('t')).toEqual({ text: lone })
        expect((await notes.list()).get('t')).toEqual({ text: lone })
      })
      await fc.assert(texts, { numRuns: 20 })
    })
  })

  describe('records of owners', () => {
    it('are listed for one of them', async () => {
      const notes = new Collection(open().store, noteKind())
      for (const id of ['ada:1', 'ada:2', 'adam:1']) await notes.put(id, { text: id })
      expect([...(await notes.list('ada')).keys()].toSorted()).toEqual(['ada:1', 'ada:2'])
      expect((await notes.list()).size).toBe(3)
    })

    it('can be a collection of the store each', async () => {
      const notes = new Collection(open().store, noteKind({ prefix: freshPrefix(':') }))
      for (const id of ['ada/1', 'ada/2', 'adam/1']) await notes.put(id, { text: id })
      expect([...(await notes.list('ada')).keys()].toSorted()).toEqual(['ada/1', 'ada/2'])
    })
  })

  describe('bounds', () => {
    it('permit one owner a quarter, in records and bytes, and those who are not distinguished all of it', async () => {
      const { store } = open()
      const bounds = [bound({ count: 8, bytes: 400, sizeOf: ({ text }) => text.length })]
      const notes = new Collection(store, noteKind({ bounds }))
      const refused = { code: 'QUOTA_EXHAUSTED' }
      await notes.insert('ada:1', { text: 'x'.repeat(60) })
      await expect(notes.insert('ada:2', { text: 'x'.repeat(41) })).rejects.toMatchObject({
        ...refused,
        message: 'too much: bytes',
        extra: { details: { left: 40 } },
      })
      await notes.insert('ada:2', { text: 'x'.repeat(40) })
      await expect(notes.insert('ada:3', { text: '' })).rejects.toMatchObject({
        ...refused,
        message: 'too much: count',
      })
      for (let at = 0; at < 6; at++) await notes.insert(`all:${at}`, { text: 'x' }, { isEverybody: true })
      await expect(notes.insert('all:6', { text: 'x' }, { isEverybody: true })).rejects.toMatchObject(refused)
      await expect(notes.insert('bob:1', { text: 'x' })).rejects.toMatchObject(refused)
      await notes.remove('ada:1')
      await notes.insert('bob:1', { text: 'x' })
    })

    it('count only what counts, what can be read or not, until it expires', async () => {
      const { store, pass } = open()
      const kind = noteKind({
        bounds: [bound({ count: 4, sizeOf: ({ text }) => (text === 'done' ? undefined : 1) })],
        ttlOf: ({ text }) => (text === 'short' ? 300 : HOUR),
      })
      const notes = new Collection(store, kind)
      await notes.insert('ada:1', { text: 'done' })
      await notes.insert('ada:2', { text: 'short' })
      await expect(notes.insert('ada:3', { text: 'open' })).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
      await notes.insert('ada:3', { text: 'done' })
      await pass(310)
      await notes.insert('ada:4', { text: 'open' })
      await store.put(`${kind.prefix}bob:1`, 'damaged', HOUR)
      await expect(notes.insert('bob:2', { text: 'open' })).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    })

    it('read each record once, however many there are', async () => {
      let reads = 0
      const kind = noteKind({ bounds: [1, 2].map(() => bound({ count: 8, sizeOf: () => 1 })) })
      const decode = (text: string) => {
        reads++
        return kind.decode(text)
      }
      const notes = new Collection(open().store, { ...kind, decode })
      await notes.insert('ada:1', { text: 'one' })
      await notes.insert('ada:2', { text: 'two' })
      expect(reads).toBe(1)
    })

    it('that are strict refuse a record that was removed while it was counted', async () => {
      const { store } = open()
      const kind = noteKind({ bounds: [bound({ count: 4 })], isStrict: true })
      const notes = new Collection(store, kind)
      await notes.insert('ada:1', { text: 'one' })
      const removing = new Proxy(store, {
        get: (target, name) => {
          const member: unknown = Reflect.get(target, name, target)
          if (typeof member !== 'function') return member
          return async (...args: readonly unknown[]): Promise<unknown> => {
            if (name === 'compareAndDelete') await notes.remove('ada:2')
            return member.apply(target, args)
          }
        },
      })
      const refused = new Collection(removing, kind).insert('ada:2', { text: 'two' })
      await expect(refused).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
    })

    it('are kept exactly by one process', async () => {
      const { store } = open()
      const kind = noteKind({ bounds: [bound({ count: 4 })] })
      const adding = Array.from({ length: 12 }, (_, at) =>
        new Collection(store, kind).insert(`all:${at}`, { text: 'x' }, { isEverybody: true }),
      )
      const done = await Promise.allSettled(adding)
      expect(done.filter(({ status }) => status === 'fulfilled')).toHaveLength(4)
      expect((await new Collection(store, kind).list()).size).toBe(4)
    })

    it('that are strict hold for several processes together', async () => {
      const { store } = open()
      const kind = noteKind({ bounds: [bound({ count: 4 })], isStrict: true })
      const adding = Array.from({ length: 12 }, (_, at) =>
        new Collection(ofAnotherProcess(store), kind).insert(
          `all:${at}`,
          { text: 'x' },
          { isEverybody: true },
        ),
      )
      const done = await Promise.allSettled(adding)
      const kept = (await new Collection(store, kind).list()).size
      expect(kept).toBeLessThanOrEqual(4)
      expect(done.filter(({ status }) => status === 'fulfilled')).toHaveLength(kept)
      await new Collection(store, kind).remove('all:0')
      const notes = new Collection(store, kind)
      for (let at = kept; at < 3; at++) await notes.insert(`more:${at}`, { text: 'x' }, { isEverybody: true })
    })
  })
}
