//go:build unix

package apitest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// optionCases are about the parameters of reads and writes.
func optionCases() map[string]func(*space) {
	return map[string]func(*space){
		"pages":                   testPages,
		"malformed pages":         testMalformedPages,
		"resource version":        testResourceVersions,
		"field selectors of pods": testPodSelectors,
		"order of a list":         testOrder,
		"field validation":        testFieldValidation,
		"generated names":         testGeneratedNames,
		"dry run":                 testDryRun,
		"server's own fields":     testServerFields,
	}
}

// configs creates n ConfigMaps with names from c-000.
func (s *space) configs(n int) {
	s.Helper()
	for i := range n {
		s.create("configmaps", fmt.Sprintf("metadata: {name: c-%03d, labels: {list: 'yes', odd: '%d'}}", i, i%2))
	}
}

func testPages(s *space) {
	s.configs(5)
	first := s.must(call{path: "configmaps", query: "limit=2&labelSelector=list"})
	if got := first.names(); !slices.Equal(got, []string{"c-000", "c-001"}) {
		s.Errorf("first page %q", got)
	}
	// With a selector, the server does not count what remains.
	s.want(first, map[string]any{"/metadata/remainingItemCount": nil})
	s.create("configmaps", "metadata: {name: c-003x, labels: {list: 'yes'}}")
	s.must(call{verb: "DELETE", path: "configmaps/c-004"})
	var rest []string
	for page := first; page.text("/metadata/continue") != ""; {
		page = s.must(call{
			path:  "configmaps",
			query: "limit=2&labelSelector=list&continue=" + url.QueryEscape(page.text("/metadata/continue")),
		})
		rest = append(rest, page.names()...)
		s.want(page, map[string]any{"/metadata/resourceVersion": first.at("/metadata/resourceVersion")})
	}
	if want := []string{"c-002", "c-003", "c-004"}; !slices.Equal(rest, want) {
		s.Errorf("further pages %q, want %q: all pages are of one version", rest, want)
	}
	counted := s.must(call{path: "configmaps", query: "limit=1"}) // c-000, before kube-root-ca.crt
	s.want(counted, map[string]any{"/metadata/remainingItemCount": 5, "/items/0/metadata/name": "c-000"})
	whole := s.must(call{path: "configmaps", query: "limit=500"})
	s.want(whole, map[string]any{"/metadata/remainingItemCount": nil, "/metadata/continue": nil})
}

func testMalformedPages(s *space) {
	s.configs(3)
	badRequest := refusal{code: http.StatusBadRequest, reason: metav1.StatusReasonBadRequest}
	s.refuses(call{path: "configmaps", query: "limit=1&continue=none"}, badRequest)
	page := s.must(call{path: "configmaps", query: "limit=1"}).text("/metadata/continue")
	version := s.must(call{path: "configmaps", query: "limit=1"}).text("/metadata/resourceVersion")
	s.refuses(call{path: "configmaps", query: "limit=1&resourceVersion=" + version + "&continue=" +
		url.QueryEscape(page)},
		badRequest)
	s.refuses(call{path: "configmaps", query: "resourceVersion=none"}, badRequest)
	s.refuses(call{path: "configmaps", query: "resourceVersionMatch=Exact"},
		refusal{code: 422, reason: metav1.StatusReasonInvalid})
	s.refuses(call{path: "configmaps", query: "resourceVersionMatch=None&resourceVersion=" + version},
		refusal{code: 422, reason: metav1.StatusReasonInvalid})
}

func testResourceVersions(s *space) {
	s.configs(2)
	list := s.must(call{path: "configmaps", query: "labelSelector=list"})
	version := list.text("/metadata/resourceVersion")
	s.create("configmaps", "metadata: {name: later, labels: {list: 'yes'}}")
	both, all := []string{"c-000", "c-001"}, []string{"c-000", "c-001", "later"}
	for query, want := range map[string][]string{
		"": all,
		"&resourceVersion=" + version + "&resourceVersionMatch=Exact":                 both,
		"&resourceVersion=" + version + "&resourceVersionMatch=Exact&limit=1":         {"c-000"},
		"&resourceVersion=" + version + "&resourceVersionMatch=NotOlderThan&limit=10": nil,
		"&resourceVersion=0": nil,
		"&resourceVersion=0&resourceVersionMatch=NotOlderThan": nil,
	} {
		got := s.must(call{path: "configmaps", query: "labelSelector=list" + query}).names()
		// Without a version, and for a version that may be newer, the server chooses.
		if want != nil && !slices.Equal(got, want) || len(got) == 0 {
			s.Errorf("list with %q has %q, want %q", query, got, want)
		}
	}
	// A read from the cache, which may be older.
	s.eventually("a read of any version finds the object", func(ctx context.Context) error {
		return s.is(ctx, call{path: "configmaps/later", query: "resourceVersion=0"}, http.StatusOK)
	})
}

func testPodSelectors(s *space) {
	s.create("pods", "metadata: {name: a, labels: {app: a}}\n"+podSpec, "metadata: {name: b}\n"+podSpec)
	for query, want := range map[string][]string{
		"metadata.name=a":                              {"a"},
		"metadata.namespace=" + s.namespace:            {"a", "b"},
		"status.phase=Pending,metadata.name!=a":        {"b"},
		"status.phase=Running":                         {},
		"spec.nodeName=":                               {"a", "b"},
		"spec.restartPolicy=Always":                    {"a", "b"},
		"spec.serviceAccountName=default":              {"a", "b"},
		"metadata.name=a,metadata.namespace=elsewhere": {},
	} {
		got := s.must(call{path: "pods", query: "fieldSelector=" + url.QueryEscape(query)}).names()
		if !slices.Equal(got, want) {
			s.Errorf("pods with %s: %q, want %q", query, got, want)
		}
	}
	s.create("events", "metadata: {name: e}\ninvolvedObject: {kind: Pod, namespace: "+s.namespace+", name: a}\n"+
		"reason: Test\ntype: Warning")
	events := s.must(call{path: "events", query: "fieldSelector=" + url.QueryEscape(
		"involvedObject.kind=Pod,involvedObject.name=a,reason=Test,type=Warning")})
	if got := events.names(); !slices.Equal(got, []string{"e"}) {
		s.Errorf("events about pod a: %q", got)
	}
	secrets := s.must(call{path: "secrets", query: "fieldSelector=type%3DOpaque"})
	if len(secrets.names()) != 0 {
		s.Errorf("opaque Secrets %q, want none", secrets.names())
	}
}

// testOrder compares the order of a list, that of the names, with that of the creation.
func testOrder(s *space) {
	for _, name := range []string{"b", "a-1", "a", "a.1", "c", "a0"} {
		s.create("configmaps", "metadata: {name: "+name+", labels: {list: 'yes'}}")
	}
	got := s.must(call{path: "configmaps", query: "labelSelector=list"}).names()
	if want := []string{"a", "a-1", "a.1", "a0", "b", "c"}; !slices.Equal(got, want) {
		s.Errorf("list %q, want %q", got, want)
	}
}

func testFieldValidation(s *space) {
	const unknown = "metadata: {name: a}\ndata: {a: b}\nspec: {}\n"
	strict := refusal{
		code: 400, reason: metav1.StatusReasonBadRequest, message: `strict decoding error: unknown field "spec"`,
	}
	s.refuses(call{verb: "POST", path: "configmaps", query: "fieldValidation=Strict", body: unknown}, strict)
	duplicate := call{
		verb: "POST", path: "configmaps", query: "fieldValidation=Strict",
		body:   `{"metadata":{"name":"a"},"data":{"a":"b","a":"c"}}`,
		header: map[string]string{"Content-Type": "application/json"},
	}
	strict.message = `duplicate field "data.a"`
	s.refuses(duplicate, strict)
	ignored := s.must(call{verb: "POST", path: "configmaps", query: "fieldValidation=Ignore&dryRun=All", body: unknown})
	if got := ignored.header.Values("Warning"); len(got) != 0 {
		s.Errorf("warnings with Ignore: %q", got)
	}
	warned := s.must(call{verb: "POST", path: "configmaps", query: "fieldValidation=Warn", body: unknown})
	if got := warned.header.Get("Warning"); got != `299 - "unknown field \"spec\""` {
		s.Errorf("warning %q", got)
	}
	if got := s.must(call{
		verb: "PUT", path: "configmaps/a",
		body: unknown,
	}).header.Get("Warning"); !strings.Contains(got, "unknown field") {
		s.Errorf("warning of an update without the parameter: %q", got)
	}
	for _, verb := range []string{"MERGE", "STRATEGIC"} {
		strict.code, strict.reason, strict.message = 422, metav1.StatusReasonInvalid, `unknown field "spec"`
		s.refuses(call{verb: verb, path: "configmaps/a", query: "fieldValidation=Strict", body: "spec: {a: b}"}, strict)
	}
}

func testGeneratedNames(s *space) {
	pattern := regexp.MustCompile("^run-[bcdfghjklmnpqrstvwxz2456789]{5}$")
	seen := map[string]bool{}
	for range 5 {
		a := s.create("configmaps", "metadata: {generateName: run-}")
		s.want(a, map[string]any{"/metadata/generateName": "run-"})
		name := a.text("/metadata/name")
		if !pattern.MatchString(name) || seen[name] {
			s.Errorf("generated name %q, want a new one like %s", name, pattern)
		}
		seen[name] = true
	}
}

func testDryRun(s *space) {
	created := s.send(call{verb: "POST", path: "configmaps", query: "dryRun=All", body: "metadata: {name: a}"})
	if created.code != http.StatusCreated || created.text("/metadata/uid") == "" {
		s.Errorf("dry run is answered %d: %s", created.code, created.body)
	}
	s.awaitGone("configmaps/a")
	before := s.create("configmaps", "metadata: {name: a}\ndata: {a: b}")
	for _, r := range []call{
		{verb: "MERGE", body: "data: {a: c}"},
		{verb: "PUT", body: "metadata: {name: a}\ndata: {a: c}"},
		{verb: "DELETE"},
	} {
		r.path, r.query = "configmaps/a", "dryRun=All"
		s.must(r)
	}
	s.want(s.get("configmaps/a"), map[string]any{
		"/metadata/resourceVersion": before.at("/metadata/resourceVersion"), "/data/a": "b",
	})
}

// testServerFields writes fields that only the server may set.
func testServerFields(s *space) {
	a := s.create("pods", "metadata: {name: a, generation: 7, uid: x, creationTimestamp: '2001-01-01T00:00:00Z', "+
		"deletionTimestamp: '2001-01-01T00:00:00Z', selfLink: /a}\n"+podSpec+"\nstatus: {phase: Running}")
	s.want(a, map[string]any{
		"/metadata/generation": 1, "/metadata/deletionTimestamp": nil, "/metadata/selfLink": nil,
		"/status/phase":    "Pending",
		"/status/qosClass": "BestEffort",
	})
	if a.text("/metadata/uid") == "x" || strings.HasPrefix(a.text("/metadata/creationTimestamp"), "2001") {
		s.Errorf("the client chose the UID or the time of the creation: %s", a.body)
	}
	s.refuses(call{verb: "POST", path: "configmaps", body: "metadata: {name: b, resourceVersion: '1'}"}, refusal{
		code: 500, message: "resourceVersion should not be set on objects to be created",
	})
	b := s.create("configmaps", "metadata: {name: b}")
	again := s.must(call{verb: "MERGE", path: "configmaps/b", body: "metadata: {creationTimestamp: null, " +
		"generation: 9}"})
	s.want(again, map[string]any{"/metadata/creationTimestamp": b.at("/metadata/creationTimestamp")})
}
