/** The URL of what listens on an address, as it is opened on the same machine: one that stands for all is no place to go to. */
export function ownUrl(host: string, port: number): string {
  const name = host === '0.0.0.0' || host === '::' ? 'localhost' : host
  return `http://${name.includes(':') ? `[${name}]` : name}:${port}`
}
