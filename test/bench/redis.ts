// A Redis server for the time of a launch.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { freePort, launch, type Running } from './launch.ts'

const PROGRAM = 'redis-server'

/** Whether there is a Redis server on this machine. */
export function hasRedis(): boolean {
  return spawnSync(PROGRAM, ['--version']).status === 0
}

/** Starts one that writes each command to its file, and has the disk write it each second; it keeps all in the folder. */
export async function launchRedis(folder: string): Promise<Running & { readonly url: string }> {
  mkdirSync(folder, { recursive: true })
  const port = await freePort()
  const place = ['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder]
  const command = [PROGRAM, ...place, '--save', '', '--appendonly', 'yes', '--appendfsync', 'everysec']
  const running = await launch(command, () => isListening(port))
  return { ...running, url: `redis://127.0.0.1:${port}` }
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    socket.once('data', (data) => {
      socket.destroy()
      resolve(data.toString().startsWith('+PONG'))
    })
    socket.once('error', () => resolve(false))
  })
}
