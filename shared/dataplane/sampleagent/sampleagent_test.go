package sampleagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"agents.example/controlplane/shared/dataplane/sampleagent"
	"agents.example/controlplane/shared/nettest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

// start serves an agent on TCP.
func start(t *testing.T, change func(*sampleagent.Options)) *httptest.Server {
	t.Helper()
	o := sampleagent.Options{DataDir: t.TempDir(), Variables: []string{"LANG", "API_URL"}}
	if change != nil {
		change(&o)
	}
	a, err := sampleagent.New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a)
	t.Cleanup(func() { s.Close(); a.Close() })
	return s
}

// answer is an answer without its body.
type answer struct {
	StatusCode int
	Header     http.Header
}

// do makes a request and returns the answer and its body.
func do(t *testing.T, s *httptest.Server, method, path, body string, prepare ...func(*http.Request)) (
	answer, string,
) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(path, "/v1") {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, p := range prepare {
		p(req)
	}
	client := *s.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header}, string(b)
}

func form(name, value string) string { return url.Values{name: {value}}.Encode() }

func TestDashboard_KeepsNotesAcrossRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inDir := func(o *sampleagent.Options) { o.DataDir = dir }
	s := start(t, inDir)
	asAdmin := func(r *http.Request) { r.Header.Set("X-Forwarded-User", "admin") }
	for _, text := range []string{"first note", `<script>alert("x")</script>`} {
		res, _ := do(t, s, http.MethodPost, "/notes", form("text", text), asAdmin)
		if res.StatusCode != http.StatusSeeOther {
			t.Fatalf("status %d, want 303", res.StatusCode)
		}
	}
	_, page := do(t, start(t, inDir), http.MethodGet, "/", "", asAdmin)
	for _, want := range []string{"first note", "&lt;script&gt;alert(", "admin ·", "LANG", "API_URL"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("the page has a script")
	}
	for _, path := range regexp.MustCompile(`/notes/\w+/delete`).FindAllString(page, -1) {
		for range 2 { // a repeat changes nothing
			res, _ := do(t, s, http.MethodPost, path, "")
			if res.StatusCode != http.StatusSeeOther {
				t.Errorf("%s: status %d, want 303", path, res.StatusCode)
			}
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "notes")); err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v; want none", left, err)
	}
}

func TestDashboard_RefusesNotesThatItCannotKeep(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"empty":     {form("text", "  "), http.StatusUnprocessableEntity},
		"long":      {form("text", strings.Repeat("x", 5000)), http.StatusUnprocessableEntity},
		"not UTF-8": {form("text", "\xff"), http.StatusUnprocessableEntity},
		"huge":      {form("text", strings.Repeat("x", 100_000)), http.StatusRequestEntityTooLarge},
	} {
		res, _ := do(t, s, http.MethodPost, "/notes", c.body)
		if res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", name, res.StatusCode, c.want)
		}
	}
	res, _ := do(t, s, http.MethodPost, "/notes/..%2F..%2Fsecret/delete", "")
	if res.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a path as ID: status %d, want 422", res.StatusCode)
	}
	full := start(t, func(o *sampleagent.Options) { o.DataDir = filepath.Join(os.DevNull, "x") })
	res, page := do(t, full, http.MethodPost, "/notes", form("text", "my draft"))
	if res.StatusCode != http.StatusInternalServerError || !strings.Contains(page, "my draft") {
		t.Errorf("without a volume: status %d, and the draft is lost: %t", res.StatusCode,
			!strings.Contains(page, "my draft"))
	}
}

func TestDashboard_RefusesFormsOfOtherSites(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for _, path := range []string{"/notes", "/notes/x/delete", "/chat"} {
		res, _ := do(t, s, http.MethodPost, path, form("text", "x"), func(r *http.Request) {
			r.Header.Set("Origin", "https://evil.test")
		})
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("%s: status %d, want 403", path, res.StatusCode)
		}
	}
	res, _ := do(t, s, http.MethodGet, "/", "")
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("Content-Security-Policy = %q", policy)
	}
}

func TestChat_AnswersOnTheDashboard(t *testing.T) {
	t.Parallel()
	_, page := do(t, start(t, nil), http.MethodPost, "/chat", form("message", "hello <b>"))
	if !strings.Contains(page, "You said: hello &lt;b&gt;") {
		t.Error("the page has no escaped answer")
	}
}

const completions = "/v1/chat/completions"

func TestCompletions_EchoInOpenAIsFormat(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for name, c := range map[string]struct{ body, content, finish string }{
		"text": {body: `{"messages":[{"role":"user","content":"a b"}]}`, content: "You said: a b", finish: "stop"},
		"parts": {
			body: `{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]}`, content: "You said: a",
			finish: "stop",
		},
		"short": {
			body: `{"messages":[{"role":"user","content":"a b"}],"max_tokens":3}`, content: "You said: a",
			finish: "length",
		},
	} {
		res, body := do(t, s, http.MethodPost, completions, c.body)
		var got struct {
			Object  string
			Choices []struct {
				Message      struct{ Role, Content string }
				FinishReason string `json:"finish_reason"`
			}
			Usage struct {
				Total int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || res.StatusCode != http.StatusOK ||
			got.Object != "chat.completion" || len(got.Choices) != 1 || got.Usage.Total == 0 {
			t.Fatalf("%s: %s, %v", name, body, err)
		}
		if m := got.Choices[0]; m.Message.Content != c.content || m.Message.Role != "assistant" ||
			m.FinishReason != c.finish {
			t.Errorf("%s: %+v, want %q and %s", name, m, c.content, c.finish)
		}
	}
}

func TestCompletions_StreamWordByWord(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	_, body := do(t, s, http.MethodPost, completions,
		`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"a b"}]}`)
	var said []string
	usage, done := 0, false
	for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		if !found {
			continue
		}
		if done = data == "[DONE]"; done {
			break
		}
		var chunk struct {
			Choices []struct{ Delta struct{ Content string } }
			Usage   struct {
				Total int `json:"total_tokens"`
			}
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatal(err)
		}
		usage += chunk.Usage.Total
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			said = append(said, chunk.Choices[0].Delta.Content)
		}
	}
	if got := strings.Join(said, "|"); got != "You| said:| a| b" || usage != 6 || !done {
		t.Errorf("chunks %s, usage %d, done %t", got, usage, done)
	}
}

func TestCompletions_RefuseWhatIsNoChat(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	for body, want := range map[string]int{
		"": 400, "x": 400, "{}": 400, `{"messages":[]}`: 400, `{"messages":[{"content":1}]}`: 400,
		`{"messages":"` + strings.Repeat("x", 9<<20) + `"}`: 413,
	} {
		res, answer := do(t, s, http.MethodPost, completions, body)
		var got struct {
			Error struct{ Message, Type string }
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || res.StatusCode != want ||
			got.Error.Message == "" || got.Error.Type != "invalid_request_error" {
			t.Errorf("%.30q: status %d: %s; want %d and an error", body, res.StatusCode, answer, want)
		}
	}
}

// TestProvider_GetsChatsWithTheKey checks what the provider receives and how its answers pass.
func TestProvider_GetsChatsWithTheKey(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got struct {
			Model  string
			Stream bool
			Extra  int
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer canary":
			http.Error(w, "your key is canary", http.StatusUnauthorized)
		case got.Model == "limited":
			w.Header().Set("Retry-After", "7")
			http.Error(w, `{"error":{"message":"slow down"}}`, http.StatusTooManyRequests)
		case got.Stream:
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: %d\n", i)
				_ = http.NewResponseController(w).Flush()
				<-next
			}
		default:
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"%s %s %d"}}]}`, r.URL.Path, got.Model, got.Extra)
		}
	}))
	t.Cleanup(provider.Close)
	with := func(key string) *httptest.Server {
		return start(t, func(o *sampleagent.Options) {
			o.OpenAIURL, o.OpenAIKey, o.Model = provider.URL+"/base/", key, "standard"
		})
	}
	s := with("canary")
	if _, body := do(t, s, http.MethodPost, completions, `{"extra":7,"messages":[{"role":"user"}]}`); body !=
		`{"choices":[{"message":{"content":"/base/chat/completions standard 7"}}]}` {
		t.Errorf("answer %s", body)
	}
	res, body := do(t, s, http.MethodPost, completions, `{"model":"limited","messages":[{"role":"user"}]}`)
	if res.StatusCode != http.StatusTooManyRequests || res.Header.Get("Retry-After") != "7" ||
		!strings.Contains(body, "slow down") {
		t.Errorf("the provider's limit: status %d: %s", res.StatusCode, body)
	}
	if _, page := do(t, s, http.MethodPost, "/chat", form("message", "hi")); !strings.Contains(page, "standard 0") {
		t.Error("the dashboard shows no answer of the provider")
	}
	res, body = do(t, with("wrong"), http.MethodPost, completions, `{"messages":[{"role":"user"}]}`)
	if res.StatusCode != http.StatusBadGateway || strings.Contains(body, "canary") ||
		!strings.Contains(body, "OPENAI_API_KEY") {
		t.Errorf("a refused key: status %d: %s; want 502 that names the variable only", res.StatusCode, body)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+completions,
		strings.NewReader(`{"stream":true,"messages":[{"role":"user"}]}`))
	streamed, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer streamed.Body.Close() //nolint:errcheck // read only
	lines := bufio.NewScanner(streamed.Body)
	for i := range 3 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
		}
		next <- struct{}{}
	}
}

func TestServe_CutsStreamsImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, err := sampleagent.New(sampleagent.Options{DataDir: t.TempDir(), EchoPause: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		l := nettest.Listen()
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- a.Serve(ctx, l) }()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return l.Dial(ctx)
		}}
		defer transport.CloseIdleConnections()
		res, err := (&http.Client{Transport: transport}).Post("http://agent.test"+completions, "application/json",
			strings.NewReader(`{"stream":true,"messages":[{"role":"user","content":"a b"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()           //nolint:errcheck // read only
		go io.Copy(io.Discard, res.Body) //nolint:errcheck // connections in memory have no buffer
		began := time.Now()
		cancel()
		// Shutdown looks for idle connections a few times a second.
		if err := <-served; err != nil || time.Since(began) >= time.Second {
			t.Errorf("Serve: %v after %v, want nil within a second", err, time.Since(began))
		}
	})
}
