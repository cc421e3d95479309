package admission

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// costLimit bounds the evaluation of an expression, in units of its library.
const costLimit = 10_000_000

// policy is a compiled ValidatingAdmissionPolicy.
type policy struct {
	uid         types.UID
	generation  int64
	ignore      bool // errors
	conditions  []expression
	variables   []variable
	validations []validation
	err         error // of compilation
}

type variable struct {
	name  string
	value cel.Program
}

// expression is a compiled condition.
type expression struct {
	text    string
	program cel.Program
}

type validation struct {
	check   expression
	message cel.Program // may be nil
	text    string      // without message
	reason  metav1.StatusReason
}

// violation says why a policy does not accept a request.
type violation struct {
	message string
	reason  metav1.StatusReason
}

// environment has the variables and functions of expressions. Types are not checked before an expression is evaluated,
// and of the functions that only Kubernetes has, such as authorizer, there is only quantity.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), ext.Strings(), ext.Lists(), ext.Sets(),
		ext.TwoVarComprehensions(), cel.HomogeneousAggregateLiterals(),
	}
	options = append(options, quantities()...)
	for _, name := range []string{"object", "oldObject", "request", "params", "namespaceObject", "variables"} {
		options = append(options, cel.Variable(name, cel.DynType))
	}
	return cel.NewEnv(options...)
})

// compile compiles the expressions of a policy. The first error is that of its evaluation.
func compile(p *admissionregistrationv1.ValidatingAdmissionPolicy) *policy {
	c := &policy{
		uid: p.UID, generation: p.Generation,
		ignore: p.Spec.FailurePolicy != nil && *p.Spec.FailurePolicy == admissionregistrationv1.Ignore,
	}
	for _, m := range p.Spec.MatchConditions {
		c.conditions = append(c.conditions, expression{m.Expression, c.program(m.Expression)})
	}
	for _, v := range p.Spec.Variables {
		c.variables = append(c.variables, variable{v.Name, c.program(v.Expression)})
	}
	for _, v := range p.Spec.Validations {
		made := validation{check: expression{v.Expression, c.program(v.Expression)}, text: v.Message, reason: metav1.StatusReasonInvalid}
		if v.MessageExpression != "" {
			made.message = c.program(v.MessageExpression)
		}
		if v.Reason != nil {
			made.reason = *v.Reason
		}
		if made.text == "" {
			made.text = "failed expression: " + v.Expression
		}
		c.validations = append(c.validations, made)
	}
	return c
}

func (c *policy) program(text string) cel.Program {
	program, err := compileExpression(text)
	if err != nil && c.err == nil {
		c.err = fmt.Errorf("compilation error: %w", err)
	}
	return program
}

func compileExpression(text string) (cel.Program, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, issues := env.Compile(text)
	if err := issues.Err(); err != nil {
		return nil, err
	}
	return env.Program(checked, cel.CostLimit(costLimit))
}

// isIdentifier is false for the words that the language reserves, such as namespace.
func isIdentifier(name string) bool {
	env, err := environment()
	if err != nil {
		return false
	}
	parsed, issues := env.Parse(name)
	if issues.Err() != nil {
		return false
	}
	e := parsed.NativeRep().Expr()
	return e.Kind() == ast.IdentKind && e.AsIdent() == name
}

// ValidatePolicy returns the expressions of a policy that cannot be compiled, and the names that no variable may have.
func ValidatePolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	spec := field.NewPath("spec")
	var errs field.ErrorList
	check := func(at *field.Path, text string) {
		if _, err := compileExpression(text); err != nil {
			errs = append(errs, field.Invalid(at, text, "compilation failed: "+err.Error()))
		}
	}
	for i, m := range p.Spec.MatchConditions {
		check(spec.Child("matchConditions").Index(i).Child("expression"), m.Expression)
	}
	for i, v := range p.Spec.Variables {
		at := spec.Child("variables").Index(i)
		if !isIdentifier(v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		check(at.Child("expression"), v.Expression)
	}
	for i, v := range p.Spec.Validations {
		at := spec.Child("validations").Index(i)
		check(at.Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			check(at.Child("messageExpression"), v.MessageExpression)
		}
	}
	return errs
}

// evaluate returns how a request violates the policy. input gets the policy's variables.
func (c *policy) evaluate(input map[string]any) []violation {
	failed := func(err error, reason metav1.StatusReason) []violation {
		if c.ignore {
			return nil
		}
		return []violation{{message: err.Error(), reason: reason}}
	}
	if c.err != nil {
		return failed(c.err, metav1.StatusReasonInvalid)
	}
	for _, condition := range c.conditions {
		matches, err := isTrue(condition, input)
		if err != nil {
			return failed(err, metav1.StatusReasonInvalid)
		}
		if !matches {
			return nil
		}
	}
	c.addVariables(input)
	var violations []violation
	for i := range c.validations {
		v := &c.validations[i]
		accepted, err := isTrue(v.check, input)
		switch {
		case err != nil:
			violations = append(violations, failed(err, v.reason)...)
		case !accepted:
			violations = append(violations, violation{message: v.describe(input), reason: v.reason})
		}
	}
	return violations
}

// addVariables adds the policy's variables. One that cannot be evaluated is absent, so that the expressions that use it
// fail, and no others.
func (c *policy) addVariables(input map[string]any) {
	values := map[string]ref.Val{}
	input["variables"] = values
	for _, v := range c.variables {
		if value, _, err := v.value.Eval(input); err == nil {
			values[v.name] = value
		}
	}
}

// describe returns the message of a validation that failed.
func (v *validation) describe(input map[string]any) string {
	if v.message == nil {
		return v.text
	}
	value, _, err := v.message.Eval(input)
	if err != nil {
		return v.text
	}
	if text, ok := value.Value().(string); ok && text != "" {
		return text
	}
	return v.text
}

func isTrue(e expression, input map[string]any) (bool, error) {
	value, _, err := e.program.Eval(input)
	if err != nil {
		return false, fmt.Errorf("expression '%s' resulted in error: %w", e.text, err)
	}
	return value.Value() == true, nil
}
