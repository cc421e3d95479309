//go:build unix

package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

const (
	// patience bounds the wait for what takes a second on an idle machine.
	patience = 3 * time.Minute
	// pollInterval is the time between two checks of a condition.
	pollInterval = 50 * time.Millisecond
)

// client sends requests as one user. It shows everything of an answer, which clients of client-go hide in part.
type client struct {
	config *rest.Config
	http   *http.Client
}

func newClient(t *testing.T, config *rest.Config) *client {
	t.Helper()
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &client{config: config, http: transport}
}

// call is a request.
type call struct {
	// verb is a method of HTTP, or JSON, MERGE, STRATEGIC or APPLY, which are patches of these types.
	verb string
	// path is that of a resource in the namespace of the case, such as configmaps/a or apps/statefulsets/a/scale. An
	// absolute path is sent as it is. In both, {ns} stands for the namespace.
	path  string
	query string
	// body is YAML, which is sent as JSON. With a content type in header, it is sent as it is.
	body   string
	header map[string]string
}

// answer is a response of which the body was read.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// patchTypes returns the content types of the verbs that are patches.
func patchTypes() map[string]types.PatchType {
	return map[string]types.PatchType{
		"JSON": types.JSONPatchType, "MERGE": types.MergePatchType, "STRATEGIC": types.StrategicMergePatchType,
		"APPLY": types.ApplyYAMLPatchType,
	}
}

// open sends a call and returns the response with its body unread.
func (c *client) open(ctx context.Context, namespace string, r call) (*http.Response, error) {
	method, contentType := r.verb, "application/json"
	if patch, ok := patchTypes()[r.verb]; ok {
		method, contentType = http.MethodPatch, string(patch)
	}
	body := []byte(r.body)
	if r.header["Content-Type"] == "" && r.body != "" {
		var err error
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, fmt.Errorf("the body of the case is no YAML: %w", err)
		}
	}
	url := strings.TrimSuffix(c.config.Host, "/") + expand(r.path, namespace)
	if r.query != "" {
		url += "?" + r.query
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		request.Header.Set("Content-Type", contentType)
	}
	for name, value := range r.header {
		request.Header.Add(name, value)
		if name == "Accept" || name == "Content-Type" {
			request.Header.Set(name, value)
		}
	}
	return c.http.Do(request)
}

// expand returns the absolute path of a path.
func expand(path, namespace string) string {
	if !strings.HasPrefix(path, "/") {
		first, rest, _ := strings.Cut(path, "/")
		switch {
		case first == "apps" || first == "autoscaling" || first == "policy" || strings.Contains(first, "."):
			path = "/apis/" + first + "/v1/namespaces/{ns}/" + rest
		default:
			path = "/api/v1/namespaces/{ns}/" + path
		}
	}
	return strings.ReplaceAll(path, "{ns}", namespace)
}

func (c *client) send(ctx context.Context, namespace string, r call) (answer, error) {
	response, err := c.open(ctx, namespace, r)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	return answer{code: response.StatusCode, header: response.Header, body: body}, errors.Join(err,
		response.Body.Close())
}

// err returns the error that client-go makes of an answer, or nil.
func (a answer) err() error {
	if a.code < http.StatusBadRequest {
		return nil
	}
	var status metav1.Status
	if err := json.Unmarshal(a.body, &status); err != nil || status.Kind != "Status" {
		return fmt.Errorf("answer %d without a Status: %.300s", a.code, a.body)
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// status returns the Status of an answer, which is empty if it has none.
func (a answer) status() metav1.Status {
	var status metav1.Status
	_ = json.Unmarshal(a.body, &status) // the check of what it has then fails
	return status
}

// at returns the value at a JSON pointer, or nil. Numbers are float64.
func (a answer) at(pointer string) any {
	var value any
	if json.Unmarshal(a.body, &value) != nil {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch at := value.(type) {
		case map[string]any:
			value = at[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i >= len(at) {
				return nil
			}
			value = at[i]
		default:
			return nil
		}
	}
	return value
}

// text returns the string at a JSON pointer, or "".
func (a answer) text(pointer string) string {
	s, _ := a.at(pointer).(string)
	return s
}

// names returns the names of the items of a list in their order.
func (a answer) names() []string {
	items, _ := a.at("/items").([]any)
	names := make([]string, 0, len(items))
	for i := range items {
		names = append(names, a.text(fmt.Sprintf("/items/%d/metadata/name", i)))
	}
	return names
}
