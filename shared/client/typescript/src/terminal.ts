/**
 * The subprotocols of a WebSocket that opens a terminal in an agent's container:
 *
 * `new WebSocket("wss://api.example.com/api/v1/agents/ID/terminal", terminalProtocols(token))`
 *
 * Browsers send no other header with a WebSocket, so the second one has the token. The service selects the first one.
 * The first byte of each message is its channel: 0 input, 1 output, 2 errors, 3 how the command ended, 4 the size.
 */
export function terminalProtocols(token: string): [string, string] {
  const binary = String.fromCharCode(...new TextEncoder().encode(token));
  const encoded = btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return ["v5.channel.k8s.io", `base64url.bearer.authorization.k8s.io.${encoded}`];
}
