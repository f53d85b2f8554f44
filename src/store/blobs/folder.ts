/**
 * Blobs as files of a folder, which several processes of one machine may share. A file is written under another name,
 * and gets its own once it is on disk.
 */
import { randomBytes } from 'node:crypto'
import { lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { GatewayError, systemCodeOf } from '../../core/error.ts'
import { FULL } from '../lmdb/files.ts'
import {
  type BlobEntry,
  type BlobFacts,
  type Blobs,
  type ByteRange,
  type Bytes,
  deletedMeanwhile,
  deletedUnfinished,
  Digest,
  WHOLE,
} from './blobs.ts'

/** How much of a file is read at once, in bytes. */
const READ_BYTES = 256 * 1024
/** The end of the names of unfinished files. */
const UNFINISHED = '.part'
/** The names of finished and unfinished files. Files with other names belong to others. */
const NAME = /^[\w-]{1,64}(?:\.[0-9a-f]{12}\.part)?$/

/** Blobs in a folder, which is created with the first one. Other places that it links to are left alone. */
export class FolderBlobs implements Blobs {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  async put(id: string, bytes: Bytes): Promise<BlobFacts> {
    const unfinished = this.#path(`${id}.${randomBytes(6).toString('hex')}${UNFINISHED}`)
    try {
      await this.#makeFolder()
      const facts = await written(unfinished, bytes)
      await rename(unfinished, this.#path(id)).catch((error: unknown) => {
        throw systemCodeOf(error) === 'ENOENT' ? deletedUnfinished() : error
      })
      await this.#sync()
      return facts
    } catch (error) {
      // What remains is listed as unfinished.
      await rm(unfinished, { force: true }).catch(() => undefined)
      if (FULL.has(String(systemCodeOf(error)))) throw diskFull(error)
      throw error
    }
  }

  async open(id: string, range: ByteRange = WHOLE): Promise<Bytes | undefined> {
    const path = this.#path(id)
    return (await entryOf(path)) && read(path, range)
  }

  async delete(id: string): Promise<void> {
    const names = await this.#names()
    const own = names.filter((name) => idOf(name) === id)
    for (const name of own) await rm(this.#path(name), { force: true })
  }

  async list(): Promise<readonly BlobEntry[]> {
    const entries = await Promise.all((await this.#names()).map((name) => entryOf(this.#path(name))))
    return entries.flatMap((each) => each ?? [])
  }

  async #names(): Promise<readonly string[]> {
    try {
      await this.#mustBeFolder()
      return (await readdir(this.#folder)).filter((name) => NAME.test(name))
    } catch (error) {
      if (systemCodeOf(error) === 'ENOENT') return []
      throw error
    }
  }

  async #makeFolder(): Promise<void> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 })
    } catch (error) {
      if (systemCodeOf(error) !== 'EEXIST') throw error
    }
    await this.#mustBeFolder()
  }

  /** What is deleted in a folder that a link leads to may belong to another program. */
  async #mustBeFolder(): Promise<void> {
    if ((await lstat(this.#folder)).isDirectory()) return
    throw new GatewayError(
      'SERVER_UNAVAILABLE',
      `The folder ${basename(this.#folder)} of the store is a link or a file.`,
      {
        suggestion: 'Replace it by a folder.',
      },
    )
  }

  /** Has the names in the folder survive a loss of power. */
  async #sync(): Promise<void> {
    const folder = await open(this.#folder, 'r')
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  }

  #path(name: string): string {
    return join(this.#folder, name)
  }
}

async function written(path: string, bytes: Bytes): Promise<BlobFacts> {
  const digest = new Digest()
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const chunk of bytes) {
      digest.add(chunk)
      await file.writeFile(chunk)
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  return digest.facts()
}

/** A file in a list; undefined if there is none, or something else. */
async function entryOf(path: string): Promise<BlobEntry | undefined> {
  try {
    const entry = await lstat(path)
    return entry.isFile()
      ? { id: idOf(basename(path)), size: entry.size, writtenAt: entry.mtimeMs }
      : undefined
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

async function* read(path: string, { start, end }: ByteRange): AsyncGenerator<Uint8Array> {
  const file = await open(path, 'r').catch((error: unknown) => {
    throw systemCodeOf(error) === 'ENOENT' ? deletedMeanwhile() : error
  })
  try {
    for (let at = start; at < end;) {
      const chunk = Buffer.allocUnsafe(Math.min(READ_BYTES, end - at))
      const { bytesRead } = await file.read(chunk, 0, chunk.byteLength, at)
      if (bytesRead === 0) return
      at += bytesRead
      yield chunk.subarray(0, bytesRead)
    }
  } finally {
    await file.close()
  }
}

function idOf(name: string): string {
  return name.split('.', 1)[0] ?? name
}

function diskFull(cause: unknown): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', 'The disk of the gateway is full. Nothing was kept.', {
    cause,
    reason: 'disk_full',
    category: 'transient',
  })
}
