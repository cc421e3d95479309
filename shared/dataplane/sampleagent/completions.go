package sampleagent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// maxChatBytes bounds the body of a chat, which may hold pictures.
const maxChatBytes = 8 << 20

// chat is the part of a request for a completion that the agent reads.
type chat struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	MaxTokens     *int      `json:"max_tokens"`
	MaxCompletion *int      `json:"max_completion_tokens"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// message is one message of a chat.
type message struct {
	Role    string  `json:"role"`
	Content content `json:"content"`
}

// content is a text, or a list of parts of which some are texts.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(b []byte) error {
	var text *string
	if json.Unmarshal(b, &text) == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return errors.New("content must be a string or a list of parts")
	}
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// serveCompletions answers POST /v1/chat/completions.
func (a *Agent) serveCompletions(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxChatBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		writeError(w, http.StatusRequestEntityTooLarge,
			fmt.Sprintf("The request has more than %d bytes.", tooLarge.Limit))
		return
	}
	if err != nil { // the client left
		return
	}
	var c chat
	if err := json.Unmarshal(body, &c); err != nil {
		writeError(w, http.StatusBadRequest, "The request is not a chat: "+err.Error()+".")
		return
	}
	if len(c.Messages) == 0 {
		writeError(w, http.StatusBadRequest, "The request needs at least one message in messages.")
		return
	}
	began := a.options.Now()
	if a.echoes() {
		a.echo(w, req, c)
	} else {
		a.forward(w, req, "/chat/completions", withModel(body, c.Model, a.options.Model))
	}
	slog.Info("chat answered", "messages", len(c.Messages), "stream", c.Stream, "echo", a.echoes(),
		"seconds", a.options.Now().Sub(began).Seconds())
}

// withModel returns the body of a chat that names a model.
func withModel(body []byte, named, standard string) []byte {
	if named != "" || standard == "" {
		return body
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return body
	}
	fields["model"], _ = json.Marshal(standard) // a string always encodes
	if changed, err := json.Marshal(fields); err == nil {
		return changed
	}
	return body
}

// serveModels answers GET /v1/models.
func (a *Agent) serveModels(w http.ResponseWriter, req *http.Request) {
	if !a.echoes() {
		a.forward(w, req, "/models", nil)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": echoModel, "object": "model", "created": a.started.Unix(), "owned_by": "sample-agent",
	}}})
}

// writeError answers with an error as OpenAI's clients expect it.
func writeError(w http.ResponseWriter, status int, message string) {
	kind := "invalid_request_error"
	if status >= http.StatusInternalServerError {
		kind = "server_error"
	}
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"message": message, "type": kind, "param": nil, "code": nil,
	}})
}

func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // fails if the client left
}
