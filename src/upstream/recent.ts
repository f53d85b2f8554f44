/** For how long a failure is told again instead of trying again, in milliseconds. */
const FAILURE_TTL_MS = 250

/** Tries once for all parts of one call: a server that is away is not run into by each of them. `key` names the call. */
export class NegativeCache<Value> {
  #key: string | undefined
  #failed: { readonly error: unknown; readonly at: number } | undefined

  /** What trying gives. @throws what trying threw just before, for the same key */
  async try(key: string, attempt: () => Promise<Value>): Promise<Value> {
    const failed = this.#key === key ? this.#failed : undefined
    if (failed && performance.now() - failed.at < FAILURE_TTL_MS) throw failed.error
    try {
      return await attempt()
    } catch (error) {
      this.#key = key
      this.#failed = { error, at: performance.now() }
      throw error
    }
  }
}
