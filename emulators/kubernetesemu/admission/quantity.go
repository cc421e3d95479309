package admission

import (
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityType is the type of quantity("1Gi") in expressions.
func quantityType() *cel.Type { return cel.OpaqueType("kubernetes.Quantity") }

// quantity is a value of quantityType.
type quantity struct{ resource.Quantity }

var _ ref.Val = quantity{}

// ConvertToNative implements ref.Val.
func (q quantity) ConvertToNative(to reflect.Type) (any, error) {
	return nil, fmt.Errorf("a quantity does not convert to %s", to)
}

// ConvertToType implements ref.Val.
func (q quantity) ConvertToType(to ref.Type) ref.Val {
	return types.NewErr("a quantity does not convert to %s", to.TypeName())
}

// Equal implements ref.Val.
func (q quantity) Equal(other ref.Val) ref.Val {
	o, ok := other.(quantity)
	return types.Bool(ok && q.Cmp(o.Quantity) == 0)
}

// Type implements ref.Val.
func (q quantity) Type() ref.Type { return quantityType() }

// Value implements ref.Val.
func (q quantity) Value() any { return q.Quantity }

// quantities are the functions of quantities that policies use.
func quantities() []cel.EnvOption {
	compare := func(name string, holds func(order int) bool) cel.EnvOption {
		both := []*cel.Type{quantityType(), quantityType()}
		return cel.Function(name, cel.MemberOverload(name+"_quantity", both, cel.BoolType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				left, right := a.(quantity), b.(quantity)
				return types.Bool(holds(left.Cmp(right.Quantity)))
			})))
	}
	return []cel.EnvOption{
		cel.Function("quantity", cel.Overload("string_to_quantity", []*cel.Type{cel.StringType}, quantityType(),
			cel.UnaryBinding(func(text ref.Val) ref.Val {
				parsed, err := resource.ParseQuantity(string(text.(types.String)))
				if err != nil {
					return types.WrapErr(err)
				}
				return quantity{parsed}
			}))),
		compare("isGreaterThan", func(order int) bool { return order > 0 }),
		compare("isLessThan", func(order int) bool { return order < 0 }),
	}
}
