// Writes OpenClaw's configuration: what is on the volume, then what the agent's config says, then what the platform
// needs. So what its dashboard or its command line changes stays, unless the agent's config says otherwise.
import fs from 'node:fs'
import path from 'node:path'

const read = (file) => (file && fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {})

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)

function merge(target, source) {
  for (const [key, value] of Object.entries(source)) {
    target[key] = isObject(value) && isObject(target[key]) ? merge(target[key], value) : value
  }
  return target
}

const file = process.env.OPENCLAW_CONFIG_PATH
const platform = {
  gateway: {
    mode: 'local',
    bind: 'lan',
    // The front checks credentials, and says who asks. It is in the same pod, and only it reaches the port.
    trustedProxies: ['127.0.0.1/32'],
    auth: {
      mode: 'trusted-proxy',
      trustedProxy: {
        userHeader: 'x-forwarded-preferred-username',
        requiredHeaders: ['x-forwarded-host'],
        allowLoopback: true,
        // Who passed the front may use a browser or an app without an approval on the command line.
        deviceAutoApprove: { enabled: true },
      },
    },
    controlUi: { allowedOrigins: [new URL(process.env.AGENT_URL).origin] },
    http: { endpoints: { chatCompletions: { enabled: true } } },
  },
}
fs.mkdirSync(path.dirname(file), { recursive: true })
const merged = merge(merge(read(file), read(process.env.AGENT_CONFIG_FILE)), platform)
fs.writeFileSync(file + '.new', JSON.stringify(merged, null, 2) + '\n', { mode: 0o600 })
fs.renameSync(file + '.new', file)
