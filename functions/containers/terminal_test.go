package containers_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

const org = "org_1"

// fixture is a running agent of an organization that may run commands.
type fixture struct {
	*backendtest.Backend
	agent agent.Agent
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Backend: backendtest.New(t)}
	f.agent = f.RunningAgent(t, org, nil)
	f.SetPlan(t, org, plan.Starter)
	return f
}

// call calls a route as an admin.
func (f *fixture) call(t *testing.T, name string, options ...functiontest.Option) functiontest.Response {
	t.Helper()
	return f.CallNamed(t, name, append([]functiontest.Option{
		functiontest.AsAdmin(org), functiontest.Path("agent_id", f.agent.ID),
	}, options...)...)
}

// entries returns the audit entries of an action, oldest first.
func (f *fixture) entries(t *testing.T, action string) []audit.Entry {
	t.Helper()
	ctx := call.As(t.Context(), identity.Caller{OrganizationID: org})
	found, err := f.Audit.List(ctx, audit.Filter{Action: action}, page.Request{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(found.Items)
	return found.Items
}

func facts(e audit.Entry) map[string]string {
	all := map[string]string{}
	for _, c := range e.Changes {
		all[c.Field] = c.New
	}
	return all
}

// serve serves a route, and returns the URL of its path for the agent.
func (f *fixture) serve(t *testing.T, name string) string {
	t.Helper()
	for _, r := range functions.Routes(f.Dependencies) {
		if r.Name == name {
			server := functiontest.Serve(t, function.Mux([]function.Served{r.Served(f.Guard)}))
			return server.URL + strings.ReplaceAll(r.Path, "{agent_id}", f.agent.ID)
		}
	}
	t.Fatalf("no route %s", name)
	return ""
}

// ask sends a request of an admin. broken is why the answer ended early.
func ask(t *testing.T, method, url string, body io.Reader) (status int, text []byte, broken error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+functiontest.AdminToken(org))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, broken = io.ReadAll(res.Body)
	return res.StatusCode, text, broken
}

// dial opens a terminal with a token in the subprotocols, as a browser does.
func dial(t *testing.T, url, token string, header http.Header) (*channel.Socket, *http.Response, error) {
	t.Helper()
	return dialWith(t, channel.Protocol, url, token, header)
}

func dialWith(t *testing.T, protocol, url, token string, header http.Header) (
	*channel.Socket, *http.Response, error,
) {
	t.Helper()
	encoded := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	conn, answer, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{
		HTTPHeader: header, Subprotocols: []string{encoded, channel.Protocol, protocol},
	})
	if err != nil {
		return nil, answer, err
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if got := answer.Header.Get("Sec-WebSocket-Protocol"); got != protocol {
		t.Errorf("the answer selects the subprotocol %q", got)
	}
	return channel.NewSocket(conn, 1<<20), answer, nil
}

// ending reads the rest of a terminal: its output, the status and the close.
func ending(t *testing.T, s *channel.Socket) (output string, status map[string]any, end websocket.CloseError) {
	t.Helper()
	for {
		f, err := s.Read(t.Context())
		if errors.As(err, &end) {
			return output, status, end
		}
		if err != nil {
			t.Fatal(err)
		}
		switch f.Channel {
		case channel.Status:
			if err := json.Unmarshal(f.Data, &status); err != nil {
				t.Fatal(err)
			}
		default:
			output += string(f.Data)
		}
	}
}

func send(t *testing.T, s *channel.Socket, c channel.Channel, data string) {
	t.Helper()
	if err := s.Write(t.Context(), channel.Frame{Channel: c, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

func TestTerminal_RelaysTheChannelsOfACommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Containers.Install("greet", func(_ context.Context, p *agentexectest.Process) int {
		fmt.Fprintf(p.Stdout, "%v %t %s ", p.Args[1:], p.Terminal, <-p.Sizes)
		_, _ = io.Copy(p.Stdout, p.Stdin)
		return 3
	})
	url := f.serve(t, "OpenAgentTerminal") + "?command=greet&command=CANARY&command=b"
	s, _, err := dial(t, url, functiontest.AdminToken(org), nil) //nolint:bodyclose // the library does
	if err != nil {
		t.Fatal(err)
	}
	send(t, s, channel.Resize, `{"Width":80,"Height":24}`)
	send(t, s, channel.Input, "CANARY input")
	send(t, s, channel.Close, string([]byte{byte(channel.Input)}))
	output, status, end := ending(t, s)
	if want := `[CANARY b] true {"Width":80,"Height":24} CANARY input`; output != want {
		t.Errorf("output %q, want %q", output, want)
	}
	if status["reason"] != "NonZeroExitCode" || end.Code != websocket.StatusNormalClosure {
		t.Errorf("the end is %v %v", status, end)
	}
	begun, ended := f.entries(t, "OpenAgentTerminal"), awaitEntry(t, f, "CloseAgentTerminal")
	if len(begun) != 1 || begun[0].Outcome != audit.Succeeded || facts(begun[0])["program"] != "greet" {
		t.Errorf("entries of the beginning: %+v", begun)
	}
	got := facts(ended)
	if got["program"] != "greet" || got["arguments"] != "2" || got["exit_code"] != "3" || got["input_bytes"] != "12" {
		t.Errorf("entry of the end: %+v", got)
	}
	for name, text := range f.Documents(t) {
		if strings.Contains(text, "CANARY") {
			t.Errorf("%s has an argument or the content of a terminal: %s", name, text)
		}
	}
}

// TestTerminal_WaitsForWhatItsClientHasShown opens a program that prints without reading, and counts how far it is
// ahead of a client that takes whatever arrives.
func TestTerminal_WaitsForWhatItsClientHasShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var printed atomic.Int64
	const all = 16 << 20
	f.Containers.Install("print", func(_ context.Context, p *agentexectest.Process) int {
		for printed.Load() < all {
			n, _ := p.Stdout.Write(make([]byte, channel.MaxFrame))
			printed.Add(int64(n))
		}
		return 0
	})
	url := f.serve(t, "OpenAgentTerminal") + "?command=print"
	token := functiontest.AdminToken(org)
	s, _, err := dialWith(t, channel.PacedProtocol, url, token, nil) //nolint:bodyclose // the library does
	if err != nil {
		t.Fatal(err)
	}
	got, shown := int64(0), int64(0)
	for {
		frame, err := s.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if frame.Channel == channel.Status {
			break
		}
		if got += int64(len(frame.Data)); got-shown < channel.Window {
			continue // it shows a whole window at a time, which is the most that the program may be ahead
		}
		if ahead := printed.Load() - shown; ahead > channel.Window+2*channel.MaxFrame {
			t.Fatalf("the program is %d bytes ahead, want a window of %d and two frames", ahead, channel.Window)
		}
		send(t, s, channel.Shown, strconv.FormatInt(got-shown, 10))
		shown = got
	}
	if got != all {
		t.Errorf("the client got %d bytes, want all %d", got, all)
	}
}

// awaitEntry waits for the only entry of an action. That of the end of a terminal is written after its close.
func awaitEntry(t *testing.T, f *fixture, action string) audit.Entry {
	t.Helper()
	for t.Context().Err() == nil {
		if all := f.entries(t, action); len(all) == 1 {
			return all[0]
		}
	}
	return audit.Entry{}
}

func TestTerminal_SaysThatTheImageHasNoShell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Containers.Remove("sh")
	for query, want := range map[string]string{"": "image_has_no_shell", "?command=vim": "program_not_found"} {
		url := f.serve(t, "OpenAgentTerminal") + query
		s, _, err := dial(t, url, functiontest.AdminToken(org), nil) //nolint:bodyclose // the library does
		if err != nil {
			t.Fatal(err)
		}
		_, status, end := ending(t, s)
		if status["reason"] != want || !strings.HasPrefix(end.Reason, want+": ") {
			t.Errorf("%q: status %v, close %v, want %s", query, status, end, want)
		}
	}
}

func TestTerminal_IsRefusedBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	url := f.serve(t, "OpenAgentTerminal")
	if err := f.Organizations.Choose(t.Context(), org, setExec(organization.ExecAdmins)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		token  string
		header http.Header
		status int
		code   string
	}{
		"a member":       {token: functiontest.MemberToken(org), status: 403, code: "role_required"},
		"garbage":        {token: "garbage", status: 401, code: "invalid_token"},
		"another agents": {token: functiontest.AdminToken("org_2"), status: 403, code: "plan_feature_required"},
		"a page of another origin": {
			token: functiontest.AdminToken(org), header: http.Header{"Origin": {"https://evil.example"}},
			status: 403, code: "origin_refused",
		},
	} {
		_, answer, err := dial(t, url, c.token, c.header) //nolint:bodyclose // the library does
		if err == nil || answer == nil || answer.StatusCode != c.status {
			t.Errorf("%s: answer %v, %v, want %d", name, answer, err, c.status)
			continue
		}
		var problem struct{ Code string }
		_ = json.NewDecoder(answer.Body).Decode(&problem)
		if problem.Code != c.code {
			t.Errorf("%s: code %q, want %q", name, problem.Code, c.code)
		}
	}
	f.call(t, "OpenAgentTerminal").Want(t, 400, "websocket_required")
	if err := f.Organizations.Choose(t.Context(), org, setExec(organization.ExecOff)); err != nil {
		t.Fatal(err)
	}
	f.call(t, "OpenAgentTerminal").Want(t, 409, "exec_off")
	f.call(t, "ExecInAgent", functiontest.Body(map[string]any{"command": []string{"ls"}})).Want(t, 409, "exec_off")
}

func setExec(e organization.Exec) func(*organization.Choices) error {
	return func(c *organization.Choices) error { c.Exec = e; return nil }
}
