package admission

import (
	"fmt"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/ext"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// costLimit bounds the evaluation of an expression, in units of its library.
const costLimit = 10_000_000

// policy is a compiled ValidatingAdmissionPolicy.
type policy struct {
	uid         types.UID
	generation  int64
	ignore      bool // errors
	conditions  []cel.Program
	variables   []variable
	validations []validation
	err         error // of compilation
}

type variable struct {
	name  string
	value cel.Program
}

type validation struct {
	check   cel.Program
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
// and the functions that only Kubernetes has, such as quantity and authorizer, do not exist.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	options := []cel.EnvOption{
		cel.OptionalTypes(), cel.CrossTypeNumericComparisons(true), ext.Strings(), ext.Lists(), ext.Sets(),
		ext.TwoVarComprehensions(),
	}
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
		c.conditions = append(c.conditions, c.program(m.Expression))
	}
	for _, v := range p.Spec.Variables {
		c.variables = append(c.variables, variable{v.Name, c.program(v.Expression)})
	}
	for _, v := range p.Spec.Validations {
		made := validation{check: c.program(v.Expression), text: v.Message, reason: metav1.StatusReasonInvalid}
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

func (c *policy) program(expression string) cel.Program {
	env, err := environment()
	if err == nil {
		ast, issues := env.Compile(expression)
		if err = issues.Err(); err == nil {
			var program cel.Program
			if program, err = env.Program(ast, cel.CostLimit(costLimit)); err == nil {
				return program
			}
		}
	}
	if c.err == nil {
		c.err = fmt.Errorf("compilation error: %w", err)
	}
	return nil
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

func isTrue(program cel.Program, input map[string]any) (bool, error) {
	value, _, err := program.Eval(input)
	if err != nil {
		return false, fmt.Errorf("expression resulted in error: %w", err)
	}
	return value.Value() == true, nil
}
