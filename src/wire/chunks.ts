/** How many pieces are kept apart before they are joined. */
const MAX_PIECES = 1024

/** Collects bytes that come in pieces. However small the pieces are, little more is held than the bytes. */
export class Chunks {
  #pieces: Buffer[] = []
  #unjoined = 0
  #size = 0

  /** How many bytes there are. */
  get size(): number {
    return this.#size
  }

  add(piece: Buffer): void {
    this.#size += piece.length
    this.#pieces.push(piece)
    if (++this.#unjoined < MAX_PIECES) return
    this.#pieces.push(Buffer.concat(this.#pieces.splice(-MAX_PIECES)))
    this.#unjoined = 0
  }

  /** All bytes in one piece; nothing is kept. */
  take(): Buffer {
    const [first, ...others] = this.#pieces
    const whole = first && others.length === 0 ? first : Buffer.concat(this.#pieces)
    this.clear()
    return whole
  }

  clear(): void {
    this.#pieces = []
    this.#unjoined = 0
    this.#size = 0
  }
}
