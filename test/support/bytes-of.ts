/** Texts as a stream of bytes, with a chunk for each. */
export async function* bytesOf(...texts: readonly (string | Uint8Array)[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text)
}
