/** One event of an event stream; a field is absent when the event has no such line. */
export interface SseEvent {
  readonly id?: string
  readonly event?: string
  readonly data?: string
  readonly retry?: string
}

/** Reads events out of the text of an event stream, in whatever pieces it comes. */
export class SseParser {
  /** How many comment lines were seen. */
  comments = 0
  #line = ''
  #skipsLineFeed = false
  #fields: { id?: string; event?: string; data?: string; retry?: string } = {}

  push(text: string): SseEvent[] {
    if (text === '') return []
    const fresh = this.#skipsLineFeed && text.startsWith('\n') ? text.slice(1) : text
    this.#skipsLineFeed = text.endsWith('\r')
    const [first = '', ...more] = fresh.split(/\r\n|\n|\r/)
    const lines = [this.#line + first, ...more]
    this.#line = lines.pop() ?? ''
    return lines.flatMap((line) => this.#take(line) ?? [])
  }

  #take(line: string): SseEvent | undefined {
    if (line === '') return this.#dispatch()
    if (line.startsWith(':')) {
      this.comments++
      return undefined
    }
    const colon = line.indexOf(':')
    const name = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'data')
      this.#fields.data = this.#fields.data === undefined ? value : `${this.#fields.data}\n${value}`
    if (name === 'id' || name === 'event' || name === 'retry') this.#fields[name] = value
    return undefined
  }

  #dispatch(): SseEvent | undefined {
    const event = this.#fields
    this.#fields = {}
    return Object.keys(event).length > 0 ? event : undefined
  }
}
