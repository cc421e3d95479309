//go:build unix

package apitest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// space is the namespace of a case, with an administrator's client.
type space struct {
	*testing.T

	server    Server
	admin     *client
	namespace string
}

// newSpace creates a namespace, and waits until the server has put its objects there: pods need the service
// account, and lists of ConfigMaps have one more. The name is random, so that a server may be
// used for several runs. The namespace stays: its deletion costs the server more than most cases.
func newSpace(t *testing.T, server Server, admin *client) *space {
	t.Helper()
	s := &space{T: t, server: server, admin: admin, namespace: fmt.Sprintf("case-%012x", rand.Uint64()>>16)}
	s.must(call{verb: "POST", path: "/api/v1/namespaces", body: "metadata: {name: " + s.namespace + "}"})
	for _, path := range []string{"serviceaccounts/default", "configmaps/kube-root-ca.crt"} {
		s.eventually(path+" exists", func(ctx context.Context) error {
			return s.is(ctx, call{path: path}, http.StatusOK)
		})
	}
	return s
}

// as returns the space with the client of a user.
func (s *space) as(user rest.ImpersonationConfig) *space {
	config := rest.CopyConfig(s.server.Config)
	config.Impersonate = user
	other := *s
	other.admin = newClient(s.T, config)
	return &other
}

// send sends a call. It ends the test if there is no answer.
func (s *space) send(r call) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	a, err := s.admin.send(ctx, s.namespace, r)
	if err != nil {
		s.Fatalf("%s %s: %v", r.verb, r.path, err)
	}
	return a
}

// must sends a call. It ends the test unless that succeeds.
func (s *space) must(r call) answer {
	s.Helper()
	a := s.send(r)
	if err := a.err(); err != nil {
		s.Fatalf("%s %s?%s: %v", r.verb, r.path, r.query, err)
	}
	return a
}

// get returns the object at a path.
func (s *space) get(path string) answer {
	s.Helper()
	return s.must(call{path: path})
}

// awaitHealth waits until the server says that it is healthy: on a busy machine, its store may answer too late.
func (s *space) awaitHealth() {
	s.Helper()
	for _, path := range []string{"/readyz", "/livez", "/healthz"} {
		s.eventually(path+" is ok", func(ctx context.Context) error {
			a, err := s.admin.send(ctx, s.namespace, call{path: path})
			if err == nil && (a.code != http.StatusOK || string(a.body) != "ok") {
				err = fmt.Errorf("answer %d: %.300s", a.code, a.body)
			}
			return err
		})
	}
}

// create creates objects of a resource.
func (s *space) create(path string, bodies ...string) answer {
	s.Helper()
	var last answer
	for _, body := range bodies {
		last = s.must(call{verb: "POST", path: path, body: body})
	}
	return last
}

// apply sends an object by server-side apply as a manager.
func (s *space) apply(manager, path, body string) answer {
	s.Helper()
	return s.must(call{verb: "APPLY", path: path, query: "fieldManager=" + manager, body: body})
}

// is returns an error unless a call is answered with a code.
func (s *space) is(ctx context.Context, r call, code int) error {
	a, err := s.admin.send(ctx, s.namespace, r)
	if err == nil && a.code != code {
		err = fmt.Errorf("%s %s: answer %d, want %d: %.300s", r.verb, r.path, a.code, code, a.body)
	}
	return err
}

// eventually waits until check returns no error. It ends the test if that takes too long.
func (s *space) eventually(what string, check func(context.Context) error) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		if last == nil || ctx.Err() == nil { // an attempt that the end interrupts says nothing
			last = err
		}
		select {
		case <-ctx.Done():
			s.Fatalf("after %s it does not hold that %s: %v", patience, what, last)
		case <-tick.C:
		}
	}
}

// await waits until the object at a path has values at JSON pointers, and returns it.
func (s *space) await(path string, want map[string]any) answer {
	s.Helper()
	var last answer
	s.eventually(path+" has the values", func(ctx context.Context) error {
		var err error
		if last, err = s.admin.send(ctx, s.namespace, call{path: path}); err != nil {
			return err
		}
		return errors.Join(last.err(), differences(last, want))
	})
	return last
}

// awaitGone waits until the object at a path does not exist.
func (s *space) awaitGone(path string) {
	s.Helper()
	s.eventually(path+" is gone", func(ctx context.Context) error {
		return s.is(ctx, call{path: path}, http.StatusNotFound)
	})
}

// want checks values at JSON pointers; nil means that there is none.
func (s *space) want(a answer, want map[string]any) {
	s.Helper()
	if err := errors.Join(a.err(), differences(a, want)); err != nil {
		s.Error(err)
	}
}

// differences returns an error that names the JSON pointers with other values than wanted.
func differences(a answer, want map[string]any) error {
	var all []error
	for pointer, value := range want {
		got, err := json.Marshal(a.at(pointer))
		wanted, wantErr := json.Marshal(value)
		if err := errors.Join(err, wantErr); err != nil {
			return err
		}
		if string(got) != string(wanted) {
			all = append(all, fmt.Errorf("%s = %.300s, want %s", pointer, got, wanted))
		}
	}
	return errors.Join(all...)
}

// refusal is how a server refuses a call. Empty fields are not compared.
type refusal struct {
	code   int
	reason metav1.StatusReason
	// message is a part of the message.
	message string
	// causes are the causes as "type field".
	causes []string
}

// refuses sends a call and checks how it is refused.
func (s *space) refuses(r call, want refusal) answer {
	s.Helper()
	a := s.send(r)
	status := a.status()
	if a.code != want.code || status.Kind != "Status" || int(status.Code) != want.code || status.Reason != want.reason {
		s.Errorf("%s %s?%s: answer %d %q, Status %d %q, want %d %q: %.500s", r.verb, r.path, r.query, a.code,
			status.Kind, status.Code, status.Reason, want.code, want.reason, a.body)
		return a
	}
	if status.Status != metav1.StatusFailure || !strings.Contains(status.Message, want.message) {
		s.Errorf("%s %s: status %q, message %q, want Failure with %q", r.verb, r.path, status.Status, status.Message,
			want.message)
	}
	if want.causes != nil {
		if got := causes(status); !slices.Equal(got, want.causes) {
			s.Errorf("%s %s: causes %q, want %q", r.verb, r.path, got, want.causes)
		}
	}
	return a
}

// causes returns the causes of a Status without those that repeat the one before.
func causes(status metav1.Status) []string {
	var list []string
	if status.Details != nil {
		for _, cause := range status.Details.Causes {
			list = append(list, strings.TrimSpace(string(cause.Type)+" "+cause.Field))
		}
	}
	return slices.Compact(list)
}
