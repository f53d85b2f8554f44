/** Watches the configuration file and its references; half-written files are waited for. */
import { watch, type FSWatcher } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { readText } from './secrets.ts'

/** What to watch and when to speak. */
export interface WatchOptions {
  /** The text as it was last read, so that a change between reading and watching is seen. */
  readonly text: string
  /** Called with the text of the file when it differs from the last; never while the file is missing or empty. Must not throw. */
  readonly onChange: (text: string) => void
  /** Called once when the file is found missing or empty, twice in a row: editors empty and replace files. */
  readonly onUnusable?: (state: 'missing' | 'empty') => void
  /** How long, in milliseconds, the file must be left alone before it is read. */
  readonly quiet?: number
  /** How often, in milliseconds, it is looked at in any case. */
  readonly every?: number
}

/** A watch that holds until it is closed; it does not keep the process alive. */
export interface FileWatcher {
  close(): void
}

/**
 * Watches one file, however it is changed: written in place, replaced by a rename, deleted and made again, or
 * reached through a symbolic link that is pointed elsewhere.
 */
export function watchFile(file: string, options: WatchOptions): FileWatcher {
  const { text, onChange, onUnusable, quiet = 100, every = 2000 } = options
  // A file's own watch is lost when it is replaced, so the folder is watched. Where that is not possible, or
  // the link's target is in another folder, looking again every so often finds the change.
  const path = resolve(file)
  let last = text
  let isClosed = false
  let unusable: { readonly state: 'missing' | 'empty'; isTold: boolean } | undefined
  let soon: NodeJS.Timeout | undefined
  let folder = watchFolder()
  const often = setInterval(check, every).unref()

  function watchFolder(): FSWatcher | undefined {
    try {
      const watcher = watch(dirname(path), { persistent: false }, later)
      watcher.on('error', () => {
        watcher.close()
        folder = undefined
      })
      return watcher
    } catch {
      return undefined
    }
  }

  function later(): void {
    clearTimeout(soon)
    if (!isClosed) soon = setTimeout(check, quiet).unref()
  }

  function check(): void {
    let current: string
    try {
      current = readText(path)
    } catch {
      // The folder may have gone with the file, and a watch on it would stay with the one that is gone.
      folder?.close()
      folder = isClosed ? undefined : watchFolder()
      reportUnusable('missing')
      return
    }
    compare(current)
  }

  function reportUnusable(state: 'missing' | 'empty'): void {
    if (isClosed) return
    if (unusable?.state !== state) {
      unusable = { state, isTold: false }
      return later()
    }
    if (unusable.isTold) return
    unusable.isTold = true
    onUnusable?.(state)
  }

  function compare(current: string): void {
    folder ??= isClosed ? undefined : watchFolder()
    if (isClosed) return
    if (current.trim() === '') return reportUnusable('empty')
    unusable = undefined
    if (current === last) return
    last = current
    onChange(current)
  }

  return {
    close() {
      isClosed = true
      clearTimeout(soon)
      clearInterval(often)
      folder?.close()
    },
  }
}
