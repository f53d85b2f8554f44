import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { onTestFinished, test } from 'vitest'
import { until } from '../../support/condition.ts'
import { startGateway } from '../../support/gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'

test('a changed .env file reloads the configuration, and one that is created later', async () => {
  const definition = { name: 'look', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }
  const server = await scriptedServer(
    { tools: {} },
    { 'tools/list': () => ({ tools: [definition] }), 'tools/call': () => ({ content: [] }) },
  )
  onTestFinished(() => server.close())
  const gateway = await startGateway({
    upstreams: {
      one: {
        url: server.url,
        transport: 'streamable',
        about: 'A server in ${GATEHOUSE_TEST_PLACE:-nowhere}.',
      },
    },
  })
  onTestFinished(() => gateway.close())
  const file = join(dirname(gateway.configFile), '.env')

  for (const text of ['here', 'there']) {
    writeFileSync(file, `GATEHOUSE_TEST_PLACE=${text}\n`)
    await gateway.logged(({ event, file: changed }) => event === 'config.reloaded' && changed === file)
    await until(
      async () =>
        (await fetch(`${gateway.origin}/llms-full.txt`))
          .text()
          .then((all) => all.includes(`A server in ${text}.`)),
      `the place ${text}`,
    )
  }
})
