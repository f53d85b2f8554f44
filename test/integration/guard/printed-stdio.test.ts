import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { splitCommand } from '../../../src/core/text/command-line.ts'
import { approvingGateway, bearer, pageOf, peopleNamed, textIn } from '../../support/approving.ts'
import { until } from '../../support/condition.ts'
import { inRepository } from '../../support/document.ts'
import { type Command, runCommand, type RunningGateway, startCommand } from '../../support/gateway.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'

/** What a client does with a command: a handshake, and calls of the tool `wipe`. */
async function connected(words: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const gateway: Command = startCommand(words, { env })
  onTestFinished(() => gateway.close())
  const answerTo = (id: number) =>
    until(
      () =>
        gateway
          .stdout()
          .split('\n')
          .find((line) => line.includes(`"id":${id}`) && line.endsWith('}')),
      `the answer to ${id}: ${gateway.stderr()}`,
    )
  const send = (message: Json) => gateway.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'test', version: '1' }
  send({
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
  })
  await answerTo(1)
  send({ method: 'notifications/initialized' })
  let id = 1
  const wipe = async (): Promise<Json> => {
    id += 1
    send({ id, method: 'tools/call', params: { name: 'wipe', arguments: { disk: 'a' } } })
    const reply = parse(await answerTo(id))
    const result = isObject(reply) ? reply['result'] : undefined
    return isObject(result) ? result : { reply }
  }
  return { wipe }
}

/** The words that a gateway prints for clients that use stdio. */
function printed(gateway: RunningGateway): readonly string[] {
  const line = /For clients that use stdio: gatehouse (.+)/.exec(gateway.stdout())?.[1] ?? ''
  const split = splitCommand(line)
  return 'words' in split ? split.words : []
}

/** The words for Claude Desktop in the file that is shipped, for this gateway. */
function shipped(gateway: RunningGateway): readonly string[] {
  const { mcpServers } = JSON.parse(readFileSync(inRepository('deploy/clients/claude-desktop.json'), 'utf8'))
  const { args }: { readonly args: readonly string[] } = mcpServers['gatehouse-by-url']
  return args.map((word) => (word.startsWith('http') ? gateway.url : word))
}

test.each([
  ['printed', printed],
  ['shipped', shipped],
])('with the %s command only the gateway at the URL asks, and its link is intact', async (_what, wordsOf) => {
  const { gateway, ran } = await approvingGateway()
  const { wipe } = await connected(wordsOf(gateway))
  const asked = await wipe()
  const page = pageOf(asked)
  expect(new URL(page).origin).toBe(gateway.origin)
  expect(textIn(asked)).toContain(`Approve or deny it at ${page}`)
  const id = page.split('/').at(-1) ?? ''
  const words = ['approvals', 'approve', id, '--config', gateway.configFile]
  expect((await runCommand(words)).code).toBe(0)
  expect(textIn(await wipe())).toBe('wiped')
  expect(ran).toHaveLength(1)
})

test('with auth, the printed command passes a token that is not among its words', async () => {
  const { gateway } = await approvingGateway({ config: { auth: peopleNamed() } })
  const words = printed(gateway)
  expect(words.join(' ')).toContain('--token-env GATEHOUSE_TOKEN')
  const { wipe } = await connected(words, { GATEHOUSE_TOKEN: bearer.agent })
  expect(textIn(await wipe())).toMatch(/This call was not run/)
})

test('a token is in a file or a variable, and only for a URL', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'token')
  writeFileSync(file, `${bearer.agent}\n`)
  const { gateway } = await approvingGateway({ config: { auth: peopleNamed() } })
  const { wipe } = await connected(['stdio', gateway.url, '--gateway-key', 'auto', '--token-file', file])
  expect(textIn(await wipe())).toMatch(/This call was not run/)
  writeFileSync(file, 'two words')
  const url = 'http://127.0.0.1:1/mcp'
  for (const [words, problem] of [
    [
      [url, '--token-env', 'GATEHOUSE_NONE'],
      '--token-env GATEHOUSE_NONE: this environment variable is not set',
    ],
    [[url, '--token-file', join(folder, 'none')], /--token-file \S+ cannot be read: /],
    [[url, '--token-file', file], /must contain one token, without spaces/],
    [[url, '--token-file', file, '--token-env', 'HOME'], /give either --token-file or --token-env/],
    [['--token-env', 'PATHS', '--', 'true'], /--token-env are for a URL/],
    [['http://other.example/mcp', '--gateway-key', 'auto'], /`auto` requires https:/],
  ] as const) {
    const { code, stderr } = await runCommand(['stdio', ...words], { env: { PATHS: 'x' } })
    expect(code).not.toBe(0)
    if (typeof problem === 'string') expect(stderr).toContain(problem)
    else expect(stderr).toMatch(problem)
    expect(stderr).not.toContain('two words')
  }
})
