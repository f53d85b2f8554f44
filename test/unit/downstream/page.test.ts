import { expect, it, onTestFinished } from 'vitest'
import type { Json } from '../../support/server/json.ts'
import { caller, corporate, localGateway } from '../../support/local-gateway.ts'

const broken = { command: '/nowhere/server-of-secrets' }

async function page(config: Json): Promise<string> {
  const gateway = await localGateway({ upstreams: { broken }, ...config })
  onTestFinished(() => gateway.close())
  const answer = await fetch(`${gateway.origin}/`, { headers: caller })
  return answer.text()
}

it('the page for people says why a server does not work', async () => {
  expect(await page({})).toMatch(/unavailable: .*server-of-secrets/)
})

it('C211 the page does not say so to everybody where callers are told apart', async () => {
  const text = await page({ auth: corporate.auth })
  expect(text).toContain('<td>unavailable</td>')
  expect(text).not.toContain('server-of-secrets')
})
