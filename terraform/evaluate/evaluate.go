// Package evaluate evaluates a Terraform module without a provider, so that tests and generated tables can use the
// values that Terraform would plan. It does not check attributes against a provider's schema.
//
// A value that only the provider knows has a stand-in. The attributes id, name, email, member, self_link and address
// are the text of the reference, such as google_service_account.push.member. All other attributes are unknown.
package evaluate

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// Module is a module with values for its variables. It caches results.
type Module struct {
	mu        sync.Mutex // of results, expanded and running
	dir       string
	files     map[string]*hclsyntax.Body
	locals    map[string]hclsyntax.Expression
	blocks    map[string]*hclsyntax.Block
	given     map[string]cty.Value
	functions map[string]function.Function
	computed  []string // attributes of resources that references name, sorted
	results   map[string]cty.Value
	expanded  map[*hclsyntax.Block][]instance
	running   map[string]bool
}

// Load reads the files of a directory. Variables that are not given have their defaults.
func Load(dir string, given map[string]cty.Value) (*Module, error) {
	m := &Module{
		dir: dir, given: given, functions: functions(),
		files: map[string]*hclsyntax.Body{}, locals: map[string]hclsyntax.Expression{},
		blocks: map[string]*hclsyntax.Block{}, results: map[string]cty.Value{}, running: map[string]bool{},
		expanded: map[*hclsyntax.Block][]instance{},
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err == nil && len(names) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, fmt.Errorf("find Terraform files in %s: %w", dir, err)
	}
	computed := map[string]bool{}
	for _, name := range names {
		file, err := parse(name)
		if err != nil {
			return nil, err
		}
		m.files[filepath.Base(name)] = file.body
		for _, b := range file.body.Blocks {
			m.declare(b)
		}
		maps.Copy(computed, file.attributes)
	}
	m.computed = slices.Sorted(maps.Keys(computed))
	for name := range given {
		if m.blocks["var."+name] == nil {
			return nil, fmt.Errorf("variable %s is given and not declared", name)
		}
	}
	return m, nil
}

// file is a parsed file, with the attributes that its references name.
type file struct {
	body       *hclsyntax.Body
	attributes map[string]bool
}

// source is the name and the content of a file.
type source struct{ name, content string }

// parsed has a file for each source: tests load the same module with many values.
var parsed sync.Map //nolint:gochecknoglobals // it only saves work: equal sources are parsed into equal files

// parse reads a file. Callers share the result and must not change it.
func parse(name string) (file, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return file{}, err
	}
	key := source{name, string(content)}
	if found, ok := parsed.Load(key); ok {
		return found.(file), nil
	}
	f, diags := hclsyntax.ParseConfig(content, name, hcl.InitialPos)
	if diags.HasErrors() {
		return file{}, diags
	}
	body := f.Body.(*hclsyntax.Body)
	result := file{body: body, attributes: referencedAttributes(body)}
	parsed.Store(key, result)
	return result, nil
}

func (m *Module) declare(b *hclsyntax.Block) {
	switch b.Type {
	case "locals":
		for name, a := range b.Body.Attributes {
			m.locals[name] = a.Expr
		}
	case "resource":
		m.blocks[strings.Join(b.Labels, ".")] = b
	case "variable":
		m.blocks["var."+b.Labels[0]] = b
	default:
		m.blocks[strings.Join(append([]string{b.Type}, b.Labels...), ".")] = b
	}
}

// Files returns the files by name.
func (m *Module) Files() map[string]*hclsyntax.Body { return maps.Clone(m.files) }

// Blocks returns the blocks by address, such as var.x, google_x.y and output.z.
func (m *Module) Blocks() map[string]*hclsyntax.Block { return maps.Clone(m.blocks) }

// Locals returns the names of the local values.
func (m *Module) Locals() []string { return slices.Sorted(maps.Keys(m.locals)) }

// Local evaluates a local value.
func (m *Module) Local(name string) (cty.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.local(name)
	return unmarked(v), err
}

func (m *Module) local(name string) (cty.Value, error) {
	expr, ok := m.locals[name]
	if !ok {
		return cty.DynamicVal, fmt.Errorf("local.%s is not declared", name)
	}
	return m.once("local."+name, func() (cty.Value, error) { return m.eval(expr, nil) })
}

// Output evaluates an output.
func (m *Module) Output(name string) (cty.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.output(name)
	return unmarked(v), err
}

func (m *Module) output(name string) (cty.Value, error) {
	b := m.blocks["output."+name]
	if b == nil {
		return cty.DynamicVal, fmt.Errorf("output.%s is not declared", name)
	}
	return m.once("output."+name, func() (cty.Value, error) { return m.eval(b.Body.Attributes["value"].Expr, nil) })
}

// Evaluate evaluates an expression in the module. As in Terraform's tests, it may refer to outputs.
func (m *Module) Evaluate(expr hclsyntax.Expression) (cty.Value, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, err := m.eval(expr, nil)
	return unmarked(v), err
}

// once evaluates what has an address. References in a circle are an error.
func (m *Module) once(address string, evaluate func() (cty.Value, error)) (cty.Value, error) {
	if v, ok := m.results[address]; ok {
		return v, nil
	}
	if m.running[address] {
		return cty.DynamicVal, fmt.Errorf("%s refers to itself", address)
	}
	m.running[address] = true
	defer delete(m.running, address)
	v, err := evaluate()
	if err != nil {
		return cty.DynamicVal, err
	}
	m.results[address] = v
	return v, nil
}

// scope holds names such as each, count and the iterators of dynamic blocks.
type scope map[string]cty.Value

func (s scope) with(name string, v cty.Value) scope {
	all := scope{name: v}
	for other, v := range s {
		if other != name {
			all[other] = v
		}
	}
	return all
}

func (m *Module) eval(expr hclsyntax.Expression, s scope) (cty.Value, error) {
	roots := map[string]map[string]cty.Value{}
	for _, ref := range expr.Variables() {
		root := ref.RootName()
		if _, ok := s[root]; ok || root == "path" {
			continue
		}
		if len(ref) < 2 {
			return cty.DynamicVal, fmt.Errorf("%s: %s is not declared", ref.SourceRange(), root)
		}
		field := attribute(ref[1])
		v, err := m.reference(root, field)
		if err != nil {
			return cty.DynamicVal, fmt.Errorf("%s: %w", ref.SourceRange(), err)
		}
		if roots[root] == nil {
			roots[root] = map[string]cty.Value{}
		}
		roots[root][field] = v
	}
	ctx := &hcl.EvalContext{Functions: m.functions, Variables: map[string]cty.Value{
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(m.dir)}),
	}}
	for root, fields := range roots {
		ctx.Variables[root] = cty.ObjectVal(fields)
	}
	maps.Copy(ctx.Variables, s)
	v, diags := expr.Value(ctx)
	if diags.HasErrors() {
		return cty.DynamicVal, diags
	}
	return v, nil
}

// reference evaluates what the first two names of a reference mean.
func (m *Module) reference(root, field string) (cty.Value, error) {
	switch root {
	case "local":
		return m.local(field)
	case "var":
		return m.variable(field)
	case "output":
		return m.output(field)
	default:
		return m.resource(root, field)
	}
}

func attribute(t hcl.Traverser) string {
	if a, ok := t.(hcl.TraverseAttr); ok {
		return a.Name
	}
	return ""
}

// referencedAttributes returns the attributes that references in a file name, except of variables and local values.
func referencedAttributes(body *hclsyntax.Body) map[string]bool {
	names := map[string]bool{}
	add := func(t hcl.Traversal) {
		if !t.IsRelative() && (t.RootName() == "var" || t.RootName() == "local") {
			return
		}
		for _, step := range t {
			if name := attribute(step); name != "" {
				names[name] = true
			}
		}
	}
	_ = hclsyntax.VisitAll(body, func(n hclsyntax.Node) (none hcl.Diagnostics) {
		switch e := n.(type) {
		case *hclsyntax.ScopeTraversalExpr:
			add(e.Traversal)
		case *hclsyntax.RelativeTraversalExpr:
			add(e.Traversal)
		}
		return none
	})
	return names
}
