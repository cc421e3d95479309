package codesample

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// pythonColumns is how long a line of a sample may be.
const pythonColumns = 80

// python returns statements that use api, which is a client, and a variable for each parameter of the path.
func python(o *operation) (string, error) {
	call, err := pythonCall(o)
	if err != nil {
		return "", err
	}
	answered, shape := o.answer()
	if answered == nil {
		return call, nil
	}
	name, _ := o.document.resolve(answered)
	result := Snake(name)
	show := fmt.Sprintf("print(%s.%s)", result, o.document.telling(answered))
	if o.paged() || shape != object {
		return fmt.Sprintf("for %s in %s:\n    %s", result, call, show), nil
	}
	return result + " = " + call + "\n" + show, nil
}

func pythonCall(o *operation) (string, error) {
	args := o.pathParameters()
	if body, _ := o.body(); body != nil {
		properties, err := members(body)
		if err != nil {
			return "", err
		}
		for _, p := range properties {
			value, err := pythonLiteral(p.value, "    ")
			if err != nil {
				return "", err
			}
			args = append(args, p.name+"="+value)
		}
	}
	method := "api." + Snake(o.ID)
	one := method + "(" + strings.Join(args, ", ") + ")"
	if len(one) <= pythonColumns-20 && !strings.Contains(one, "\n") {
		return one, nil
	}
	return method + "(\n    " + strings.Join(args, ",\n    ") + ",\n)", nil
}

// pythonLiteral returns an expression with the value of JSON, whose lines after the first one are indented.
func pythonLiteral(value json.RawMessage, indent string) (string, error) {
	var items []string
	open, end := "[", "]"
	switch value[0] {
	case '{':
		open, end = "{", "}"
		all, err := members(value)
		if err != nil {
			return "", err
		}
		for _, m := range all {
			literal, err := pythonLiteral(m.value, indent+"    ")
			if err != nil {
				return "", err
			}
			items = append(items, fmt.Sprintf("%q: %s", m.name, literal))
		}
	case '[':
		var all []json.RawMessage
		if err := json.Unmarshal(value, &all); err != nil {
			return "", err
		}
		for _, v := range all {
			literal, err := pythonLiteral(v, indent+"    ")
			if err != nil {
				return "", err
			}
			items = append(items, literal)
		}
	default:
		if name, ok := map[string]string{"true": "True", "false": "False", "null": "None"}[string(value)]; ok {
			return name, nil
		}
		return string(value), nil // strings and numbers are literals of Python, too
	}
	one := open + strings.Join(items, ", ") + end
	if len(one) <= pythonColumns-20-len(indent) && !strings.Contains(one, "\n") {
		return one, nil
	}
	inner := indent + "    "
	return open + "\n" + inner + strings.Join(items, ",\n"+inner) + ",\n" + indent + end, nil
}

// Snake returns a name as Python has it, such as list_api_keys for ListAPIKeys.
func Snake(name string) string {
	name = regexp.MustCompile(`([A-Z]+)([A-Z][a-z])`).ReplaceAllString(name, "${1}_$2")
	return strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}
