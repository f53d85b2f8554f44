// Lists whose connection to the server breaks.
import { expect, onTestFinished, test } from 'vitest'
import { localGateway } from '../../support/local-gateway.ts'
import { sessionServer } from '../../support/session-server.ts'
import { StatelessClient } from '../../support/stateless-client.ts'

test('a list whose connection breaks is unavailable: there is no outcome to check', async () => {
  const { url } = await sessionServer({
    post: ({ method }, response) => method === 'tools/list' && !!response.destroy(),
  })
  const gateway = await localGateway({ store: 'memory', upstreams: { one: { url, revision: '2025-11-25' } } })
  onTestFinished(() => gateway.close())
  const { error } = await new StatelessClient({ url: `${gateway.url}/one` }).send('tools/list', {})
  expect(error?.data).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
})
