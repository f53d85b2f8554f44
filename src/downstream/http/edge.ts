/**
 * What the listener knows of the running configuration. A reload puts another edge in its place, so a request reads
 * it once and keeps it to its end.
 */
import type { AuthSettings } from '../../core/auth-settings.ts'
import type { Call } from '../../core/call.ts'
import type { PageSignIn } from '../../core/events.ts'
import type { Log } from '../../core/log.ts'
import type { ListenSettings } from '../../core/settings.ts'
import type { HeaderMirror } from '../../protocol/headers.ts'
import { type AuthGate, createAuthGate } from '../auth/auth-gate.ts'
import { type Access, createAccess } from './origin.ts'
import type { StatusMapping } from './statuses.ts'

/** A path documents are read at; `*` stands for the name of a server. */
export interface DocumentPath {
  readonly path: string
  /** Whether it can be read without authentication. */
  isOpen?(): boolean
}

/** One version of the configuration, as the gateway offers it to the listener. It never changes. */
export interface HttpRuntime {
  readonly listen: ListenSettings
  readonly auth: AuthSettings
  has(upstream: string): boolean
  /** Which arguments of the tool a call names are repeated in headers. */
  mirror(call: Call): HeaderMirror | Promise<HeaderMirror>
  /** Whether the caller of a tool is permitted to make the call. */
  isPermitted?(call: Call): Promise<boolean>
  /** The HTTP status of each error of a call, for clients with sessions; nothing where all have 200. */
  readonly statusMapping?: StatusMapping | undefined
  /** Where the gateway's own documents are read. */
  readonly documents: readonly DocumentPath[]
}

/** A runtime, with what the listener makes of it once. */
export interface Edge {
  readonly runtime: HttpRuntime
  readonly access: Access
  readonly authGate: AuthGate
  /** The path clients know the gateway by, without a slash at its end. */
  readonly prefix: string
}

interface Options {
  /** The runtime now. */
  runtime(): HttpRuntime
  /** The port that is listened on. */
  port(): number
  readonly pageSignIn: Pick<PageSignIn, 'identity'>
  readonly log: Log
}

/** Gives the edge of the runtime there is now, made once for each runtime. */
export function createEdges({ runtime, port, pageSignIn, log }: Options): () => Edge {
  let edge: Edge | undefined
  return () => {
    const current = runtime()
    if (edge?.runtime === current) return edge
    const { listen, auth } = current
    edge = {
      runtime: current,
      access: createAccess(listen),
      authGate: createAuthGate({ auth, listen, port: port(), pageSignIn, log }),
      prefix: new URL(listen.publicUrl ?? 'http://localhost/').pathname.replace(/\/$/, ''),
    }
    return edge
  }
}
