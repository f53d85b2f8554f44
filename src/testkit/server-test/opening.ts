/**
 * How the gateway opens the connections of a server, so that a test can open its own in the same way: with the same
 * command or credentials, transport and revision, but with nothing of the gateway between.
 */
import type {
  OpenTransport,
  TransportInterceptor,
  UpstreamTransport,
} from '../../upstream/transport/transport.ts'

/** Keeps the last opening that the gateway used. Pass `intercept` to the gateway, and have it connect once. */
export class OpeningCapture {
  #open: OpenTransport | undefined
  #era: 'legacy' | 'modern' = 'legacy'
  #transports: UpstreamTransport[] = []

  readonly intercept: TransportInterceptor = (open, { era }) => {
    this.#open = open
    this.#era = era
    return async (receiver) => {
      const transport = await open(receiver)
      this.#transports.push(transport)
      return transport
    }
  }

  /** Ends the connections of the gateway, and returns how to open others. @throws Error if it has not connected */
  async take(): Promise<{ readonly open: OpenTransport; readonly era: 'legacy' | 'modern' }> {
    if (!this.#open) throw new Error('the gateway has not connected to the server')
    // Servers that use a file or a profile alone cannot run twice.
    await Promise.allSettled(this.#transports.map((each) => each.close()))
    this.#transports = []
    return { open: this.#open, era: this.#era }
  }
}
