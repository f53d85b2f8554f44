/** A gateway that is compared with others: where it comes from, and how it is installed, configured and started. */
export interface Gateway {
  /** For `--only` and the results. */
  readonly name: string
  /** What tables and plots call it. */
  readonly title: string
  /** The package with its exact version, or what it is otherwise. */
  readonly source: string
  /** How it reaches the server. Those over stdio start it themselves. */
  readonly transport: 'http' | 'stdio'
  /** How it is configured here, as a sentence for a reader who would do the same. */
  readonly configuration: string
  /** Why it cannot be measured, if it cannot anywhere. */
  readonly notMeasured?: string
  /** Calls have an idempotency key each. */
  readonly isKeyed?: true
  /** The tool whose calls are timed, `write` without. */
  readonly tool?: 'get_text'
  /** What is measured of it; all without. */
  readonly parts?: readonly Part[]
  /** Installs it unless it is in the cache. @throws Error that says why it cannot be measured on this machine */
  install?(): Promise<void>
  /** What to run. The same folder and port again continue what was there. */
  command(setup: Setup): Command
  /** What a new installation needs once it runs, such as the registration of the server. */
  prepare?(setup: Setup, hasExited: () => boolean): Promise<void>
}

/** What is measured: the cost of calls, what kills lead to, and which dangerous calls go through. */
export type Part = 'speed' | 'kills' | 'dangerous'

/** Where a gateway keeps its files and listens, and the server behind it. */
export interface Setup {
  readonly folder: string
  readonly port: number
  readonly upstream: Server
}

/** A server: at an address, or to be started by a command. */
export type Server = { readonly url: string } | { readonly command: readonly string[] }

/** How a gateway is started, and where it then serves MCP. */
export interface Command {
  readonly words: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly path: string
  readonly token?: string
  /** It takes a port of its own and prints it as its first line. */
  readonly printsPort?: true
}

/** The address of a server over HTTP. */
export function urlOf(upstream: Server): string {
  if ('url' in upstream) return upstream.url
  throw new TypeError('this gateway reaches servers over HTTP alone')
}

/** The command of a server over stdio. */
export function commandOf(upstream: Server): readonly string[] {
  if ('command' in upstream) return upstream.command
  throw new TypeError('this gateway reaches servers over stdio alone')
}
