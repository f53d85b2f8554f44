/** Whether an argument of a tool takes a reference to bytes as it is, without a form that the caller chooses. */
import { inputsOf } from '../../core/media-inputs.ts'
import { Schemas } from './forms.ts'

/** Whether an argument for media takes base64 or a data URI, which the data of a reference becomes. */
export function takesBytes(inputSchema: unknown): boolean {
  const { root } = new Schemas(inputSchema)
  return inputsOf(inputSchema).some(({ name, isBinary }) => {
    const place = root.member(name)
    return isBinary && [place, place.item(0)].some((each) => forms.has(each.takes()))
  })
}

const forms: ReadonlySet<string> = new Set(['base64', 'data_uri'])
