package monitoringemu

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// condition is one comparison of a filter.
type condition struct {
	field   string
	matches func(value string) bool
	// exact is set for = with a plain value.
	exact bool
}

var (
	// comparison matches `field = value`, `field != value` or `field = function(arguments)` at the start of the text.
	comparison  = regexp.MustCompile(`^\s*([a-zA-Z_][\w.]*)\s*(!=|=)\s*(?:([a-z_.]+)\(((?:[^()"']|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')*)\)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[\w./-]+))`)
	conjunction = regexp.MustCompile(`^\s+(?:AND\s+)?`)
	argument    = regexp.MustCompile(`"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'`)
	escape      = regexp.MustCompile(`\\(.)`)
)

// parseFilter parses comparisons joined by AND or by spaces: metric.type, resource.type, metric.labels.KEY,
// resource.labels.KEY (also as label) and project, with = and !=, a value, starts_with("x"), ends_with("x"),
// has_substring("x"), one_of("x", "y") or monitoring.regex.full_match("x"). Like Cloud Monitoring, it requires exactly
// one metric type.
func parseFilter(filter string) (func(series) bool, error) {
	var conditions []condition
	for rest := filter; ; {
		parts := comparison.FindStringSubmatch(rest)
		if parts == nil {
			return nil, status.Errorf(codes.Unimplemented,
				"The emulator does not understand [%s] in the filter [%s]: use comparisons joined by AND.", rest,
				filter)
		}
		c, err := newCondition(parts)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, c)
		rest = rest[len(parts[0]):]
		if strings.TrimSpace(rest) == "" {
			break
		}
		rest = rest[len(conjunction.FindString(rest)):]
	}
	if n := len(slices.DeleteFunc(slices.Clone(conditions),
		func(c condition) bool { return c.field != "metric.type" || !c.exact })); n != 1 {
		return nil, status.Errorf(codes.InvalidArgument,
			`The filter must have one condition metric.type = "...": [%s].`, filter)
	}
	return func(s series) bool {
		return !slices.ContainsFunc(conditions, func(c condition) bool {
			got, _ := s.field(c.field)
			return !c.matches(got)
		})
	}, nil
}

// newCondition takes the submatches of comparison.
func newCondition(parts []string) (condition, error) {
	c := condition{field: parts[1]}
	if !knownField(c.field) {
		return c, status.Errorf(codes.Unimplemented, "The emulator can't filter by [%s].", c.field)
	}
	if function := parts[3]; function != "" {
		test, err := newFunction(function, parts[4])
		if err != nil {
			return c, err
		}
		c.matches = test
	} else {
		want := unquote(parts[5])
		c.exact = parts[2] == "="
		c.matches = func(got string) bool { return got == want }
	}
	if parts[2] == "!=" {
		equal := c.matches
		c.matches = func(got string) bool { return !equal(got) }
	}
	return c, nil
}

func newFunction(name, arguments string) (func(string) bool, error) {
	var values []string
	for _, match := range argument.FindAllString(arguments, -1) {
		values = append(values, unquote(match))
	}
	tests := map[string]func(string, string) bool{
		"starts_with": strings.HasPrefix, "ends_with": strings.HasSuffix, "has_substring": strings.Contains,
		"one_of":                      func(got, want string) bool { return got == want },
		"monitoring.regex.full_match": fullMatch,
	}
	test, known := tests[name]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "The emulator has no function [%s] in filters.", name)
	}
	if len(values) == 0 || len(values) > 1 && name != "one_of" {
		return nil, status.Errorf(codes.InvalidArgument, "The function [%s] can't take the arguments [%s].", name,
			arguments)
	}
	return func(got string) bool {
		return slices.ContainsFunc(values, func(want string) bool { return test(got, want) })
	}, nil
}

// fullMatch reports whether an RE2 expression matches all of a value. An invalid one matches nothing.
func fullMatch(got, expression string) bool {
	pattern, err := regexp.Compile(`\A(?:` + expression + `)\z`)
	return err == nil && pattern.MatchString(got)
}

// unquote removes quotes, if any, and the backslashes of escaped characters.
func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') {
		return escape.ReplaceAllString(text[1:len(text)-1], "$1")
	}
	return text
}

func knownField(field string) bool {
	_, label := cutLabel(field)
	return label != "" || slices.Contains([]string{"metric.type", "resource.type", "project"}, field)
}

// cutLabel returns "metric" or "resource" and the label name, which is empty for a field that is not a label.
func cutLabel(field string) (of, label string) {
	for _, of := range []string{"metric", "resource"} {
		for _, prefix := range []string{of + ".labels.", of + ".label."} {
			if label, found := strings.CutPrefix(field, prefix); found {
				return of, label
			}
		}
	}
	return "", ""
}

// field returns the value of a known field, and whether the series has it.
func (s series) field(field string) (string, bool) {
	of, label := cutLabel(field)
	labels := s.resource.Labels
	switch {
	case of == "metric":
		labels = s.metric.Labels
	case of == "resource":
	case field == "metric.type":
		return s.metric.Type, true
	case field == "resource.type":
		return s.resource.Type, true
	default: // project
		label = "project_id"
	}
	value, ok := labels[label]
	return value, ok
}
