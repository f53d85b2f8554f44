/**
 * Whether an argument takes the path of a file that the tool reads. Nothing in a schema says so for certain, and a tool
 * that writes to such a path would lose what it wrote: names and descriptions must agree, and others choose `?as=path`.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import { wordsIn } from '../../core/text/words.ts'
import type { UpstreamSettings } from '../../core/settings.ts'

/** An argument, or an element of one. */
interface Argument {
  readonly name: string
  readonly descriptions: readonly string[]
}

/** Names of arguments that are paths, in the notation of `wordsIn`. */
const pathName = /\b(?:paths?|filepaths?|file ?names?)$/
/** Descriptions of paths of files. */
const pathText = /\bpaths? (?:to|of)\b[^.]*\bfiles?\b|\bfile ?paths?\b|\blocal (?:files?|paths?)\b/i
/** Words of arguments and tools that read the file, and of those that write it or take a folder. */
const reading = /\b(?:attach|attachments?|from|import|input|insert|load|read|send|source|upload|uploads)\b/
const writing =
  /\b(?:create|delete|dest|destination|download|edit|export|move|output|remove|rename|save|saved|target|write|written)\b/
const folder = /\b(?:dir|directory|directories|folder|folders|tree)\b/

/** Whether a tool reads the file that an argument names. */
export function takesPath(argument: Argument, { name, classification }: Descriptor): boolean {
  const { descriptions } = argument
  const isPath = pathName.test(spelled([argument.name])) || descriptions.some((text) => pathText.test(text))
  if (!isPath) return false
  const words = spelled([argument.name, ...descriptions])
  if (writing.test(words) || folder.test(spelled([argument.name, name]))) return false
  const isReader =
    classification.op === 'read' || reading.test(spelled([argument.name, name, ...descriptions]))
  return isReader && !writing.test(spelled([name]))
}

function spelled(texts: readonly string[]): string {
  return texts.map((text) => wordsIn(text).join(' ')).join(' ')
}

/** Programs whose servers see other files than this machine has. */
const elsewhere = /(?:^|[/\\])(?:docker|kubectl|nerdctl|podman|ssh|wsl)(?:\.exe)?$/i

/** Whether a server is a process of this machine, which can open a file by its path; `perhaps` if it may see other files. */
export function canOpenFiles(settings: UpstreamSettings | undefined): 'yes' | 'perhaps' | 'no' {
  if (settings?.reach.kind !== 'command') return 'no'
  return elsewhere.test(settings.reach.command) ? 'perhaps' : 'yes'
}

/** Whether a text is a path itself, rather than data for a file. */
export function isPathItself(text: string): boolean {
  return text.length <= 4096 && /^(?:[/~]|\.{1,2}[/\\]|[A-Za-z]:[\\/]|file:\/\/)[^\n]*\n?$/.test(text)
}
