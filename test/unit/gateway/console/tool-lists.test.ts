import { expect, it } from 'vitest'
import type { Descriptor } from '../../../../src/core/descriptor.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { ToolLists } from '../../../../src/gateway/console/tool-lists.ts'
import { fakeClock } from '../../../support/fake-clock.ts'

const pass = fakeClock()

/** A server whose lists are answered by the test, and what it listed last. */
function server(last?: readonly string[]) {
  const asked: PromiseWithResolvers<readonly Descriptor[]>[] = []
  const lists = new ToolLists(() => ({
    upstreams: new Map([['files', server]]),
    services: {
      servers: {
        tools: () => {
          const next = Promise.withResolvers<readonly Descriptor[]>()
          asked.push(next)
          return next.promise
        },
      },
    },
    lastTools: async () => (last ? named(last) : Promise.reject(new Error('nothing is known'))),
  }))
  const opened = async (): Promise<string> => {
    const shown = await lists.of('files')
    if ('problem' in shown) return shown.problem
    return [shown.tools.map(({ name }) => name).join(), shown.note]
      .filter((each) => each !== undefined)
      .join(' | ')
  }
  return { asked, opened }
}

function named(names: readonly string[]): readonly Descriptor[] {
  return names.map((name) => ({ name }) as Descriptor)
}

it('a page waits shortly for the first list, and shows a list that is answered in time', async () => {
  const { asked, opened } = server()
  const page = opened()
  await pass(100)
  asked[0]?.resolve(named(['read']))
  expect(await page).toBe('read')
})

it('a server that does not answer is asked once, and pages say at once for how long it has been silent', async () => {
  const { asked, opened } = server()
  const first = opened()
  await pass(300)
  expect(await first).toBe('This server has not answered tools/list for 1 s.')
  await pass(6700)
  // No time passes here: the page does not wait.
  const later = opened()
  await pass(0)
  expect(await later).toBe('This server has not answered tools/list for 7 s.')
  expect(asked).toHaveLength(1)
  asked[0]?.reject(new GatewayError('OPERATION_TIMEOUT', 'It did not answer in time.'))
  await pass(0)
  const again = opened()
  await pass(3000)
  expect(await again).toBe('This server has not answered tools/list for 7 s.')
  asked[1]?.resolve(named(['read']))
  await pass(0)
  const answered = opened()
  asked[2]?.resolve(named(['read', 'write']))
  expect(await answered).toBe('read,write')
})

it('a silent server is shown with what it listed last', async () => {
  const { opened } = server(['read'])
  const page = opened()
  await pass(300)
  expect(await page).toBe(
    'read | This server has not answered tools/list for 1 s. These are the tools that it listed last.',
  )
})

it('a list that fails is shown as that, and asked for again', async () => {
  const { asked, opened } = server(['read'])
  const page = opened()
  asked[0]?.reject(new GatewayError('UNSUPPORTED_OPERATION', 'It has no tools.'))
  expect(await page).toBe('It has no tools.')
  void opened()
  expect(asked).toHaveLength(2)
})
