import { scryptSync } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { tokenHash } from './auth/token-hash.ts'
import { CookieBrowser, type Shown } from './auth/browser.ts'
import { post } from './client/raw.ts'
import { until } from './condition.ts'
import { type Finished, type RunningGateway, startCommand, startGateway } from './gateway.ts'
import { openSession, toolCall } from './raw-session.ts'
import { scriptedServer } from './scripted-server.ts'
import { isObject, type Json, objectAt, parse } from './server/json.ts'

const salt = 'salt-of-a-test'

/** The bearer tokens of the callers `agent` and `other`, and the password of everybody. */
export const bearer = {
  agent: 'the-token-of-the-agent-of-32-chars-and-more',
  other: 'the-token-of-another-one-of-32-chars-and-more',
}
export const password = 'a password'

/** Settings with which callers have tokens, and these people passwords. */
export function peopleNamed(...names: readonly string[]): Json {
  const tokens = Object.entries(bearer).map(([id, token]) => ({ id, hash: tokenHash(token) }))
  const hash = `scrypt:${salt}:${scryptSync(password, salt, 32).toString('hex')}`
  const users = names.map((name) => ({ name, password_hash: hash, approves_as: name }))
  return { opaque: { tokens }, ...(names.length > 0 && { basic: { users } }) }
}

/** A gateway in front of a tool that destroys, for callers whose clients cannot ask anybody. */
export interface Approving {
  readonly gateway: RunningGateway
  /** What the terminal says people type on the page. */
  readonly code: string
  /** The arguments the server got, call by call. */
  readonly ran: readonly Json[]
  /** Calls the tool; its result, or the error. */
  call(args: Json, token?: string): Promise<Json>
}

interface ApprovingOptions {
  readonly config?: Json
  /** The tool as its server lists it. */
  readonly tool?: string
  readonly description?: string
  readonly inputSchema?: Json
  /** What the configuration says of the tool, and of its server. */
  readonly rules?: Json
  readonly server?: Json
  /** Further arguments of `gatehouse serve`. */
  readonly args?: readonly string[]
}

/** Starts the gateway and the server, until the test is over. */
export async function approvingGateway(options: ApprovingOptions = {}): Promise<Approving> {
  const { config = {}, tool = 'wipe', description = 'Wipes a disk.', rules = {}, args = [] } = options
  const { inputSchema = { type: 'object' } } = options
  const ran: Json[] = []
  const definition = {
    name: tool,
    description,
    inputSchema,
    annotations: { destructiveHint: true },
  }
  const server = await scriptedServer(
    { tools: {} },
    {
      'tools/list': () => ({ tools: [definition] }),
      'tools/call': ({ params }) => {
        ran.push(objectAt(params, 'arguments'))
        return { content: [{ type: 'text', text: 'wiped' }] }
      },
    },
  )
  onTestFinished(() => server.close())
  const upstreams = {
    disks: {
      url: server.url,
      transport: 'streamable',
      revision: '2025-11-25',
      tools: { [tool]: rules },
      ...options.server,
    },
  }
  const features = withScripts(config['features'])
  const gateway = await startGateway({ ...config, features, upstreams }, { args })
  onTestFinished(() => gateway.close())
  return {
    gateway,
    code: /enter the code (\S+)/.exec(gateway.stdout())?.[1] ?? '',
    ran,
    call: async (args, token) => {
      const auth = token === undefined ? {} : { authorization: `Bearer ${token}` }
      const { headers } = await openSession(gateway.url, '2025-11-25', {}, auth)
      const message = JSON.stringify(toolCall(1, tool, args))
      const { text, events } = await post(gateway.url, message, { ...headers, ...auth })
      const reply = parse(events.at(-1)?.data ?? text)
      return isObject(reply) && isObject(reply['result']) ? reply['result'] : { error: reply }
    },
  }
}

/** Settings of features with which tests approve at the command line, and calls do not wait for it. */
function withScripts(features: unknown): Json {
  const { confirm, ...others } = isObject(features) ? features : {}
  if (confirm === false) return { ...others, confirm }
  return {
    ...others,
    confirm: { approve_by_command: 'script', wait: 'off', ...(isObject(confirm) && confirm) },
  }
}

/** The page the answer to a call names. */
export function pageOf(result: Json): string {
  const { url } = objectAt(result['_meta'], 'dev.gatehouse/confirmation')
  if (typeof url !== 'string') throw new Error(`no page is named in ${JSON.stringify(result)}`)
  return url
}

/** The page of the approval that was requested last, once there is one. */
export async function requestedPage({ gateway }: Pick<Approving, 'gateway'>): Promise<string> {
  const { approval } = await gateway.logged(({ event, msg }) => (event ?? msg) === 'confirm.requested')
  return `${gateway.origin}/confirm/${String(approval)}`
}

/** Submits the form of an approval as the person at the terminal; the page that follows. */
export async function decideOnPage(
  { code }: Pick<Approving, 'code'>,
  url: string,
  fields: Readonly<Record<string, string>>,
): Promise<Shown> {
  const browser = new CookieBrowser()
  const page = await browser.submit(url, { code })
  const token = /name="token" value="([^"]+)"/.exec(page.text)?.[1] ?? ''
  return browser.submit(url, { token, ...fields })
}

/** The text of a result. */
export function textIn(result: Json): string {
  const { content } = result
  return Array.isArray(content)
    ? content.map((each) => String(objectAt({ each }, 'each')['text'])).join('\n')
    : ''
}

/** Runs a command that approves a call in a terminal in which a person types these lines. */
export async function approveInTerminal(
  words: readonly string[],
  {
    typed,
    ...options
  }: { readonly typed: readonly string[]; readonly cwd?: string; readonly env?: NodeJS.ProcessEnv },
): Promise<Finished> {
  const command = startCommand(words, { ...options, isTerminal: true })
  for (const [index, line] of typed.entries()) {
    const prompts = () => command.stderr().match(/(?:type .+|when it started): /g)?.length ?? 0
    await Promise.race([until(() => prompts() > index, 'the prompt'), command.ended])
    command.stdin.write(`${line}\n`)
  }
  const result = await command.ended
  await command.close()
  return result
}
