/** Names of values that are secrets: of arguments, headers, variables and members of JSON. The only list of them. */

const secret =
  /authorization|cookie|passw(?:or)?d|passphrase|passcode|secret|credential|(?:api|private|access|signing|encryption|auth|subscription|shared|master)_?key|token$|(?:^|_)(?:pwd|pat|dsn|otp|cvv|cvc)$/
/** What is said about a secret, or is called a token and is none. */
const ordinary =
  /(?:^|_)(?:page|next|prev|previous|continuation|sync|start|progress|cursor)_?token$|_(?:id|name|arn|path|file|url|uri|type|kind|count|length|size|ttl|expiry|expires(?:_at|_in)?|at|policy|version|required|enabled|format|label|ref|scope|manager)s?$|secretar(?:y|ies)/

const known = new Map<string, boolean>()
/** The maximum number of cached decisions, and the longest such name in characters. */
const MAX_CACHED_NAMES = 1000
const MAX_CACHED_NAME_LENGTH = 100

/** Whether a value with this name is a secret: `apiKey`, `client_secret`, `x-auth-token`; not `secret_name`, `next_token`. */
export function isSecretName(name: string): boolean {
  const found = known.get(name)
  if (found !== undefined) return found
  const words = name
    .replaceAll(/([a-z\d])([A-Z])/g, '$1_$2')
    .replaceAll(/[^A-Za-z\d]+/g, '_')
    .toLowerCase()
  const isSecret = secret.test(words) && !ordinary.test(words)
  if (known.size < MAX_CACHED_NAMES && name.length <= MAX_CACHED_NAME_LENGTH) known.set(name, isSecret)
  return isSecret
}
