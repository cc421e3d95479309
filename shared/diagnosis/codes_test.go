package diagnosis

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// elsewhere lists the codes of the scanned packages that no record of an agent has, and why.
func elsewhere() map[string]string {
	return map[string]string{
		"region_full": "refuses a creation, so there is no agent",
		"hook_failed": "ends a snapshot, which has the message, and nothing else",
	}
}

// codeScan collects the codes that the packages below a worker can put into an agent's record.
type codeScan struct {
	constants map[string]string
	found     map[string][]ast.Expr // by file
}

// scan reads the packages of the worker's ports and their adapters, and of the simulated world.
func scan(t *testing.T) map[string]bool {
	t.Helper()
	s := codeScan{constants: map[string]string{}, found: map[string][]ast.Expr{}}
	for _, dir := range []string{
		"infra/gke", "infra/secretmanager", "infra/agentprobe", "infra/firestore", "shared/provisioning",
		"shared/agent", "shared/credential", "shared/secretwrite", "shared/fault",
	} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "agenttest") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				s.read(path, file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	codes := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(s.found)) {
		for _, e := range s.found[path] {
			if code := s.value(e); code != "" {
				codes[code] = true
			}
		}
	}
	return codes
}

// read collects a file's constants and the expressions that are codes: the codes of Unavailable and Internal faults and
// of failures, and what agent.operationCode returns.
func (s *codeScan) read(path string, file *ast.File) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			for i, name := range n.Names {
				if i < len(n.Values) {
					if code := s.value(n.Values[i]); code != "" {
						s.constants[name.Name] = code
					}
				}
			}
		case *ast.CallExpr:
			if name := lastName(n.Fun); name == "New" && len(n.Args) > 2 &&
				slices.Contains([]string{"Unavailable", "Internal"}, lastName(n.Args[0])) {
				s.found[path] = append(s.found[path], n.Args[1])
			}
		case *ast.CompositeLit:
			if !slices.Contains([]string{"Failure", "PodFailure", "Permanent", "Outcome"}, lastName(n.Type)) {
				return true
			}
			for _, element := range n.Elts {
				if kv, ok := element.(*ast.KeyValueExpr); ok && lastName(kv.Key) == "Code" {
					s.found[path] = append(s.found[path], kv.Value)
				}
			}
		case *ast.FuncDecl:
			if n.Name.Name == "operationCode" {
				ast.Inspect(n, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok {
						s.found[path] = append(s.found[path], r.Results...)
					}
					return true
				})
			}
		}
		return true
	})
}

// value returns the text of a literal or of a constant; "" for other expressions.
func (s *codeScan) value(e ast.Expr) string {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		text, _ := strconv.Unquote(lit.Value)
		return text
	}
	return s.constants[lastName(e)]
}

// lastName is the last identifier of an expression such as fault.New or codeTimeout.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

// contract lists the codes of the interface that may concern an agent: those of secret operations, and those with which
// calls about an agent are refused because of its state or its organization's.
func contract() []string {
	return []string{
		"secret_store_unavailable", "secret_store_denied", "secret_quota_exceeded", "secret_value_unavailable",
		"namespace_missing", "cluster_unreachable", "sync_conflict", "rollout_timeout", "pod_crash_loop",
		"pod_unschedulable", "gateway_unhealthy", "agent_not_running", "internal_error",
		"plan_capacity_exceeded", "billing_required", "subscription_past_due", "agent_deleting", "provisioning_failed",
		"store_unavailable", "cluster_unavailable",
	}
}

// TestRules_HaveEveryCode fails if a code that an agent's record may have is not explained.
func TestRules_HaveEveryCode(t *testing.T) {
	t.Parallel()
	codes := scan(t)
	if len(codes) < 20 {
		t.Fatalf("found only the codes %v: the scan no longer reads the code base", slices.Sorted(maps.Keys(codes)))
	}
	for _, code := range contract() {
		codes[code] = true
	}
	known := map[string]bool{}
	for _, r := range rules() {
		if known[r.code] {
			t.Errorf("%s has two rules", r.code)
		}
		known[r.code] = true
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if !known[code] && elsewhere()[code] == "" {
			t.Errorf("the code %s has no rule: add a row to rules.go that says what it means and what to do", code)
		}
	}
	for code := range elsewhere() {
		if known[code] || !codes[code] {
			t.Errorf("elsewhere has %s, which has a rule or does not exist", code)
		}
	}
}

// TestRules_AreComplete fails for a row that would leave its reader without an answer.
func TestRules_AreComplete(t *testing.T) {
	t.Parallel()
	actions := append(Action("").Values(), string(tryAgain))
	parties := Party("").Values()
	for _, r := range rules() {
		if r.title == "" || strings.HasSuffix(r.title, ".") {
			t.Errorf("%s: title %q, want a sentence without its full stop", r.code, r.title)
		}
		if len(r.youCan) == 0 {
			t.Errorf("%s: nothing that a user can do", r.code)
		}
		for _, s := range r.youCan {
			if !slices.Contains(actions, string(s.Action)) || !strings.ContainsAny(s.Text[len(s.Text)-1:], ".?") {
				t.Errorf("%s: step %+v, want a known action and a sentence", r.code, s)
			}
		}
		for _, p := range []Party{r.next, r.ended} {
			if !slices.Contains(parties, string(p)) {
				t.Errorf("%s: party %q, want one of %v", r.code, p, parties)
			}
		}
	}
}
