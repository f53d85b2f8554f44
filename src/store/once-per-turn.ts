/** Reads once for all who ask within one turn of the event loop. */
export function oncePerTurn<Value>(read: () => Value): () => Value {
  let kept: { readonly value: Value } | undefined
  return () => {
    if (!kept) {
      kept = { value: read() }
      setImmediate(() => {
        kept = undefined
      })
    }
    return kept.value
  }
}
