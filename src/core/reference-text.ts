/** References as they are written in arguments: `ref://<id>`, or `{"$ref_id": "<id>"}`. */

/**
 * Whether the JSON text of arguments can have a reference. Nearly no call has one. An escape (`\u`) may stand for any of
 * these characters.
 */
export function mayRefer(text: string): boolean {
  return text.includes('ref:') || text.includes('$ref_id') || text.includes('\\u')
}
