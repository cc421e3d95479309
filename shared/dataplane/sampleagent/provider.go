package sampleagent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// forward sends a request to the model provider, and passes its answer on as it arrives.
func (a *Agent) forward(w http.ResponseWriter, req *http.Request, path string, body []byte) {
	res, err := a.askProvider(req.Context(), req.Method, path, body)
	if err != nil {
		if req.Context().Err() == nil {
			writeError(w, http.StatusBadGateway, err.Error())
		}
		return
	}
	defer res.Body.Close() //nolint:errcheck // read only
	for _, name := range []string{"Content-Type", "Retry-After", "X-Request-Id"} {
		if value := res.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(res.StatusCode)
	out, buffer := http.NewResponseController(w), make([]byte, 16<<10)
	for {
		n, err := res.Body.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil { // the client left
				return
			}
			_ = out.Flush() // as above
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil { // the client must see that the answer is not complete
			panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler closes the connection
		}
	}
}

// askProvider makes a request to the model provider with the agent's key. A provider that refuses the key is an error
// of the agent, not of its client.
func (a *Agent) askProvider(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.options.OpenAIURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, userError("The address in OPENAI_BASE_URL is invalid.")
	}
	req.Header.Set("Authorization", "Bearer "+a.options.OpenAIKey)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := a.provider.Do(req)
	if err != nil {
		slog.Warn("model provider could not be reached", "error", err.Error())
		return nil, userError("The model provider in OPENAI_BASE_URL cannot be reached.")
	}
	if res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
		_ = res.Body.Close() // unread: it may quote the key
		return nil, userError(fmt.Sprintf("The model provider refused the key in OPENAI_API_KEY with status %d.",
			res.StatusCode))
	}
	return res, nil
}

// answer returns the complete answer to one message.
func (a *Agent) answer(ctx context.Context, text string) (string, error) {
	if a.echoes() {
		return reply([]message{{Role: "user", Content: content(text)}}), nil
	}
	body, err := json.Marshal(map[string]any{
		"model": a.options.Model, "messages": []map[string]string{{"role": "user", "content": text}},
	})
	if err != nil {
		return "", err
	}
	res, err := a.askProvider(ctx, http.MethodPost, "/chat/completions", body)
	if err != nil {
		return "", err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	var found struct {
		Choices []struct {
			Message struct {
				Content string `json:"content"`
			} `json:"message"`
		} `json:"choices"`
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxChatBytes)).Decode(&found); err != nil {
		return "", userError("The model provider's answer cannot be read.")
	}
	if res.StatusCode != http.StatusOK || len(found.Choices) == 0 {
		return "", userError(fmt.Sprintf("The model provider answered with status %d. %s", res.StatusCode,
			strings.ReplaceAll(found.Error.Message, a.options.OpenAIKey, "[redacted]")))
	}
	return found.Choices[0].Message.Content, nil
}
