// The memory that objects of a process take, after a garbage collection: it is asked over the inspector of Node.js.
import { once } from 'node:events'
import { request } from 'undici'
import { isObject } from '../../support/server/json.ts'

/** A process that was started with `--inspect=127.0.0.1:PORT`. */
export class Heap {
  readonly #socket: WebSocket
  #id = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
  }

  static async open(port: number): Promise<Heap> {
    const { body } = await request(`http://127.0.0.1:${port}/json/list`)
    const [target] = (await body.json()) as readonly { readonly webSocketDebuggerUrl: string }[]
    const socket = new WebSocket(target?.webSocketDebuggerUrl ?? '')
    await once(socket, 'open')
    return new Heap(socket)
  }

  /** Bytes in use, with those of buffers. */
  async bytes(): Promise<number> {
    // What finalizers release is collected the second time.
    for (let turn = 0; turn < 2; turn++) await this.#ask('HeapProfiler.collectGarbage')
    const { usedSize, backingStorageSize } = await this.#ask('Runtime.getHeapUsage')
    return Number(usedSize) + Number(backingStorageSize ?? 0)
  }

  close(): void {
    this.#socket.close()
  }

  async #ask(method: string): Promise<Readonly<Record<string, unknown>>> {
    const id = ++this.#id
    const answered = new Promise<Readonly<Record<string, unknown>>>((resolve) => {
      const take = ({ data }: MessageEvent): void => {
        const message: unknown = JSON.parse(String(data))
        if (!isObject(message) || message['id'] !== id) return
        this.#socket.removeEventListener('message', take)
        resolve(isObject(message['result']) ? message['result'] : {})
      }
      this.#socket.addEventListener('message', take)
    })
    this.#socket.send(JSON.stringify({ id, method }))
    return answered
  }
}
