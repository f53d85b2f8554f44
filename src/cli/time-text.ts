/** A time, in milliseconds since 1970, for people and for sorting. */
export function timeText(at: number): string {
  return new Date(at).toISOString().replace(/\.\d+Z$/, 'Z')
}
