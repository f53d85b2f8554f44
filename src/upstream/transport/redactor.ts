/** Removes secrets from what a server sends. */
import { GatewayError } from '../../core/error.ts'
import type { Spool, SpooledMessage, SpooledString } from '../../core/spool.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import type { Login, LoginHeaders } from './auth-retry.ts'
import type { OpenTransport } from './transport.ts'

/** Removes secrets from a server's texts: known ones, and anything that looks like one. */
export interface MessageRedactor {
  text(text: string): string
  /** A failure without known secrets. */
  error(thrown: unknown): unknown
  /** Opens connections whose messages arrive without known secrets. */
  receiving(connect: OpenTransport): OpenTransport
  /** The same login, whose tokens are known secrets from now on. */
  learning(login: Login): Login
}

/** The redactor of the messages of servers. */
export function createMessageRedactor(redactor: Redactor): MessageRedactor {
  const text = (given: string): string => withoutSecrets(redactor.text(given))
  return {
    text,
    error: (thrown) => (thrown instanceof GatewayError ? withoutKnown(thrown, redactor) : thrown),
    receiving: (connect) => receiving(connect, redactor),
    learning: (login) => learning(login, redactor),
  }
}

/** What a server sent as its error has been redacted when it arrived. */
function withoutKnown(error: GatewayError, redactor: Redactor): GatewayError {
  const { suggestion, data, details, forOperator } = error.extra
  const said = JSON.stringify([error.message, suggestion, data, details, forOperator])
  if (!redactor.finds(said)) return error
  return new GatewayError(error.code, redactor.text(error.message), {
    ...error.extra,
    ...(suggestion !== undefined && { suggestion: redactor.text(suggestion) }),
    ...(forOperator !== undefined && { forOperator: redactor.text(forOperator) }),
    ...(data && { data: redactor.fields(data) }),
    ...(details && { details: redactor.fields(details) }),
  })
}

function receiving(connect: OpenTransport, redactor: Redactor): OpenTransport {
  return (receiver) => {
    const spools = new WeakMap<Spool, RedactingSpool>()
    /** The placeholders of strings that had secrets. */
    const redacted = new Set<string>()
    return connect({
      ...receiver,
      receive: (text, about) => {
        const clean = redactor.json(text)
        const placeholders = [...redacted].filter((each) => text.includes(each))
        for (const placeholder of placeholders) redacted.delete(placeholder)
        receiver.receive(clean, about, clean !== text || placeholders.length > 0)
      },
      spool: (about) => {
        const spool = receiver.spool(about)
        if (!spool) return undefined
        const known = spools.get(spool) ?? new RedactingSpool(spool, redactor, redacted)
        spools.set(spool, known)
        return known
      },
    })
  }
}

/** Takes secrets out of strings on their way to a spool. */
class RedactingSpool implements Spool {
  readonly over: number
  readonly #spool: Spool
  readonly #redactor: Redactor
  readonly #redacted: Set<string>

  constructor(spool: Spool, redactor: Redactor, redacted: Set<string>) {
    this.over = spool.over
    this.#spool = spool
    this.#redactor = redactor
    this.#redacted = redacted
  }

  open(): SpooledMessage {
    const message = this.#spool.open()
    const begun: string[] = []
    return {
      begin: () => {
        const string = message.begin()
        if (string) begun.push(string.placeholder)
        return string && this.#redacting(string)
      },
      end: () => message.end(),
      abort: () => {
        for (const placeholder of begun) this.#redacted.delete(placeholder)
        message.abort()
      },
    }
  }

  isIn(text: string): boolean {
    return this.#spool.isIn(text)
  }

  restored(text: string): Promise<string> {
    return this.#spool.restored(text)
  }

  discard(text: string): void {
    this.#spool.discard(text)
  }

  #redacting(string: SpooledString): SpooledString {
    const stream = this.#redactor.stream()
    const pass = (bytes: Uint8Array): boolean => (bytes.byteLength > 0 ? string.write(bytes) : true)
    return {
      placeholder: string.placeholder,
      get onDrain() {
        return string.onDrain
      },
      set onDrain(listener) {
        string.onDrain = listener
      },
      write: (bytes) => pass(stream.write(bytes)),
      end: () => {
        pass(stream.end())
        if (stream.hasFound) this.#redacted.add(string.placeholder)
        string.end()
      },
    }
  }
}

function learning(login: Login, redactor: Redactor): Login {
  const learnt = (headers: LoginHeaders): LoginHeaders => {
    // Any other header is of one request.
    redactor.learnToken(headers.authorization ?? '')
    return headers
  }
  return {
    headers: (target) => {
      const headers = login.headers(target)
      return headers instanceof Promise ? headers.then(learnt) : learnt(headers)
    },
    refused: (refusal, sent) => login.refused(refusal, sent),
    answered: (answer) => login.answered?.(answer),
  }
}
