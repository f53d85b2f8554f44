import { describe, expect, it } from 'vitest'
import { partOf, ProcessScope } from '../../../src/durable/process-scope.ts'

class Calls {
  readonly running = new Set<string>()
  isClosed = false

  close(): void {
    this.isClosed = true
  }
}

/** The same shape under the same name, by another user. */
const { Calls: OtherCalls } = {
  Calls: class extends Calls {},
}

class Broken {
  close(): Promise<void> {
    return Promise.reject(new Error('it cannot be closed'))
  }
}

describe('the scope of a gateway', () => {
  it('makes a part once, for all who ask for its class', () => {
    const scope = new ProcessScope()
    scope.once(Calls).running.add('a')
    expect(scope.once(Calls).running).toEqual(new Set(['a']))
  })

  it('has different parts for different classes, whatever their names', () => {
    const scope = new ProcessScope()
    expect(scope.once(OtherCalls)).not.toBe(scope.once(Calls))
  })

  it('shares nothing with the scope of another gateway', () => {
    const [one, other] = [new ProcessScope(), new ProcessScope()]
    one.once(Calls).running.add('a')
    expect(other.once(Calls).running).toEqual(new Set())
  })

  it('closes all parts, also after one that cannot be closed', async () => {
    const scope = new ProcessScope()
    scope.once(Broken)
    const calls = scope.once(Calls)
    await scope.close()
    expect(calls.isClosed).toBe(true)
  })

  it('makes no part once it is closed, since nothing would close that', async () => {
    const scope = new ProcessScope()
    const calls = scope.once(Calls)
    await scope.close()
    expect(scope.once(Calls)).toBe(calls)
    expect(() => scope.once(OtherCalls)).toThrow(TypeError)
  })
})

describe('a part of a store', () => {
  it('is the same for all who have the store, and another one for another store', () => {
    const [one, other] = [{}, {}]
    partOf(one, Calls).running.add('a')
    expect(partOf(one, Calls).running).toEqual(new Set(['a']))
    expect(partOf(other, Calls).running).toEqual(new Set())
  })
})
