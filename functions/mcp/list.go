package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The library would encode, compact and copy the list of all tools for every answer, which costs as much as ten pings.
// It is encoded once: the library answers with an empty list, so that all else in the answer is as the client's version
// of the protocol has it, and the encoded list takes the place of the empty one.

// emptyList is the list in an answer without tools. No text in JSON has it, because quotes inside are escaped.
const emptyList = `"tools":[]`

// listOnce takes the tools out of answers with all of them, and leaves their encoded list in the call.
func listOnce(tools int) mcp.Middleware {
	var once sync.Once
	var list []byte
	var failed error
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			page, ok := result.(*mcp.ListToolsResult)
			c := callFrom(ctx)
			if err != nil || !ok || c == nil || len(page.Tools) != tools { // a cursor leaves some out
				return result, err
			}
			once.Do(func() { list, failed = encodeList(page.Tools) })
			if failed != nil {
				return nil, failed
			}
			short := *page
			short.Tools = []*mcp.Tool{}
			c.list.Store(&list)
			return &short, nil
		}
	}
}

// encodeList encodes tools as the library does, in place of emptyList.
func encodeList(tools []*mcp.Tool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(tools)
	return append([]byte(`"tools":`), bytes.TrimSpace(b.Bytes())...), err
}

// withList puts the list of tools into the library's answer, if it was left out.
func (c *call) withList(answer []byte) []byte {
	list := c.list.Load()
	if list == nil {
		return answer
	}
	return bytes.Replace(answer, []byte(emptyList), *list, 1)
}
