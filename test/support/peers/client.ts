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
  prompt(name: string, args?: Record<string, string>): Promise<string>
  read(uri: string): Promise<string>
  complete(reference: Reference, argument: Argument, context?: Record<string, string>): Promise<string[]>
  /** Listens for updates of a resource. */
  subscribe(uri: string): Promise<void>
  /** Asks for log messages from a level up. */
  log(level: 'debug' | 'error'): Promise<void>
  close(): Promise<void>
}

/** A notification as a client heard it. */
export interface Heard {
  readonly method: string
  readonly params?: Record<string, unknown> | undefined
}

/** What a tool answered. */
export interface Called {
  readonly text: string
  readonly isError: boolean
  readonly structured: unknown
}

/** What a completion is for. */
export type Reference =
  | { readonly type: 'ref/prompt'; readonly name: string }
  | { readonly type: 'ref/resource'; readonly uri: string }

/** The argument to complete. */
export interface Argument {
  readonly name: string
  readonly value: string
}

/** How a client reaches the gateway. */
export type Way =
  | { readonly transport: 'http' | 'sse'; readonly url: string }
  | { readonly transport: 'stdio'; readonly command: readonly string[] }

/** What every client says to what it is asked. */
export const answers = {
  form: { action: 'accept' as const, content: { name: 'Ada', check: true } },
  url: { action: 'accept' as const },
  sampled: {
    role: 'assistant' as const,
    model: 'test-model',
    content: { type: 'text' as const, text: 'forty-two' },
  },
  roots: { roots: [{ uri: 'file:///srv/project', name: 'project' }] },
}

/** The text blocks of a list of content blocks. */
export function textOf(content: readonly unknown[]): string {
  return content.flatMap((block) => (isText(block) ? [block.text] : [])).join('\n')
}

function isText(block: unknown): block is { text: string } {
  return typeof block === 'object' && block !== null && 'text' in block && typeof block.text === 'string'
}
