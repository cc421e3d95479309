package agentctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// maxRequest is how large a body of a request can be. The API takes less.
const maxRequest = 1 << 20

// rawCall has the flags of a raw call.
type rawCall struct {
	data    string
	headers []string
	include bool
}

func (t *tool) apiCommand() *cobra.Command {
	var r rawCall
	c := &cobra.Command{
		Use: "api METHOD PATH", Short: "Send a request to the API", Args: cobra.ExactArgs(2),
		Long: "Send a request to the API with your token, and print the answer. A request that fails in a way that " +
			"passes is repeated; an idempotency key makes that safe. The body comes from a file or from standard " +
			"input, because other users of the machine and the shell's history can see arguments. JSON is indented " +
			"on a terminal.",
		Example: "  agentctl api GET '/api/v1/agents?limit=5'\n" +
			"  agentctl api PATCH /api/v1/agents/0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90 --data @change.json\n" +
			"  echo '{\"name\": \"ci\"}' | agentctl api POST /api/v1/api-keys --data - -o jsonpath='{.secret}'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPath(args[1]); err != nil {
				return err
			}
			body, err := t.requestBody(r.data)
			if err != nil {
				return err
			}
			var header http.Header
			options, err := headerOptions(r.headers)
			if err != nil {
				return err
			}
			api, err := t.client()
			if err != nil {
				return err
			}
			res, err := api.Do(cmd.Context(), strings.ToUpper(args[0]), args[1], body,
				append(options, client.ResponseHeader(&header))...)
			if err != nil {
				return err
			}
			defer res.Body.Close() //nolint:errcheck // the answer was read
			if r.include {
				t.printHeader(res)
			}
			return t.printBody(res)
		},
	}
	c.Flags().StringVarP(&r.data, "data", "d", "", "send this body: `@FILE`, or - for standard input")
	c.Flags().StringArrayVarP(&r.headers, "header", "H", nil, "send this header, as in 'If-Match: \"3\"'")
	c.Flags().BoolVarP(&r.include, "include", "i", false, "print the status and the headers of the answer, too")
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) (
		[]cobra.Completion, cobra.ShellCompDirective,
	) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return []cobra.Completion{"GET", "POST", "PUT", "PATCH", "DELETE"}, cobra.ShellCompDirectiveNoFileComp
	}
	return c
}

// requestBody returns the body that --data names; nil for none.
func (t *tool) requestBody(data string) ([]byte, error) {
	var text string
	var err error
	switch {
	case data == "":
		return nil, nil
	case data == "-" || data == "@-":
		text, err = readAll(t.stdin, maxRequest)
	case strings.HasPrefix(data, "@"):
		text, err = readFile(data[1:], maxRequest)
	default:
		return nil, usagef("a body must not be an argument, because other users of this machine can see it: use " +
			"--data @FILE, or --data - for standard input")
	}
	if err == nil && len(text) > maxRequest {
		err = invalidf("the body is larger than %s", bytesText(maxRequest))
	}
	return []byte(text), err
}

// checkPath refuses what is no path of the API.
func checkPath(path string) error {
	u, err := url.Parse(path)
	if err != nil || u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.Fragment != "" {
		return usagef("the path must begin with one slash and have no fragment, as in /api/v1/agents?limit=10")
	}
	if parts := strings.Split(u.Path, "/"); slices.Contains(parts, ".") || slices.Contains(parts, "..") {
		return usagef("the path must not have . or .. between slashes")
	}
	return nil
}

// headerOptions reads headers in the form of HTTP.
func headerOptions(headers []string) ([]client.CallOption, error) {
	var options []client.CallOption
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		name = strings.TrimSpace(name)
		switch {
		case !ok || name == "":
			return nil, usagef("a header must look like 'Name: value'")
		case strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }):
			return nil, usagef("the value of a header must not have line breaks or other control characters")
		case http.CanonicalHeaderKey(name) == "Authorization":
			return nil, usagef("the header Authorization comes from the profile or AGENTS_API_KEY, not from an " +
				"argument")
		}
		options = append(options, client.RequestHeader(name, strings.TrimSpace(value)))
	}
	return options, nil
}

func (t *tool) printHeader(res *http.Response) {
	w := t.stdout()
	fmt.Fprintln(w, res.Proto, res.Status)
	names := make([]string, 0, len(res.Header))
	for name := range res.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range res.Header[name] {
			fmt.Fprintf(w, "%s: %s\n", name, harmless(value))
		}
	}
	fmt.Fprintln(w)
}

// printBody prints an answer as it arrives, or JSON in the format that the user chose.
func (t *tool) printBody(res *http.Response) error {
	isJSON := strings.HasPrefix(res.Header.Get("Content-Type"), "application/json")
	if t.output.kind == formatTable && (!isJSON || !t.app.Terminal.Out) {
		return t.copyBody(res.Body)
	}
	var value any
	d := json.NewDecoder(res.Body)
	d.UseNumber()
	if err := d.Decode(&value); errors.Is(err, io.EOF) {
		return nil // no body
	} else if err != nil {
		return fmt.Errorf("the answer is not JSON, so -o %s cannot show it: %w", t.output.kind, err)
	}
	return t.show(result{value: value, names: idsOf(value), table: func(io.Writer) error {
		return t.printJSON(value, "  ")
	}})
}

// copyBody prints an answer as it arrives.
func (t *tool) copyBody(body io.Reader) error {
	if !t.app.Terminal.Out {
		_, err := io.Copy(t.app.Stdout, body)
		return err
	}
	w := &harmlessWriter{Writer: t.app.Stdout}
	_, err := io.Copy(w, body)
	return errors.Join(err, w.end())
}

// idsOf returns the ids in an object or a list.
func idsOf(value any) []string {
	items, isList := value.([]any)
	if !isList {
		items = []any{value}
	}
	var ids []string
	for _, item := range items {
		object, _ := item.(map[string]any)
		if id, ok := object["id"].(string); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
