/** Whether an argument takes a URL from which the server downloads, rather than a link that it stores or shows. */
import { wordsIn } from '../../core/text/words.ts'

/** Names such as `image_url`, in the notation of `wordsIn`. */
const downloadName =
  /^(?:download|fetch|source|file|image|audio|video|media|document|attachment|upload) (?:url|uri)$/
/** Descriptions of what a server does with a URL. */
const downloadText =
  /\b(?:download(?:s|ed|able)?|fetch(?:es|ed)?|retrieved?)\b[^.]*\b(?:from|at|by)\b|\b(?:url|uri) (?:to|of) (?:the |an? )?[^.]*\b(?:to|for) (?:download|fetch|import|upload)\b|\bpublicly (?:accessible|reachable|available)\b/i

/** Whether a server downloads from the URL in an argument. */
export function takesDownloadUrl(name: string, descriptions: readonly string[]): boolean {
  return downloadName.test(wordsIn(name).join(' ')) || descriptions.some((text) => downloadText.test(text))
}

/** Whether a text is a URL itself, rather than data. */
export function isUrlItself(text: string): boolean {
  return /^[a-z][a-z0-9+.-]*:[^\s]+\s*$/i.test(text)
}
