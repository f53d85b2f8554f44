/** A time in milliseconds since 1970 as ISO 8601. Most that are asked for share a second, and its text. */
export function isoTime(time: number): string {
  const second = Math.floor(time / 1000)
  if (second !== lastSecond) {
    lastText = new Date(second * 1000).toISOString().slice(0, 20)
    lastSecond = second
  }
  return `${lastText}${String(time - second * 1000).padStart(3, '0')}Z`
}

let lastSecond = Number.NaN
let lastText = ''
