/** Names the nearest word where a word of the command line is not known. */
import { nearest } from '../core/nearest.ts'

/** A sentence to put behind a complaint: `; did you mean "serve"?`, or nothing where no word is near. */
export function didYouMean(word: string, words: readonly string[]): string {
  const found = nearest(word, words)
  return found === undefined || found === word ? '' : `; did you mean ${found}?`
}
