package functions_test

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/generate/codesample"
	"agents.example/controlplane/shared/testtier"
)

// pythonProgram runs code with a client, as variable api, for each line of its input. It answers with what failed.
const pythonProgram = `
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
from agents_client import Client
for line in sys.stdin:
    job, error = json.loads(line), ""
    try:
        with Client(job["url"], job["token"], attempts=1) as api, contextlib.redirect_stdout(io.StringIO()):
            exec(job["code"], {"api": api, "Client": Client, **job["names"]})
    except Exception as e:
        error = f"{type(e).__name__}: {e}"
    print(json.dumps(error), flush=True)
`

// python runs Python code with the Python client, in one process for all of a test.
type python struct {
	in  *json.Encoder
	out *json.Decoder
}

func startPython(t *testing.T) *python {
	t.Helper()
	source, err := filepath.Abs("../shared/client/python/src")
	must(t, err)
	cmd := exec.CommandContext(t.Context(), testtier.RequirePython(t), "-B", "-c", pythonProgram, source)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
			t.Errorf("python: %v", err)
		}
	})
	return &python{json.NewEncoder(in), json.NewDecoder(bufio.NewReader(out))}
}

// run runs code, and returns the error that it raised; empty if it raised none.
func (p *python) run(t *testing.T, url, token, code string, names map[string]any) string {
	t.Helper()
	job := map[string]any{"url": url, "token": token, "code": code, "names": names}
	var failure string
	must(t, p.in.Encode(job))
	must(t, p.out.Decode(&failure))
	return failure
}

// pythonCall calls the method of an operation with all that it takes.
const pythonCall = `
result = getattr(api, method)(*ids, **parameters)
if hasattr(result, "__iter__") and not isinstance(result, (list, bytes)):
    list(result)
`

// TestPythonClient_SendsWhatTheDescriptionSays calls each method with all parameters, and validates the request.
func TestPythonClient_SendsWhatTheDescriptionSays(t *testing.T) {
	t.Parallel()
	operations, router := clientOperations(t)
	p := startPython(t)
	for _, id := range slices.Sorted(maps.Keys(operations)) {
		o := operations[id]
		t.Run(id, func(t *testing.T) {
			server, checked := o.serve(t, router)
			names := map[string]any{
				"method": codesample.Snake(id), "ids": o.ids(pathSamples()), "parameters": o.pythonParameters(t),
			}
			failure := p.run(t, server.URL, "token", pythonCall, names)
			if *checked != 1 || !strings.HasPrefix(failure, "APIError: ") || !strings.Contains(failure, "403") {
				t.Errorf("%d requests and %q, want one request and 403", *checked, failure)
			}
		})
	}
}

// pythonParameters returns the keyword parameters of the method of an operation: the example of its body and all query
// parameters.
func (o clientOperation) pythonParameters(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	if body := o.example(t); body != nil {
		must(t, json.Unmarshal(body, &all))
	}
	for _, q := range o.queryParameters() {
		schema, name := q.Schema.Value, q.Name
		if name == "from" {
			name = "from_"
		}
		switch {
		case schema.Type.Is("integer"):
			all[name] = 2
		case schema.Type.Is("boolean"):
			all[name] = true
		case schema.Format == "date-time":
			all[name] = "2026-01-02T03:04:05Z"
		case len(schema.Enum) > 0:
			all[name] = schema.Enum[0]
		default:
			all[name] = sampleText(name)
		}
	}
	return all
}

// TestPythonClient_ChecksCertificates also holds that a client can trust another authority.
func TestPythonClient_ChecksCertificates(t *testing.T) {
	t.Parallel()
	requests := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		_, _ = io.WriteString(w, `{"status": "ok"}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the client refuses the certificate
	server.StartTLS()
	t.Cleanup(server.Close)
	p := startPython(t)
	const code = `
import ssl
context = ssl.create_default_context(cadata=authority) if authority else None
assert Client(url, "token", ssl_context=context).get_health().status == "ok"
`
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	names := map[string]any{"url": server.URL, "authority": ""}
	if failure := p.run(t, server.URL, "token", code, names); !strings.Contains(failure, "certificate verify failed") {
		t.Errorf("got %q, want an error about the certificate", failure)
	}
	if requests > 0 {
		t.Errorf("a server that did not prove who it is got %d requests", requests)
	}
	names["authority"] = string(authority)
	if failure := p.run(t, server.URL, "token", code, names); failure != "" || requests != 1 {
		t.Errorf("%d requests and %q, want one and no error", requests, failure)
	}
}

// TestCodeSamples_OfPythonSucceed runs the code in the description against the handlers of the routes.
func TestCodeSamples_OfPythonSucceed(t *testing.T) {
	t.Parallel()
	operations, _ := clientOperations(t)
	p, code := startPython(t), codeSamples(t, "Python")
	for _, id := range slices.Sorted(maps.Keys(operations)) {
		t.Run(id, func(t *testing.T) {
			s := newSamplesFor(t, id)
			server, reached := s.serve(t)
			names := map[string]any{}
			for name, value := range s.path {
				names[name] = value
			}
			if failure := p.run(t, server.URL, functiontest.AdminToken(org), code[id], names); failure != "" {
				t.Errorf("%s\nfails: %s", code[id], failure)
			}
			if got := reached(); !slices.Equal(got, []string{id}) {
				t.Errorf("%s\nreached %q, want this route", code[id], got)
			}
		})
	}
}
