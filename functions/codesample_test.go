package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/function"
)

// codeSamples returns the samples of the description with a label by their operations.
func codeSamples(t *testing.T, label string) map[string]string {
	t.Helper()
	var document struct {
		Paths map[string]map[string]struct {
			ID      string `json:"operationId"`
			Samples []struct{ Label, Source string }
		} `json:"paths"`
	}
	text := strings.ReplaceAll(readDocument(t, "functions/openapi.json"), `"x-codeSamples"`, `"samples"`)
	must(t, json.Unmarshal([]byte(text), &document))
	found := map[string]string{}
	for _, methods := range document.Paths {
		for _, o := range methods {
			for _, s := range o.Samples {
				if s.Label == label {
					found[o.ID] = s.Source
				}
			}
		}
	}
	return found
}

// TestCodeSamples_OfCurlSucceed runs the command lines in the description. The curl in this process sends to the
// handlers of the routes.
func TestCodeSamples_OfCurlSucceed(t *testing.T) {
	t.Parallel()
	lines := codeSamples(t, "curl")
	for _, r := range functions.Routes(functions.Dependencies{}) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			s := newSamplesFor(t, r.Name)
			res := runCurl(t, s, lines[r.Name])
			if res.Status != answeredStatus(r) {
				t.Errorf("%s\nanswers %d %s, want %d", lines[r.Name], res.Status, res.Body, r.Status)
			}
		})
	}
}

// TestReadmes_CallsSucceed runs the calls of the API in the documents.
func TestReadmes_CallsSucceed(t *testing.T) {
	t.Parallel()
	calls := 0
	for _, name := range readmes() {
		for _, command := range shownCommands(readDocument(t, name)) {
			if !strings.HasPrefix(command, "curl ") || !strings.Contains(command, "$AGENTS_API_KEY") {
				continue
			}
			calls++
			if res := runCurl(t, newSamples(t), command); res.Status >= 300 {
				t.Errorf("%s shows %s\nwhich answers %d %s", name, command, res.Status, res.Body)
			}
		}
	}
	if calls == 0 {
		t.Error("no document shows a call of the API")
	}
}

// runCurl runs a command line of curl and returns what the server answered.
func runCurl(t *testing.T, s *samples, line string) functiontest.Response {
	t.Helper()
	script, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Fatalf("%s\nis no shell command: %v", line, err)
	}
	variables := []string{"AGENTS_BASE_URL=http://api.test", "AGENTS_API_KEY=" + functiontest.AdminToken(org)}
	for name, value := range s.path {
		variables = append(variables, strings.ToUpper(name)+"="+value)
	}
	var answers []functiontest.Response
	send := func(_ context.Context, args []string) error {
		res, err := s.curl(t, args)
		answers = append(answers, res)
		return err
	}
	shell, err := interp.New(interp.Env(expand.ListEnviron(variables...)), interp.Params("-eu"),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return send }))
	must(t, err)
	if err := shell.Run(t.Context(), script); err != nil {
		t.Fatalf("%s\nfails: %v", line, err)
	}
	if len(answers) != 1 {
		t.Fatalf("%s\nruns %d commands, want one", line, len(answers))
	}
	return answers[0]
}

// curl sends the request of a command line, a body as a form unless a header says otherwise. It knows the options that
// samples use.
func (s *samples) curl(t *testing.T, args []string) (functiontest.Response, error) {
	t.Helper()
	if args[0] != "curl" {
		return functiontest.Response{}, fmt.Errorf("%s is not curl", args[0])
	}
	method, path := "GET", ""
	var options []functiontest.Option
	for i := 1; i < len(args); i++ {
		option := args[i]
		if !strings.HasPrefix(option, "-") {
			path, _ = strings.CutPrefix(option, "http://api.test")
			continue
		}
		i++
		switch option {
		case "-X":
			method = args[i]
		case "-H":
			name, value, _ := strings.Cut(args[i], ": ")
			options = append(options, functiontest.Header(name, value))
		case "-d", "--data-binary":
			if method == "GET" {
				method = "POST"
			}
			form := functiontest.Header("Content-Type", "application/x-www-form-urlencoded")
			options = append([]functiontest.Option{functiontest.RawBody(args[i]), form}, options...)
		default:
			return functiontest.Response{}, fmt.Errorf("curl has the option %s, which this test does not know", option)
		}
	}
	var served []function.Served
	for _, r := range functions.Routes(s.Dependencies) {
		served = append(served, r.Served(s.Guard))
	}
	return functiontest.Send(t, function.Mux(served), method, path, options...), nil
}
