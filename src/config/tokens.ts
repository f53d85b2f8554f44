/** Recognizes values that look like secrets. */

const shapes = [
  /\b(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|sk-|sk_live_|sk_test_|rk_live_)[\w-]{10,}/,
  /\b(npm_|hf_)[A-Za-z0-9]{20,}/,
  /\bAKIA[A-Z0-9]{16}\b/,
  /\bAIza[\w-]{30,}/,
  /\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\./,
  /\bBearer\s+[\w.~+/=-]{8,}/i,
  /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
]
const secretName =
  /(^|[_-])(token|secret|passwords?|passwd|pwd|credentials?|cookie|pat|dsn|authorization|auth)$|(api|access|private|secret|auth|subscription|encryption|app)[_-]?key$|^key$|(token|secret|password|authorization)$/i

/** Whether a text holds something shaped like an access token or private key. */
export function looksLikeToken(text: string): boolean {
  return shapes.some((shape) => shape.test(text))
}

/** Whether a variable, header or option of this name usually holds a secret. */
export function namesSecret(name: string): boolean {
  return secretName.test(name)
}

/** Whether a text is a URL with a password in it. */
export function holdsPassword(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/@\s]*:[^/@\s]+@/i.test(text)
}

/** Whether a text is long and mixed enough to be a generated key. */
export function looksRandom(text: string): boolean {
  return (
    /^[\w+/=.~-]{20,}$/.test(text) && /\d/.test(text) && /[a-z]/i.test(text) && !/[/\\.].*[/\\.]/.test(text)
  )
}
