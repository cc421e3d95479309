//go:build unix

package consoletest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
)

// Fault is something that no page may do.
type Fault struct {
	Kind FaultKind
	Text string
}

// FaultKind says what watched the page.
type FaultKind string

// The kinds of faults.
const (
	PolicyViolation FaultKind = "violation of the Content-Security-Policy"
	ConsoleError    FaultKind = "console error"
	Exception       FaultKind = "uncaught exception"
	AssetFailure    FaultKind = "asset that did not load"
	ForeignRequest  FaultKind = "request to another host"
	DocumentIssue   FaultKind = "issue of the document"
)

// String implements fmt.Stringer.
func (f Fault) String() string { return string(f.Kind) + ": " + f.Text }

const (
	// worldName is the isolated world of scripts that watch the page. The page cannot see or change them.
	worldName        = "consoletest"
	violationBinding = "consoletestReportViolation"
)

// reportViolations reports violations of the Content-Security-Policy with the element or line that caused them.
const reportViolations = `addEventListener("securitypolicyviolation", e => ` + violationBinding + `(JSON.stringify({
	directive: e.effectiveDirective, blocked: e.blockedURI, sample: e.sample, file: e.sourceFile, line: e.lineNumber,
})))`

// record collects what the browser reports about a tab.
type record struct {
	mu        sync.Mutex
	origins   []string
	faults    []Fault
	expected  []string
	requests  map[network.RequestID]*Transfer
	transfers []*Transfer
}

func newRecord(origins []string) *record {
	return &record{origins: origins, requests: map[network.RequestID]*Transfer{}}
}

// listen receives all events of the tab, in their order.
func (r *record) listen(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventBindingCalled:
		r.reportViolation(e)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			r.add(ConsoleError, "%s", consoleText(e))
		}
	case *runtime.EventExceptionThrown:
		r.add(Exception, "%s", exceptionText(e.ExceptionDetails))
	case *log.EventEntryAdded:
		r.logEntry(e.Entry)
	case *audits.EventIssueAdded:
		r.issue(e.Issue)
	default:
		r.networkEvent(event)
	}
}

func (r *record) add(kind FaultKind, format string, args ...any) {
	f := Fault{Kind: kind, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(r.faults, f) {
		r.faults = append(r.faults, f)
	}
}

func (r *record) reportViolation(e *runtime.EventBindingCalled) {
	var v struct {
		Directive, Blocked, Sample, File string
		Line                             int
	}
	if e.Name != violationBinding || json.Unmarshal([]byte(e.Payload), &v) != nil {
		return
	}
	r.add(PolicyViolation, "%s blocked %q %s at %s:%d", v.Directive, v.Blocked, v.Sample, v.File, v.Line)
}

// issue adds violations that happened before the document had scripts, and mistakes of the document.
func (r *record) issue(i *audits.InspectorIssue) {
	switch d := i.Details; {
	case d == nil:
	case d.ContentSecurityPolicyIssueDetails != nil:
		v := d.ContentSecurityPolicyIssueDetails
		r.add(PolicyViolation, "%s blocked %q (%s)", v.ViolatedDirective, v.BlockedURL,
			v.ContentSecurityPolicyViolationType)
	case d.QuirksModeIssueDetails != nil:
		r.add(DocumentIssue, "quirks mode: the document has no doctype")
	case d.DeprecationIssueDetails != nil:
		r.add(DocumentIssue, "deprecated: %s", d.DeprecationIssueDetails.Type)
	case d.CorsIssueDetails != nil:
		r.add(DocumentIssue, "CORS: %s", d.CorsIssueDetails.CorsErrorStatus.CorsError)
	}
}

// logEntry adds errors that the browser itself logs. Those of source network are responses with an error status, which
// the network events report with their type. Violations of the policy have a separate report.
func (r *record) logEntry(e *log.Entry) {
	if e.Level != log.EntryLevelError || e.Source == log.EntrySourceNetwork || e.Source == log.EntrySourceSecurity ||
		strings.Contains(e.Text, "Content Security Policy") {
		return
	}
	r.add(ConsoleError, "%s (%s, %s:%d)", e.Text, e.Source, e.URL, e.LineNumber)
}

func consoleText(e *runtime.EventConsoleAPICalled) string {
	var words []string
	for _, a := range e.Args {
		var text string
		switch {
		case json.Unmarshal(a.Value, &text) == nil && text != "":
			words = append(words, text)
		case len(a.Value) > 0:
			words = append(words, string(a.Value))
		default:
			words = append(words, a.Description)
		}
	}
	return strings.Join(words, " ") + at(e.StackTrace)
}

func exceptionText(d *runtime.ExceptionDetails) string {
	text := d.Text
	if d.Exception != nil && d.Exception.Description != "" {
		return text + " " + d.Exception.Description // with the stack
	}
	if d.Exception != nil && len(d.Exception.Value) > 0 {
		text += " " + string(d.Exception.Value)
	}
	return fmt.Sprintf("%s (%s:%d)", text, d.URL, d.LineNumber+1)
}

// at is the place of a call.
func at(s *runtime.StackTrace) string {
	if s == nil || len(s.CallFrames) == 0 {
		return ""
	}
	f := s.CallFrames[0]
	return fmt.Sprintf(" (%s:%d)", f.URL, f.LineNumber+1)
}
