import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import { approvingGateway, decideOnPage, textIn } from '../../support/approving.ts'
import { CookieBrowser } from '../../support/auth/browser.ts'
import { auditLines } from '../../support/audit-lines.ts'
import { until } from '../../support/condition.ts'
import { runCommand, startGateway } from '../../support/gateway.ts'
import { httpSite, type SiteAnswer } from '../../support/http-site.ts'
import { folder } from '../../support/journey.ts'
import { startMailServer } from '../../support/mail-server.ts'
import { isObject, type Json, objectAt, parse } from '../../support/server/json.ts'

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`
const TOKEN = 'a-token-in-a-url-4711'

/** A receiver whose URL is a secret, and the bodies of what it got. */
async function receiver(
  answer: (count: number) => SiteAnswer | Promise<SiteAnswer> = () => ({ status: 204 }),
) {
  let count = 0
  const { origin, requests } = await httpSite(() => answer(++count))
  const bodies = (): readonly Json[] => requests.map(({ body }) => objectAt({ body: parse(body) }, 'body'))
  return { url: `${origin}/${TOKEN}`, requests, bodies }
}

function webhook(url: string): Json {
  return { webhook: { url, secret } }
}

/** The event that an approval is about. */
function dataOf(body: Json | undefined): Json {
  return objectAt(body, 'data')
}

describe('a call that waits for approval', () => {
  test('is told by each channel, with a link that asks who it is, and a receiver that never answers delays nothing', async () => {
    const hanging = await receiver(() => new Promise(() => undefined))
    const [hook, chat, push, mail] = [
      await receiver(),
      await receiver(),
      await receiver(),
      await startMailServer(),
    ]
    const approving = await approvingGateway({
      tool: 'wipe<!here>',
      config: {
        notify: {
          channels: {
            hangs: webhook(hanging.url),
            hook: webhook(hook.url),
            chat: { slack: { url: chat.url }, arguments: true },
            push: { ntfy: { url: push.url, token: 'tk_of_the_topic' }, title: 'Löschen? {tool}' },
            mail: {
              email: {
                host: '127.0.0.1',
                port: mail.port,
                tls: 'off',
                from: 'g@example.com',
                to: 'o@example.com',
              },
              text: '{message}\n{link}',
            },
          },
        },
      },
    })
    const asked = await approving.call({ disk: '@channel', password: 'hunter2' })
    expect(textIn(asked)).toContain('approve')
    await until(() => mail.mails.length === 1 && push.requests.length === 1, 'the mail and the push message')
    await until(() => hook.requests.length === 1 && chat.requests.length === 1, 'the other messages')

    // The webhook is signed, and says all but the arguments.
    const [signed] = hook.requests
    const headers = Object.fromEntries(
      Object.entries(signed?.headers ?? {}).map(([name, value]) => [name, String(value)]),
    )
    expect(new Webhook(secret).verify(signed?.body ?? '', headers)).toMatchObject({
      type: 'approval.pending',
    })
    const { approval, link, ...facts } = dataOf(hook.bodies()[0])
    expect(link).toBe(`${approving.gateway.origin}/confirm/${String(approval)}`)
    expect(facts).toMatchObject({
      server: 'disks',
      tool: 'wipe<!here>',
      risk: 'destructive',
      caller: 'anonymous',
    })
    expect(signed?.body).not.toContain('@channel')

    // In a chat nothing is a mention, and arguments are there without secrets.
    expect(chat.bodies()[0]).toMatchObject({
      text: expect.stringContaining('wipe&lt;!here&gt; on disks'),
      blocks: [{ text: { text: expect.stringContaining('"disk": "@ channel"'), verbatim: true } }],
    })
    expect(chat.requests[0]?.body).toContain(`<${String(link)}>`)
    const all = [hook, chat, push].flatMap(({ requests }) => requests.map(({ body }) => body))
    expect([...all, ...mail.mails.map(({ raw }) => raw)].join()).not.toContain('hunter2')

    expect(push.requests[0]?.headers).toMatchObject({
      title: expect.stringMatching(/^=\?UTF-8\?B\?/),
      click: link,
      priority: '3',
      authorization: 'Bearer tk_of_the_topic',
    })
    expect(mail.mails[0]).toMatchObject({ to: ['o@example.com'], body: expect.stringContaining('Run wipe') })

    // Whoever has the link alone sees a form for the code, and cannot decide.
    const page = await new CookieBrowser().open(String(link))
    expect(page.text).toContain('name="code"')
    expect(page.text).not.toMatch(/value="approved"|hunter2|@channel/)
    const refused = await fetch(String(link), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"verdict":"approved"}',
    })
    expect(refused.status).toBeGreaterThanOrEqual(400)
    expect(approving.ran).toEqual([])
    await decideOnPage(approving, String(link), { verdict: 'approved' })
    await approving.call({ disk: '@channel', password: 'hunter2' })
    expect(approving.ran).toHaveLength(1)

    // No secret is in the log or in the metrics.
    const metrics = await (await fetch(`${approving.gateway.origin}/metrics`)).text()
    expect(metrics).toContain('gatehouse_notifications_total{channel="chat",outcome="sent"} 1')
    expect(metrics + approving.gateway.stderr()).not.toMatch(new RegExp(`${TOKEN}|tk_of_the_topic|${secret}`))
  })

  test('is told by the next gateway if the first one could not, once', async () => {
    const hook = await receiver((count) => ({ status: count === 1 ? 503 : 204 }))
    const approving = await approvingGateway({
      config: { store: folder(), notify: { channels: { hook: webhook(hook.url) } } },
    })
    await approving.call({ disk: 'a' })
    await approving.gateway.logged(({ event, msg }) => (event ?? msg) === 'notify.failed')
    const config = parse(readFileSync(approving.gateway.configFile, 'utf8'))
    await approving.gateway.close()
    const next = await startGateway(isObject(config) ? config : {})
    onTestFinished(() => next.close())
    await next.logged(({ event, msg }) => (event ?? msg) === 'notify.sent')
    const ids = hook.requests.map(({ headers }) => headers['webhook-id'])
    expect(ids).toHaveLength(2)
    expect(new Set(ids).size).toBe(1)
  })

  test('is told once by two gateways with one store', async () => {
    const hook = await receiver()
    const approving = await approvingGateway({
      config: { store: folder(), notify: { channels: { hook: webhook(hook.url) } } },
    })
    const config = parse(readFileSync(approving.gateway.configFile, 'utf8'))
    const other = await startGateway(isObject(config) ? config : {})
    onTestFinished(() => other.close())
    await approving.call({ disk: 'a' })
    await until(() => hook.requests.length > 0, 'the message')
    // Whatever the gateways did about the first call, they did before they told of a later one.
    await approving.call({ disk: 'b' })
    await until(() => hook.requests.length > 1, 'the next message')
    const approvals = hook.bodies().map((body) => dataOf(body)['approval'])
    expect(approvals).toHaveLength(2)
    expect(new Set(approvals).size).toBe(2)
  })
})

describe('gatehouse approvals test', () => {
  async function configured() {
    const [hook, broken] = [await receiver(), await receiver(() => ({ status: 403 }))]
    const directory = folder()
    writeFileSync(
      join(directory, 'gateway.config.yaml'),
      JSON.stringify({
        listen: { public_url: 'https://gate.example.com' },
        upstreams: { It: { token: '${UNSET}' } },
        observe: { audit: 'audit.jsonl' },
        notify: {
          channels: {
            hook: { webhook: { url: '${HOOK}', secret }, title: '{tool}' },
            chat: { slack: { url: broken.url } },
            away: { ntfy: { url: `http://127.0.0.1:9/${TOKEN}` } },
          },
        },
      }),
    )
    return {
      hook,
      audit: join(directory, 'audit.jsonl'),
      options: { cwd: directory, env: { HOOK: hook.url } },
    }
  }

  test('sends a message to each channel, and prints what came of it, without secrets', async () => {
    const { hook, audit, options } = await configured()
    const { code, stdout, stderr } = await runCommand(['approvals', 'test'], options)
    expect([code, stdout]).toEqual([
      1,
      `hook  webhook  accepted
chat  slack    failed: the answer was HTTP 403
away  ntfy     failed: no connection is possible, or it ended
`,
    ])
    expect(hook.bodies()).toMatchObject([
      { type: 'test', data: { text: expect.stringContaining('https://gate.example.com/confirm') } },
    ])
    const orders = auditLines(audit).filter((line) => line['order'] === 'test')
    expect(orders.map((line) => [line['channel'], line['via'], line['code']])).toEqual([
      ['hook', 'command_line', undefined],
      ['chat', 'command_line', 'http_403'],
      ['away', 'command_line', 'connection'],
    ])
    expect(stdout + stderr + JSON.stringify(orders)).not.toContain(TOKEN)
  })

  test('tries one channel, and prints JSON', async () => {
    const { options } = await configured()
    const { code, stdout } = await runCommand(['approvals', 'test', 'hook', '--json'], options)
    expect([code, parse(stdout)]).toEqual([
      0,
      { channels: [{ channel: 'hook', kind: 'webhook', accepted: true }] },
    ])
  })

  test('says which channels there are', async () => {
    const { options } = await configured()
    const { code, stderr } = await runCommand(['approvals', 'test', 'hok'], options)
    expect(code).toBe(2)
    expect(stderr).toContain('no channel is named "hok"; did you mean hook?; there are hook, chat, away')
  })
})
