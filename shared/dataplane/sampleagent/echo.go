package sampleagent

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/eventstream"
)

// echoModel is the model of an agent without a model provider.
const echoModel = "echo"

// reply returns the echo of a chat: its last message of the user.
func reply(messages []message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == "user" && messages[i].Content != "" {
			return "You said: " + string(messages[i].Content)
		}
	}
	return "Hello! I am the sample agent. Set the secret OPENAI_API_KEY to give me a model."
}

// tokens splits a text into words, each with the white space before it.
func tokens(text string) []string {
	var all []string
	for len(text) > 0 {
		start := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
		end := strings.IndexAny(text[start:], " \t\r\n")
		if end < 0 || end+start == 0 {
			return append(all, text)
		}
		all, text = append(all, text[:start+end]), text[start+end:]
	}
	return all
}

// usage counts words as tokens.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// completion is the answer to a chat, or one chunk of it.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int       `json:"index"`
	Message      *spoken   `json:"message,omitempty"`
	Delta        *spoken   `json:"delta,omitempty"`
	FinishReason *string   `json:"finish_reason"`
	LogProbs     *struct{} `json:"logprobs"`
}

type spoken struct {
	Role    string `json:"role,omitempty"`
	Content string `json:"content"`
}

// echo answers a chat without a model.
func (a *Agent) echo(w http.ResponseWriter, req *http.Request, c chat) {
	said, finish := tokens(reply(c.Messages)), "stop"
	for _, most := range []*int{c.MaxTokens, c.MaxCompletion} {
		if most != nil && *most >= 0 && *most < len(said) {
			said, finish = said[:*most], "length"
		}
	}
	used := usage{Completion: len(said)}
	for _, m := range c.Messages {
		used.Prompt += len(tokens(string(m.Content)))
	}
	used.Total = used.Prompt + used.Completion
	answer := completion{
		ID: "chatcmpl-" + rand.Text(), Created: a.options.Now().Unix(), Model: echoModel,
	}
	if c.Stream {
		a.streamEcho(w, req, answer, echoed{said, finish, used, c.StreamOptions.IncludeUsage})
		return
	}
	answer.Object, answer.Usage = "chat.completion", &used
	answer.Choices = []choice{{
		Message: &spoken{Role: "assistant", Content: strings.Join(said, "")}, FinishReason: &finish,
	}}
	writeJSON(w, http.StatusOK, answer)
}

// echoed is what an echo says.
type echoed struct {
	tokens    []string
	finish    string
	usage     usage
	showUsage bool
}

// streamEcho sends an echo word by word, as Server-Sent Events.
func (a *Agent) streamEcho(w http.ResponseWriter, req *http.Request, chunk completion, e echoed) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	chunk.Object = "chat.completion.chunk"
	out := http.NewResponseController(w)
	send := func(choices ...choice) {
		chunk.Choices = choices
		b, _ := json.Marshal(chunk) // has no value that cannot be encoded
		// Both fail if the client left, which the context says, too.
		_ = eventstream.Write(w, eventstream.Event{Data: b})
		_ = out.Flush()
	}
	send(choice{Delta: &spoken{Role: "assistant"}})
	pause := time.NewTicker(max(a.options.EchoPause, time.Nanosecond))
	defer pause.Stop()
	for _, token := range e.tokens {
		select {
		case <-pause.C:
		case <-req.Context().Done():
			return
		}
		send(choice{Delta: &spoken{Content: token}})
	}
	send(choice{Delta: &spoken{}, FinishReason: &e.finish})
	if e.showUsage {
		chunk.Usage = &e.usage
		send([]choice{}...)
	}
	_ = eventstream.Write(w, eventstream.Event{Data: []byte("[DONE]")})
}
