package evaluate

import (
	"crypto/sha1" //nolint:gosec // Terraform's sha1, of a name
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are those of Terraform, with Terraform's meaning. Add one when a file needs it.
func functions() map[string]function.Function {
	all := map[string]function.Function{
		"can": tryfunc.CanFunc, "try": tryfunc.TryFunc, "abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc,
		"chomp": stdlib.ChompFunc, "chunklist": stdlib.ChunklistFunc, "coalescelist": stdlib.CoalesceListFunc,
		"compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
		"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc,
		"floor": stdlib.FloorFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc,
		"indent": stdlib.IndentFunc, "join": stdlib.JoinFunc, "jsondecode": stdlib.JSONDecodeFunc,
		"jsonencode": stdlib.JSONEncodeFunc, "keys": stdlib.KeysFunc, "lookup": stdlib.LookupFunc,
		"lower": stdlib.LowerFunc, "max": stdlib.MaxFunc, "merge": stdlib.MergeFunc, "min": stdlib.MinFunc,
		"range": stdlib.RangeFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct": stdlib.SetProductFunc, "setsubtract": stdlib.SetSubtractFunc, "setunion": stdlib.SetUnionFunc,
		"slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc,
		"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc,
		"trimspace": stdlib.TrimSpaceFunc, "trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc,
		"values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
		"tobool": stdlib.MakeToFunc(cty.Bool), "tonumber": stdlib.MakeToFunc(cty.Number),
		"tostring": stdlib.MakeToFunc(cty.String), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap":    stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)),
		"toset":    stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"coalesce": coalesce(), "length": length(), "sum": sum(), "replace": replace(), "one": one(),
		"alltrue": everyBool(true), "anytrue": everyBool(false), "cidrsubnet": cidrsubnet(),
		"fileexists": fileexists(),
		"file": text(func(s string) (string, error) {
			b, err := os.ReadFile(s)
			return string(b), err
		}),
		"startswith":  boolean(func(s, part string) bool { return strings.HasPrefix(s, part) }),
		"endswith":    boolean(func(s, part string) bool { return strings.HasSuffix(s, part) }),
		"strcontains": boolean(func(s, part string) bool { return strings.Contains(s, part) }),
		"base64encode": text(func(s string) (string, error) {
			return base64.StdEncoding.EncodeToString([]byte(s)), nil
		}),
		"base64sha256": text(func(s string) (string, error) {
			digest := sha256.Sum256([]byte(s))
			return base64.StdEncoding.EncodeToString(digest[:]), nil
		}),
		// Marks of sensitive values do not matter here.
		"sensitive": function.New(&function.Spec{
			Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType}},
			Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
			Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
		}),
		"sha1": text(func(s string) (string, error) {
			digest := sha1.Sum([]byte(s)) //nolint:gosec // see above
			return hex.EncodeToString(digest[:]), nil
		}),
		"sha256": text(func(s string) (string, error) {
			digest := sha256.Sum256([]byte(s))
			return hex.EncodeToString(digest[:]), nil
		}),
		// As in a plan, the value is unknown.
		"uuid": function.New(&function.Spec{
			Type: function.StaticReturnType(cty.String),
			Impl: func([]cty.Value, cty.Type) (cty.Value, error) { return cty.UnknownVal(cty.String), nil },
		}),
	}
	all["templatefile"] = templatefile(maps.Clone(all))
	return all
}

func fileexists() function.Function {
	return function.New(&function.Spec{
		Params: parameters("path"), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			info, err := os.Stat(args[0].AsString())
			return cty.BoolVal(err == nil && info.Mode().IsRegular()), nil
		},
	})
}

func parameters(names ...string) []function.Parameter {
	var all []function.Parameter
	for _, name := range names {
		all = append(all, function.Parameter{Name: name, Type: cty.String})
	}
	return all
}

func text(f func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: parameters("s"), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := f(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

func boolean(f func(s, part string) bool) function.Function {
	return function.New(&function.Spec{
		Params: parameters("s", "part"), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(f(args[0].AsString(), args[1].AsString())), nil
		},
	})
}

// replace takes a pattern between slashes as an expression, and any other as text.
func replace() function.Function {
	return function.New(&function.Spec{
		Params: parameters("s", "old", "new"), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if old := args[1].AsString(); len(old) > 1 && old[0] == '/' && old[len(old)-1] == '/' {
				return stdlib.RegexReplace(args[0], cty.StringVal(old[1:len(old)-1]), args[2])
			}
			return stdlib.Replace(args[0], args[1], args[2])
		},
	})
}

func anything(name string) []function.Parameter {
	return []function.Parameter{{Name: name, Type: cty.DynamicPseudoType}}
}

// length counts the elements of a collection or an object, or the characters of a text.
func length() function.Function {
	return function.New(&function.Spec{
		Params: anything("v"), Type: function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			switch typ := args[0].Type(); {
			case typ == cty.String:
				return stdlib.Strlen(args[0])
			case typ.IsObjectType():
				return cty.NumberIntVal(int64(len(typ.AttributeTypes()))), nil
			default:
				return stdlib.Length(args[0])
			}
		},
	})
}

// coalesce returns the first argument that is neither null nor empty text.
func coalesce() function.Function {
	return function.New(&function.Spec{
		VarParam: &function.Parameter{
			Name: "values", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true,
		},
		Type: func([]cty.Value) (cty.Type, error) { return cty.DynamicPseudoType, nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			for _, a := range args {
				if !a.IsKnown() {
					return cty.DynamicVal, nil
				}
				if !a.IsNull() && (a.Type() != cty.String || a.AsString() != "") {
					return a, nil
				}
			}
			return cty.DynamicVal, fmt.Errorf("all arguments are null or empty")
		},
	})
}

func sum() function.Function {
	return function.New(&function.Spec{
		Params: anything("list"), Type: function.StaticReturnType(cty.Number),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			total := cty.NumberIntVal(0)
			for it := args[0].ElementIterator(); it.Next(); {
				_, v := it.Element()
				total = total.Add(v)
			}
			return total, nil
		},
	})
}

// one returns the only element of a collection, or null if it is empty.
func one() function.Function {
	return function.New(&function.Spec{
		Params: anything("list"), Type: func([]cty.Value) (cty.Type, error) { return cty.DynamicPseudoType, nil },
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			switch all := args[0].AsValueSlice(); len(all) {
			case 0:
				return cty.NullVal(cty.DynamicPseudoType), nil
			case 1:
				return all[0], nil
			default:
				return cty.DynamicVal, fmt.Errorf("has %d elements, want at most one", len(all))
			}
		},
	})
}

// everyBool is alltrue, or anytrue: not every element is false.
func everyBool(want bool) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
		Type:   function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			unknown := false
			for _, v := range args[0].AsValueSlice() {
				if !v.IsKnown() {
					unknown = true
				} else if is := !v.IsNull() && v.True(); is != want {
					return cty.BoolVal(!want), nil
				}
			}
			if unknown {
				return cty.UnknownVal(cty.Bool), nil
			}
			return cty.BoolVal(want), nil
		},
	})
}

func cidrsubnet() function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{
			{Name: "prefix", Type: cty.String}, {Name: "newbits", Type: cty.Number}, {Name: "netnum", Type: cty.Number},
		},
		Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			prefix, err := netip.ParsePrefix(args[0].AsString())
			if err != nil {
				return cty.DynamicVal, err
			}
			bits, _ := args[1].AsBigFloat().Int64()
			subnet, _ := args[2].AsBigFloat().Int(nil)
			address := prefix.Masked().Addr()
			size := prefix.Bits() + int(bits)
			if size > address.BitLen() || subnet.Sign() < 0 || subnet.BitLen() > int(bits) {
				return cty.DynamicVal, fmt.Errorf("%s has no subnet %s with %d more bits", prefix, subnet, bits)
			}
			number := new(big.Int).SetBytes(address.AsSlice())
			number.Or(number, subnet.Lsh(subnet, uint(address.BitLen()-size)))
			first, _ := netip.AddrFromSlice(number.FillBytes(make([]byte, address.BitLen()/8)))
			return cty.StringVal(netip.PrefixFrom(first, size).String()), nil
		},
	})
}

// templates has a parsed template for each source, as parsed has files.
var templates sync.Map //nolint:gochecknoglobals // it only saves work: equal sources are parsed into equal templates

// parseTemplate reads a template. Callers share the result and must not change it.
func parseTemplate(name string) (hclsyntax.Expression, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	key := source{name, string(content)}
	if found, ok := templates.Load(key); ok {
		return found.(hclsyntax.Expression), nil
	}
	template, diags := hclsyntax.ParseTemplate(content, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	templates.Store(key, template)
	return template, nil
}

// templatefile renders a file. A template sees only the names that it is given, and callable functions.
func templatefile(callable map[string]function.Function) function.Function {
	return function.New(&function.Spec{
		Params: append(parameters("path"), anything("vars")...), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			template, err := parseTemplate(args[0].AsString())
			if err != nil {
				return cty.DynamicVal, err
			}
			v, diags := template.Value(&hcl.EvalContext{Functions: callable, Variables: args[1].AsValueMap()})
			if diags.HasErrors() {
				return cty.DynamicVal, diags
			}
			return v, nil
		},
	})
}
