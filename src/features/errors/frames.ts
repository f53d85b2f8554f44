const frames: readonly RegExp[] = [
  // JavaScript, Java, Kotlin, Rust: `at call (place:12:5)`.
  /^\s*at\s.{1,500}:\d{1,7}\)?\s*$/,
  /^\s*at\s.{1,500}(?:<anonymous>|\(native\)|\(Native Method\)|\(Unknown Source\))\)?\s*$/,
  /^\s*\.\.\. \d{1,6} (?:more|common frames omitted)\s*$/,
  // C#
  /^\s*at\s.{1,500} in .{1,500}:line \d{1,7}\s*$/,
  /^\s+at\s+[\w.<>`+[\],$]{1,300}\(.{0,300}\)\s*$/,
  /^\s*--- End of .{0,200}stack trace.{0,100}---\s*$/,
  // Python
  /^\s*Traceback \(most recent call last\):\s*$/,
  /^\s*[~^]{2,200}\s*$/,
  // Go
  /^\s*goroutine \d{1,12} \[.{1,100}\]:\s*$/,
  /^\s*created by \S{1,300}(?: in goroutine \d{1,12})?\s*$/,
  // Ruby and PHP
  /^\s*(?:from\s)?\S{1,300}\.rb:\d{1,7}:in\s.{0,300}$/,
  /^\s*#\d{1,4} .{1,500}$/,
]

const pythonFile = /^\s*File ".{1,500}", line \d{1,7}(?:, in .{1,200})?\s*$/
const goFile = /^\s+\S{1,500}\.go:\d{1,7}(?: \+0x[0-9a-f]{1,16})?\s*$/
const goCall = /^\s*[\w./*()-]{1,300}\(.{0,300}\)\s*$/
const indented = /^ {4,}\S/

const inLine: readonly RegExp[] = [
  / at (?:async )?(?:[\w.$<>[\]]{1,200} ){1,4}\((?:file:|node:|\/|[A-Za-z]:\\)[^\s()]{1,500}:\d{1,7}:\d{1,7}\)/g,
  / at [\w.$]{1,300}\([\w$]{1,100}\.(?:java|kt|scala|groovy|cs):\d{1,7}\)/g,
  /File "[^"\n]{1,500}", line \d{1,7}(?:, in [\w<>.]{1,200})?/g,
]

/** A text without the lines and parts of lines that are a stack trace. */
export function withoutFrames(text: string): string {
  // JSON inside a text has its line ends escaped.
  const parts = text.split(/(\r?\n|\\n)/)
  const kept: string[] = []
  let isCode = false
  for (let at = 0; at < parts.length; at += 2) {
    const line = parts[at] ?? ''
    const isFile = pythonFile.test(line)
    if (goFile.test(line) && goCall.test(kept.at(-1) ?? '')) kept.splice(-2)
    const isDropped: boolean =
      isFile || goFile.test(line) || (isCode && indented.test(line)) || frames.some((each) => each.test(line))
    isCode = isFile || (isCode && isDropped)
    if (!isDropped) kept.push(at === 0 || kept.length === 0 ? '' : (parts[at - 1] ?? ''), line)
  }
  return inLine.reduce((rest, each) => rest.replaceAll(each, ''), kept.join(''))
}
