/** A client somebody else made, connected to the gateway. Lists give names or URIs. */
export interface PeerClient {
  /** What the server says it is. */
  readonly server: string | undefined
  /** The methods of the questions it was asked, oldest first. */
  readonly asked: readonly string[]
  /** The notifications it heard outside of answers, oldest first. */
  readonly heard: readonly Heard[]
  tools(): Promise<string[]>
  prompts(): Promise<string[]>
  resources(): Promise<string[]>
  templates(): Promise<string[]>
  call(name: string, args?: Record<string, unknown>, onProgress?: (done: number) => void): Promise<Called>
  /** The URIs of the resources a tool's answer refers to. */
  links(name: string, args?: Record<string, unknown>): Promise<string[]>
  prompt(name: string, args?: Record<string, string>): Promise<string>
  /** The text of a resource, or its bytes in base64. */
  read(uri: string): Promise<string>
  complete(reference: Reference, argument: Argument, context?: Record<string, string>): Promise<string[]>
  /** Listens for updates of a resource. */
  subscribe(uri: string): Promise<void>
  /** Asks for log messages from a level up. */
  log(level: 'debug' | 'error'): Promise<void>
  /** Has other roots from here on, and says so. */
  move(root: string): Promise<void>
  close(): Promise<void>
}

/** A notification as a client heard it. */
export interface Heard {
  readonly method: string
  readonly params?: Record<string, unknown> | undefined
}

/** What a tool answered. */
interface Called {
  readonly text: string
  readonly isError: boolean
  readonly structured: unknown
}

/** What a completion is for. */
type Reference =
  | { readonly type: 'ref/prompt'; readonly name: string }
  | { readonly type: 'ref/resource'; readonly uri: string }

/** The argument to complete. */
interface Argument {
  readonly name: string
  readonly value: string
}

/** How a client reaches the gateway. */
export type Way =
  | {
      readonly transport: 'http' | 'sse'
      readonly url: string
      /** Whether it waits for a server that is away for long; by default clients reconnect twice, for 2.5 s in all. */
      readonly isPatient?: true
    }
  | { readonly transport: 'stdio'; readonly command: readonly string[] }

/** How a patient client over HTTP reconnects. */
const patience = {
  initialReconnectionDelay: 1000,
  maxReconnectionDelay: 2000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 20,
}

/** The options of a client's transport over HTTP. */
export function httpOptions({ isPatient }: { readonly isPatient?: true }) {
  return { ...(isPatient && { reconnectionOptions: patience }) }
}

/** What every client says to what it is asked. */
export const answers = {
  form: { action: 'accept' as const, content: { name: 'Ada', check: true, confirm: true } },
  url: { action: 'accept' as const },
  sampled: {
    role: 'assistant' as const,
    model: 'test-model',
    content: { type: 'text' as const, text: 'forty-two' },
  },
}

/** Where every client is at work at first. */
export const firstRoot = 'file:///srv/project'

/** The text blocks of a list of content blocks. */
export function textOf(content: readonly unknown[]): string {
  return content.flatMap((block) => (isText(block) ? [block.text] : [])).join('\n')
}

/** The text of the contents of a resource, or their bytes in base64. */
export function contentsOf(contents: readonly ({ text: string } | { blob: string })[]): string {
  return contents.map((each) => ('text' in each ? each.text : each.blob)).join('\n')
}

/** The URIs of the resource links in a list of content blocks. */
export function linksOf(content: readonly unknown[]): string[] {
  return content.flatMap((block) => (isLink(block) ? [block.uri] : []))
}

function isLink(block: unknown): block is { uri: string } {
  return typeof block === 'object' && block !== null && 'uri' in block && typeof block.uri === 'string'
}

function isText(block: unknown): block is { text: string } {
  return typeof block === 'object' && block !== null && 'text' in block && typeof block.text === 'string'
}
