import { describe, expect, it } from 'vitest'
import { type Release, FairMutex } from '../../../../src/upstream/protocol/server-requests.ts'

const never = new AbortController().signal

/** Acquires the mutex and records when it has it. */
function asking(turns: FairMutex, owner: string | undefined, signal = never) {
  const state: { release: Release | undefined } = { release: undefined }
  const taken = turns.take(owner, signal).then((release) => {
    state.release = release
  })
  return { state, taken }
}

describe('the fair mutex', () => {
  it('the mutex has one owner at a time, in the order of requests', async () => {
    const turns = new FairMutex()
    const [a, b, c] = ['a', 'b', 'c'].map((owner) => asking(turns, owner))
    await a?.taken
    expect([b?.state.release, c?.state.release]).toEqual([undefined, undefined])
    a?.state.release?.()
    await b?.taken
    expect(c?.state.release).toBeUndefined()
    b?.state.release?.()
    await c?.taken
  })

  it('calls of one owner share the mutex', async () => {
    const turns = new FairMutex()
    await Promise.all([asking(turns, 'a').taken, asking(turns, 'a').taken])
  })

  it('calls without an owner do not share the mutex', async () => {
    const turns = new FairMutex()
    const first = asking(turns, undefined)
    const second = asking(turns, undefined)
    await first.taken
    expect(second.state.release).toBeUndefined()
    first.state.release?.()
    await second.taken
  })

  it('aborted waiters are skipped', async () => {
    const turns = new FairMutex()
    const gone = new AbortController()
    const first = asking(turns, 'a')
    await first.taken
    const second = asking(turns, 'b', gone.signal)
    const third = asking(turns, 'c')
    gone.abort(new Error('gone'))
    await expect(second.taken).rejects.toThrow('gone')
    first.state.release?.()
    await third.taken
  })

  it('a repeated release has no effect', async () => {
    const turns = new FairMutex()
    const first = asking(turns, 'a')
    await first.taken
    const second = asking(turns, 'b')
    first.state.release?.()
    await second.taken
    first.state.release?.()
    const third = asking(turns, 'c')
    await Promise.resolve()
    expect(third.state.release).toBeUndefined()
    second.state.release?.()
    await third.taken
  })
})
