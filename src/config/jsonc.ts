const string = /"(?:\\.|[^"\\])*"/.source
const comments = new RegExp(`${string}|//[^\\n]*|/\\*[^]*?\\*/`, 'g')
const commas = new RegExp(`${string}|,(?=\\s*[}\\]])`, 'g')

/** Reads JSON that may hold comments and trailing commas. @throws SyntaxError */
export function readJsonc(text: string): unknown {
  const bare = text
    .replace(/^\uFEFF/, '')
    .replaceAll(comments, (found) => (found.startsWith('"') ? found : ' '))
    .replaceAll(commas, (found) => (found.startsWith('"') ? found : ''))
  try {
    const value: unknown = JSON.parse(bare)
    return value
  } catch {
    // The parser's own message repeats a piece of the text, which may be a secret.
    throw new SyntaxError('is not valid JSON')
  }
}
