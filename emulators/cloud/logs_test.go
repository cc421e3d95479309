package cloud_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cluster"
)

// logLine is a line of an agent's log.
type logLine struct {
	Time    string `json:"time"`
	Message string `json:"message"`
	Stream  string `json:"stream"`
}

// testLogs reads the log of an agent while it runs, after its end and while it is stopped. It follows the log in both
// formats.
func testLogs(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "writes a log", "resource_plan": "hobby"}`)
	api, _ := d.awaitStatus(t, id, "running").body["api_url"].(string)
	path := "/api/v1/agents/" + id + "/logs"
	refused := d.must(t, http.StatusConflict, http.MethodGet, path+"?previous=true", "")
	checkEqual(t, "code of the previous log before a restart", refused.body["code"], "agent_not_restarted")
	refused = d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodGet, path, "")
	checkEqual(t, "status for another organization", refused.status, http.StatusNotFound)

	events := d.follow(t, path+"?follow=true&tail=1", "text/event-stream", "")
	lines := d.follow(t, path+"?follow=true&tail=1", "application/x-ndjson", "")
	key := d.revealCredentials(t, id).key
	for n := 1; n <= 3; n++ {
		d.chat(t, api, key, n)
		events.awaitChat(t, n)
		lines.awaitChat(t, n)
	}
	tail := d.must(t, http.StatusOK, http.MethodGet, path+"?tail=2", "")
	checkEqual(t, "Content-Type of a log", tail.header.Get("Content-Type"), "application/x-ndjson")
	if got := decodeLog(t, tail.text); len(got) != 2 || chatIn(got[0]) != 2 || chatIn(got[1]) != 3 {
		t.Errorf("last 2 lines = %+v, want those of chats 2 and 3", got)
	}
	events.stop()
	resumed := d.follow(t, path+"?follow=true&tail=1", "text/event-stream", events.ids[1])
	checkEqual(t, "first chat after the event of chat 1", chatIn(resumed.next(t)), 2)

	// The fault ends the container once, so that the previous log is the one of the chats.
	injectPodFault(t, d, id, cluster.ImagePull)
	var previous answer
	d.await(t, id, "interrupted", func(answer) bool {
		previous = d.call(t, d.Ready.APIKey, http.MethodGet, path+"?previous=true", "")
		return previous.status == http.StatusOK
	})
	injectPodFault(t, d, id, "")
	if got := decodeLog(t, previous.text); len(got) == 0 || !strings.Contains(got[0].Message, `"serving"`) ||
		chatIn(got[len(got)-1]) != 3 {
		t.Errorf("previous log = %+v, want one from the start of the agent to chat 3", got)
	}
	d.await(t, id, "back", func(answer) bool {
		return d.askAgent(t, http.MethodGet, strings.TrimSuffix(api, "/")+"/models", key, "") == http.StatusOK
	})
	d.chat(t, api, key, 4)
	resumed.awaitChat(t, 4) // in a later container
	lines.awaitChat(t, 4)

	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	d.await(t, id, "without a log", func(answer) bool {
		a := d.call(t, d.Ready.APIKey, http.MethodGet, path, "")
		return a.status == http.StatusConflict && a.body["code"] == "agent_not_running"
	})
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// chat sends a chat with a number of messages, which the agent writes to its log.
func (d deployment) chat(t *testing.T, api, key string, messages int) {
	t.Helper()
	all := strings.Repeat(`, {"role": "user", "content": "hello"}`, messages)[2:]
	status := d.askAgent(t, http.MethodPost, strings.TrimSuffix(api, "/")+"/chat/completions", key,
		`{"messages": [`+all+`]}`)
	checkEqual(t, "status of a chat", status, http.StatusOK)
}

// askAgent calls an agent's API with a key, and returns the status.
func (d deployment) askAgent(t *testing.T, method, url, key, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := d.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	return res.StatusCode
}

// chatIn returns the number of messages of the chat that a line is about, or 0.
func chatIn(l logLine) int {
	var entry struct{ Messages int }
	_ = json.Unmarshal([]byte(l.Message), &entry)
	return entry.Messages
}

func decodeLog(t *testing.T, text string) (all []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		all = append(all, decodeLogLine(t, line))
	}
	return all
}

func decodeLogLine(t *testing.T, text string) (l logLine) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &l); err != nil || l.Time == "" || l.Stream != "combined" {
		t.Fatalf("line %q: %v, want a time and the stream combined", text, err)
	}
	return l
}

// followed is a log that is followed.
type followed struct {
	body *bufio.Scanner
	stop func()
	// ids has the id of the event of each chat.
	ids map[int]string
}

// follow begins to follow a log, after an event unless its id is empty. The client of d would read the whole answer.
func (d deployment) follow(t *testing.T, path, accept, lastEventID string) *followed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.Ready.BaseURL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + d.Ready.APIKey}, "Accept": {accept}}
	if lastEventID != "" {
		req.Header.Set("Last-Event-ID", lastEventID)
	}
	res, err := http.DefaultClient.Do(req) //nolint:bodyclose // stop closes it
	if err != nil {
		t.Fatal(err)
	}
	f := &followed{body: bufio.NewScanner(res.Body), ids: map[int]string{}, stop: func() {
		cancel()
		_ = res.Body.Close() // fails, because the answer has not ended
	}}
	t.Cleanup(f.stop)
	if got := fmt.Sprint(res.StatusCode, " ", res.Header.Get("Content-Type")); got != "200 "+accept {
		t.Fatalf("answer to a follower = %s, want 200 %s", got, accept)
	}
	return f
}

// next returns the next line of the log.
func (f *followed) next(t *testing.T) logLine {
	t.Helper()
	id := ""
	for f.body.Scan() {
		text := f.body.Text()
		if value, ok := strings.CutPrefix(text, "id: "); ok {
			id = value
		}
		if text = strings.TrimPrefix(text, "data: "); !strings.HasPrefix(text, "{") {
			continue
		}
		l := decodeLogLine(t, text)
		f.ids[chatIn(l)] = id
		return l
	}
	t.Fatalf("the log ended too early: %v", f.body.Err())
	return logLine{}
}

// awaitChat reads up to the line about a chat.
func (f *followed) awaitChat(t *testing.T, messages int) {
	t.Helper()
	for chatIn(f.next(t)) != messages {
	}
}

// printSecret makes a running agent print a secret: it cannot reach its model provider, whose address has the secret.
// The agent's log shows it to the tenant.
func printSecret(t *testing.T, d deployment, id, value string) {
	t.Helper()
	d.putSecrets(t, id, `{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/`+value+`"}`)
	awaitNewest(t, d, id)
	api, _ := d.awaitStatus(t, id, "running").body["api_url"].(string)
	key := d.revealCredentials(t, id).key
	d.await(t, id, "printing a secret", func(answer) bool {
		d.askAgent(t, http.MethodGet, strings.TrimSuffix(api, "/")+"/models", key, "")
		log := d.call(t, d.Ready.APIKey, http.MethodGet, "/agents/"+id+"/logs", "")
		return strings.Contains(log.text, value)
	})
	followed := d.follow(t, "/agents/"+id+"/logs?follow=true", "text/event-stream", "")
	for !strings.Contains(followed.next(t).Message, value) {
	}
	followed.stop()
}
