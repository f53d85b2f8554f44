/**
 * Which store a Redis holds. A Redis that was emptied, restarted without its data or replaced by another looks like one
 * that never held anything: calls that were answered would run again. So the first promise puts a name into Redis, each
 * later command reads it again, and the user's state remembers it (see `Sentinel`). A store that has another name than
 * before, or none, is lost until the right one is back or `gatehouse store accept` allows to go on without it.
 */
import { randomUUID } from 'node:crypto'
import type { RedisClientType } from '@redis/client'
import { PREFIX } from './scripts.ts'
import type { Promised, Sentinel } from '../sentinel.ts'

/** It has no expiry, so that Redis keeps it as long as anything. */
const GENERATION_KEY = `${PREFIX}generation`

/** The name of the store in a Redis, as this process knows it. */
export class RedisGeneration {
  readonly #sentinel: Sentinel
  #known: string | undefined
  /** What was promised before this process began. */
  #promised: Promised | undefined
  #loss: string | undefined
  #lostAt = 0

  constructor(sentinel: Sentinel) {
    this.#sentinel = sentinel
    this.#promised = sentinel.read(Date.now())
  }

  /** Why what was promised is not there; nothing while it is. */
  get loss(): string | undefined {
    return this.#loss
  }

  /** Reads the name that is there, and finds out whether it is the right one. */
  async look(client: RedisClientType): Promise<void> {
    this.#compare(await client.get(GENERATION_KEY), Date.now())
  }

  get hasName(): boolean {
    return this.#known !== undefined
  }

  /** Gives the store a name, unless it has one, or what was promised is gone. */
  async name(client: RedisClientType): Promise<void> {
    await this.look(client)
    if (this.#known !== undefined || this.#loss !== undefined) return
    await client.set(GENERATION_KEY, `${randomUUID()} 0`, { condition: 'NX' })
    await this.look(client)
  }

  /** Takes note of a promise, before it is made, for so many milliseconds. */
  note(ttl: number): void {
    const now = Date.now()
    if (this.#known !== undefined) this.#sentinel.note(this.#known, now + ttl, now)
  }

  /** Has every gateway go on with what is there; whether the store was given a new name. */
  async accept(client: RedisClientType): Promise<boolean> {
    const now = Date.now()
    const there = read(await client.get(GENERATION_KEY))
    const isLost = there === undefined || this.#loss !== undefined
    await client.set(GENERATION_KEY, `${isLost ? randomUUID() : there.id} ${now}`)
    if (isLost) this.#forget()
    return isLost
  }

  #compare(text: string | null, now: number): void {
    const there = read(text)
    const promised = this.#known === undefined ? this.#promised : undefined
    const expected = this.#known ?? promised?.id
    if (expected === undefined || there?.id === expected) return this.#adopt(there?.id)
    const since = this.#loss === undefined ? (promised?.at ?? now) : this.#lostAt
    if (there && there.acceptedAt > since) {
      this.#forget()
      return this.#adopt(there.id)
    }
    if (this.#loss === undefined) this.#lostAt = since
    this.#loss = there ? 'it holds another store than before' : 'what was kept there is gone'
  }

  #forget(): void {
    this.#promised = undefined
    this.#sentinel.forget()
  }

  #adopt(id: string | undefined): void {
    this.#known = id
    this.#loss = undefined
  }
}

interface Name {
  readonly id: string
  /** When an operator allowed to go on with it, in milliseconds since 1970; 0 for never. */
  readonly acceptedAt: number
}

function read(text: string | null): Name | undefined {
  const [id = '', at = ''] = text?.split(' ') ?? []
  return id === '' ? undefined : { id, acceptedAt: Number(at) || 0 }
}
