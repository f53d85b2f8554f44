import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { freePort, launchCommand, type Serving } from './launch.ts'

const NGINX = '/usr/sbin/nginx'

/** Whether nginx is installed where its packages put it. */
export function hasNginx(): boolean {
  return existsSync(NGINX)
}

/** Starts nginx with one worker as a reverse proxy; everything it writes stays in the given folder. */
export async function launchNginx(folder: string, upstreamUrl: string): Promise<Serving> {
  mkdirSync(folder)
  const port = await freePort()
  const file = `${folder}/nginx.conf`
  writeFileSync(file, nginxConfig(folder, port, new URL(upstreamUrl).host))
  const command = [NGINX, '-p', folder, '-c', file, '-e', 'stderr']
  const running = await launchCommand(command, `http://127.0.0.1:${port}/ready`)
  return { ...running, url: `http://127.0.0.1:${port}/mcp` }
}

function nginxConfig(folder: string, port: number, upstream: string): string {
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  // A worker that gives up root could not write to a folder only root may enter.
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  return `
${user}
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
  access_log off;
  ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  keepalive_timeout 600s;
  keepalive_requests 1000000000;
  upstream bench {
    server ${upstream};
    keepalive 64;
    keepalive_requests 1000000000;
    keepalive_timeout 600s;
  }
  server {
    listen 127.0.0.1:${port};
    location = /ready { return 200; }
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffer_size 16k;
      proxy_buffers 32 16k;
    }
  }
}
`
}
