/** Watches the configuration file; a file that is still being written is not read. */
import { watch, type FSWatcher } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { readText } from './secrets.ts'

/** What to watch, and the callbacks. */
interface FileWatch {
  /** The text as it was last read, so that a change between reading and watching is noticed. */
  readonly text: string
  /** What stands for the text of the file, where that need not be read each time. Default: its text. */
  readonly read?: (path: string) => string
  /** Called with the text of the file when it differs from the last; never while the file is missing or empty. Must not throw. */
  readonly onChange: (text: string) => void
  /** Called once when the file is missing or empty in two consecutive checks: editors empty and replace files. */
  readonly onUnusable?: (state: UnusableState) => void
  /** How long, in milliseconds, the file must be unchanged before it is read. */
  readonly quiet?: number
  /** The polling interval in milliseconds, in addition to events of the file system. */
  readonly every?: number
}

type UnusableState = 'missing' | 'empty'

/** An open watch; it does not keep the process alive. */
export interface FileWatcher {
  close(): void
}

/**
 * Watches one file, whether it is written in place, replaced by a rename, deleted and created again, or reached
 * through a symbolic link whose target changes.
 */
export function watchFile(file: string, options: FileWatch): FileWatcher {
  return new PollingWatcher(file, options)
}

/**
 * The watch of a file is lost when the file is replaced, so the folder is watched. Where that is not possible, or the
 * target of the link is in another folder, polling finds the change.
 */
class PollingWatcher implements FileWatcher {
  readonly #path: string
  readonly #options: FileWatch
  readonly #polling: NodeJS.Timeout
  #last: string
  #isClosed = false
  #unusable: { readonly state: UnusableState; isReported: boolean } | undefined
  #pendingCheck: NodeJS.Timeout | undefined
  #folder: FSWatcher | undefined

  constructor(file: string, options: FileWatch) {
    this.#path = resolve(file)
    this.#options = options
    this.#last = options.text
    this.#folder = this.#watchFolder()
    this.#polling = setInterval(this.#check, options.every ?? 2000).unref()
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#pendingCheck)
    clearInterval(this.#polling)
    this.#folder?.close()
  }

  #watchFolder(): FSWatcher | undefined {
    if (this.#isClosed) return undefined
    try {
      const watcher = watch(dirname(this.#path), { persistent: false }, this.#checkSoon)
      watcher.on('error', () => {
        watcher.close()
        this.#folder = undefined
      })
      return watcher
    } catch {
      return undefined
    }
  }

  readonly #checkSoon = (): void => {
    clearTimeout(this.#pendingCheck)
    if (!this.#isClosed) this.#pendingCheck = setTimeout(this.#check, this.#options.quiet ?? 100).unref()
  }

  readonly #check = (): void => {
    let current: string
    try {
      current = (this.#options.read ?? readText)(this.#path)
    } catch {
      // The folder may have been deleted too, and a watch would stay on the deleted one.
      this.#folder?.close()
      this.#folder = this.#watchFolder()
      this.#reportUnusable('missing')
      return
    }
    this.#compare(current)
  }

  #compare(current: string): void {
    this.#folder ??= this.#watchFolder()
    if (this.#isClosed) return
    if (current.trim() === '') return this.#reportUnusable('empty')
    this.#unusable = undefined
    if (current === this.#last) return
    this.#last = current
    this.#options.onChange(current)
  }

  #reportUnusable(state: UnusableState): void {
    if (this.#isClosed) return
    if (this.#unusable?.state !== state) {
      this.#unusable = { state, isReported: false }
      return this.#checkSoon()
    }
    if (this.#unusable.isReported) return
    this.#unusable.isReported = true
    this.#options.onUnusable?.(state)
  }
}
