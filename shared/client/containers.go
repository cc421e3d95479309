package client

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"time"
)

// held implements held: the API answers when the command has ended, or its time is over.
func (r ExecInAgentRequest) held() time.Duration {
	if r.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*r.TimeoutSeconds) * time.Second
}

// archive is the media type of a directory.
const archive = "application/x-tar"

// GetAgentFile opens a file of an agent's container. The caller closes it. A file that is cut off ends with an error.
func (c *Client) GetAgentFile(
	ctx context.Context, agentID, path string, options ...CallOption,
) (io.ReadCloser, error) {
	return c.getFiles(ctx, agentID, path, "application/octet-stream", options)
}

// GetAgentDirectory opens a directory of an agent's container as a tar archive. The caller closes it.
func (c *Client) GetAgentDirectory(
	ctx context.Context, agentID, path string, options ...CallOption,
) (io.ReadCloser, error) {
	return c.getFiles(ctx, agentID, path, archive, options)
}

// ExportSnapshot opens the archive of a snapshot, a tar archive. The caller closes it. One that is cut off ends with an
// error, and a complete one with the entry checksum.json. The call waits until the snapshot can be read.
func (c *Client) ExportSnapshot(
	ctx context.Context, agentID, snapshotID string, options ...CallOption,
) (io.ReadCloser, error) {
	r := call{
		method: http.MethodGet, path: "/api/v1/agents/%s/snapshots/%s/export", args: []string{agentID, snapshotID},
	}
	answer, err := c.open(ctx, r, archive, options)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

func (c *Client) getFiles(
	ctx context.Context, agentID, path, accept string, options []CallOption,
) (io.ReadCloser, error) {
	r := call{
		method: http.MethodGet, path: filesPath, args: []string{agentID}, query: url.Values{"path": {path}},
	}
	answer, err := c.open(ctx, r, accept, options)
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

const filesPath = "/api/v1/agents/%s/files"

// PutAgentFile writes a file in an agent's container, below /data or /tmp. The API takes 16 MiB.
func (c *Client) PutAgentFile(
	ctx context.Context, agentID, path string, content []byte, options ...CallOption,
) error {
	options = append([]CallOption{RequestHeader("Content-Type", "application/octet-stream")}, options...)
	return c.putFiles(ctx, agentID, path, content, options)
}

// PutAgentDirectory extracts a tar archive into a directory of an agent's container.
func (c *Client) PutAgentDirectory(
	ctx context.Context, agentID, path string, content []byte, options ...CallOption,
) error {
	options = append([]CallOption{RequestHeader("Content-Type", archive)}, options...)
	return c.putFiles(ctx, agentID, path, content, options)
}

func (c *Client) putFiles(
	ctx context.Context, agentID, path string, content []byte, options []CallOption,
) error {
	target, err := call{method: http.MethodPut, path: filesPath, args: []string{agentID}}.escaped()
	if err != nil {
		return err
	}
	target += "?" + url.Values{"path": {path}}.Encode()
	q, err := c.request(http.MethodPut, target, content, options)
	if err != nil {
		return err
	}
	return c.complete(ctx, q, nil)
}

// DeleteAgentFiles deletes a file or a directory of an agent's container, below /data or /tmp. A path that does not
// exist is a success.
func (c *Client) DeleteAgentFiles(ctx context.Context, agentID, path string, options ...CallOption) error {
	r := call{
		method: http.MethodDelete, path: filesPath, args: []string{agentID}, query: url.Values{"path": {path}},
	}
	return c.send(ctx, r, nil, options)
}

// TerminalParams are the parameters of a terminal.
type TerminalParams struct {
	// Command is a program of the agent's image with its arguments; none means a shell.
	Command []string
	// Plain gives the command no terminal: its errors are a separate channel, and its input can end.
	Plain bool
}

// TerminalAddress returns the URL of a terminal in an agent's container and the header to open it with, for a library
// of WebSockets. Its subprotocol is Kubernetes' v5.channel.k8s.io: the first byte of a message is its channel.
func (c *Client) TerminalAddress(
	ctx context.Context, agentID string, params TerminalParams,
) (address string, header http.Header, err error) {
	query := url.Values{}
	setParam(query, "command", params.Command)
	if params.Plain {
		query.Set("tty", "false")
	}
	r := call{method: http.MethodGet, path: "/api/v1/agents/%s/terminal", args: []string{agentID}, query: query}
	path, err := r.escaped()
	if err != nil {
		return "", nil, err
	}
	token, err := c.tokens.Token(ctx)
	if err != nil {
		return "", nil, err
	}
	header = http.Header{"User-Agent": {c.userAgent}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	return c.base.String() + path + "?" + query.Encode(), header, nil
}
