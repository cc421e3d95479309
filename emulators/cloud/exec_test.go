package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/agentexec/channel"
	"agents.example/controlplane/shared/client"
)

// testExec runs commands in an agent's container, through every way in.
func testExec(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "runs commands", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	path := "/api/v1/agents/" + id + "/exec"
	got := d.must(t, http.StatusOK, http.MethodPost, path,
		`{"command": ["sh", "-c", "cat; echo oops >&2; exit 3"], "stdin": "hello"}`)
	checkEqual(t, "exit code", got.body["exit_code"], 3.0)
	checkEqual(t, "stdout", got.body["stdout"], "hello")
	checkEqual(t, "stderr", got.body["stderr"], "oops\n")
	body := `{"command": ["ls"]}`
	checkEqual(t, "status for a member", d.call(t, d.Ready.MemberToken, http.MethodPost, path, body).status, 403)
	checkEqual(t, "code on a plan without it",
		d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodPost, path, body).body["code"], "plan_feature_required")
	got = d.must(t, http.StatusConflict, http.MethodPost, path, `{"command": ["no-such-program"]}`)
	checkEqual(t, "code without a program", got.body["code"], "program_not_found")
	got = d.must(t, http.StatusOK, http.MethodPost, path, `{"command": ["sleep", "60"], "timeout_seconds": 1}`)
	checkEqual(t, "exit code of a command that takes too long", got.body["exit_code"], nil)
	first := execEntries(t, d, id)[0]
	checkEqual(t, "outcome in the audit log", first.Outcome, "succeeded")
	facts := map[string]string{}
	for _, c := range first.Changes {
		facts[c.Field] = *c.New
	}
	checkEqual(t, "program, arguments, exit code and sizes", facts["program"]+" "+facts["arguments"]+" "+
		facts["exit_code"]+" "+facts["input_bytes"]+" "+facts["output_bytes"], "sh 2 3 5 10")
	if text := fmt.Sprint(facts); strings.Contains(text, "oops") || strings.Contains(text, "hello") {
		t.Errorf("the audit log has the content of a command: %s", text)
	}
}

// execEntries reads the audit entries of an agent's commands, without those of refused callers.
func execEntries(t *testing.T, d deployment, id string) []auditEntry {
	t.Helper()
	return slices.DeleteFunc(d.auditEntries(t, id), func(e auditEntry) bool {
		return e.Action != "ExecInAgent" || e.Outcome == "role_required"
	})
}

// testRevokedTerminal revokes the key of an open terminal.
func testRevokedTerminal(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "loses its terminal", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	key := d.must(t, http.StatusCreated, http.MethodPost, "/api/v1/api-keys", `{"name": "terminal"}`)
	s := d.openTerminal(t, id, fmt.Sprint(key.body["secret"]))
	s.send(t, channel.Input, "echo $((6*7))\n")
	s.await(t, "\n42")
	d.must(t, http.StatusNoContent, http.MethodDelete, fmt.Sprintf("/api/v1/api-keys/%v", key.body["id"]), "")
	checkEqual(t, "reason of the end", s.end(t)["reason"], "invalid_token")
}

// testNoShell runs the own program of an image without a shell, and asks for what it does not have.
func testNoShell(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "has no shell", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	path := "/api/v1/agents/" + id
	got := d.must(t, http.StatusOK, http.MethodPost, path+"/exec", `{"command": ["/probe", "kernel"]}`)
	if text, _ := got.body["stdout"].(string); len(text) < 4 {
		t.Errorf("the image's own program answers %s", got.text)
	}
	got = d.must(t, http.StatusConflict, http.MethodPost, path+"/exec", `{"command": ["sh"]}`)
	checkEqual(t, "code of a command", got.body["code"], "program_not_found")
	got = d.must(t, http.StatusConflict, http.MethodGet, path+"/files?path=/data", "")
	checkEqual(t, "code of files", got.body["code"], "image_lacks_program")
	checkEqual(t, "reason of a terminal", d.openTerminal(t, id, d.Ready.APIKey).end(t)["reason"], "image_has_no_shell")
}

// testTerminal types commands into a terminal, until the agent stops.
func testTerminal(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "has a terminal", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	s := d.openTerminal(t, id, d.Ready.APIKey)
	s.send(t, channel.Resize, `{"Width":101,"Height":31}`)
	end := time.Now().Add(patience)
	for i := 1000; !strings.Contains(s.shown, "31 101\r\n"); i++ { // a size may arrive after the input that follows it
		if time.Now().After(end) {
			t.Fatalf("the terminal has another size: %q", s.shown)
		}
		s.send(t, channel.Input, fmt.Sprintf("stty size; echo $((%d+0))\n", i))
		s.await(t, fmt.Sprintf("\n%d\r\n", i))
	}
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	status := s.end(t)
	if status["status"] != "Failure" {
		t.Errorf("the terminal of a stopped agent ended with %v", status)
	}
}

// terminal is an open terminal.
type terminal struct {
	*channel.Socket
	shown string
}

func (d deployment) openTerminal(t *testing.T, id, token string) *terminal {
	t.Helper()
	url := d.Ready.BaseURL + "/api/v1/agents/" + id + "/terminal"
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{ //nolint:bodyclose // the library closes it
		Subprotocols: []string{channel.Protocol},
		HTTPHeader:   http.Header{"Authorization": {"Bearer " + token}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &terminal{Socket: channel.NewSocket(conn, 1<<20)}
}

func (s *terminal) send(t *testing.T, c channel.Channel, data string) {
	t.Helper()
	if err := s.Write(t.Context(), channel.Frame{Channel: c, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

// await reads until the terminal has shown a text.
func (s *terminal) await(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for !strings.Contains(s.shown, text) {
		f, err := s.Read(ctx)
		if err != nil {
			t.Fatalf("%v after %q", err, s.shown)
		}
		s.shown += string(f.Data)
	}
}

// end reads until the terminal ends, and returns its status.
func (s *terminal) end(t *testing.T) (status map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		f, err := s.Read(ctx)
		if err != nil {
			return status
		}
		if f.Channel == channel.Status {
			if err := json.Unmarshal(f.Data, &status); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// testFiles copies bytes of every value into a container and out again.
func testFiles(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "has files", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	c, err := client.New(d.Ready.BaseURL, client.StaticToken(d.Ready.APIKey), client.WithHTTPClient(d.client))
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 300<<10)
	for i := range content {
		content[i] = byte(i * i)
	}
	if err := c.PutAgentFile(t.Context(), id, "/data/some/dir/all bytes", content); err != nil {
		t.Fatal(err)
	}
	get := func(path string) func() (io.ReadCloser, error) {
		return func() (io.ReadCloser, error) { return c.GetAgentFile(t.Context(), id, path) }
	}
	got := readFile(t, get("/data/some/dir/all bytes"))
	checkEqual(t, "the file is the same", bytes.Equal(got, content), true)
	archive := readFile(t, func() (io.ReadCloser, error) {
		return c.GetAgentDirectory(t.Context(), id, "/data/some")
	})
	if err := c.PutAgentDirectory(t.Context(), id, "/data/copy", archive); err != nil {
		t.Fatal(err)
	}
	got = readFile(t, get("/data/copy/dir/all bytes"))
	checkEqual(t, "the copy is the same", bytes.Equal(got, content), true)
	path := "/api/v1/agents/" + id + "/files?path="
	for query, want := range map[string]string{
		"/data/none": "file_not_found", "/data/some": "is_a_directory", "data": "validation_error",
		"/data/../etc": "validation_error",
	} {
		checkEqual(t, "code for "+query, d.call(t, d.Ready.APIKey, http.MethodGet, path+query, "").body["code"], want)
	}
	elsewhere := d.call(t, d.Ready.APIKey, http.MethodDelete, path+"/etc/x", "")
	checkEqual(t, "status of a change elsewhere", elsewhere.status, http.StatusUnprocessableEntity)
	d.must(t, http.StatusNoContent, http.MethodDelete, path+"/data/some", "")
	checkEqual(t, "code of a deleted file",
		d.call(t, d.Ready.APIKey, http.MethodGet, path+"/data/some", "").body["code"], "file_not_found")
}

// testCopies copies a directory with the command line tool, which streams it over a terminal's WebSocket, and runs
// commands with it.
func testCopies(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "is copied", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	content := bytes.Repeat([]byte("\x00\xff0123456789"), 500_000) // 6 MB are many frames
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.MkdirAll(filepath.Join(from, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "sub", "file"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	const none = "no such value"
	d.agentctl(t, "", none, "agents", "cp", from, id+":/data/copied")
	d.agentctl(t, "", none, "agents", "cp", id+":/data/copied", to)
	got, err := os.ReadFile(filepath.Join(to, "sub", "file"))
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the copy of the copy is the same", bytes.Equal(got, content), true)
	checkEqual(t, "output of a command", d.agentctl(t, "hello", none, "agents", "exec", id, "-i", "--", "cat"), "hello")
	checkEqual(t, "output of a terminal that is none",
		d.agentctl(t, "hello", none, "agents", "terminal", id, "--", "cat"), "hello")
}

func readFile(t *testing.T, open func() (io.ReadCloser, error)) []byte {
	t.Helper()
	file, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
