/** A part of a document for agents. */
export interface Section {
  readonly key: string
  readonly heading: string
  /** Without the heading. */
  readonly markdown: string
  /** The same as data, under its key and those of what belongs to it. */
  readonly data: Readonly<Record<string, unknown>>
}
