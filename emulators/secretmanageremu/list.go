package secretmanageremu

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// defaultPage is smaller than the service's, so that tests find clients that do not page.
	defaultPage = 100
	maxPage     = 25_000
)

// fields are the values that a filter can test.
type fields struct {
	name, state string
	labels      map[string]string
}

// term matches one condition of a filter: field, operator, and a value that may be quoted.
var term = regexp.MustCompile(`^([a-z_]+(?:\.[^\s:=]+)?)\s*([:=])\s*(?:"([^"]*)"|([^\s"()]+))$`)

// parseFilter parses conditions joined by AND: name:PART, name=NAME, labels.KEY=VALUE, labels.KEY:* (the label exists),
// labels.KEY:PART and state=STATE or state:STATE. It refuses the rest of the language.
func parseFilter(filter string) (func(fields) bool, error) {
	if strings.TrimSpace(filter) == "" {
		return func(fields) bool { return true }, nil
	}
	var conditions []func(fields) bool
	for text := range strings.SplitSeq(filter, " AND ") {
		parts := term.FindStringSubmatch(strings.TrimSpace(text))
		if parts == nil {
			return nil, status.Errorf(codes.InvalidArgument,
				"The emulator does not understand [%s] in the filter [%s].", text, filter)
		}
		condition, err := condition(parts[1], parts[2], parts[3]+parts[4])
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, condition)
	}
	return func(f fields) bool {
		for _, holds := range conditions {
			if !holds(f) {
				return false
			}
		}
		return true
	}, nil
}

func condition(field, operator, value string) (func(fields) bool, error) {
	compare := func(got string) bool { return got == value }
	if operator == ":" {
		compare = func(got string) bool { return strings.Contains(strings.ToLower(got), strings.ToLower(value)) }
	}
	label, isLabel := strings.CutPrefix(field, "labels.")
	switch {
	case isLabel:
		return func(f fields) bool {
			got, ok := f.labels[label]
			return ok && (operator == ":" && value == "*" || compare(got))
		}, nil
	case field == "name":
		return func(f fields) bool { return compare(f.name) }, nil
	case field == "state":
		return func(f fields) bool { return strings.EqualFold(f.state, value) }, nil
	default:
		return nil, status.Errorf(codes.InvalidArgument, "The emulator can't filter by [%s].", field)
	}
}

// paginate returns a page of items, which are in descending order of key, and the token of the next page. The token is
// the last key, so items that are added or removed between two pages are neither repeated nor skipped.
func paginate[T any](items []T, key func(T) int64, size int32, token string) ([]T, string, error) {
	if size < 0 {
		return nil, "", status.Errorf(codes.InvalidArgument, "The page size is %d.", size)
	}
	if size == 0 {
		size = defaultPage
	}
	if token != "" {
		text, err := base64.RawURLEncoding.DecodeString(token)
		last, numberErr := strconv.ParseInt(string(text), 10, 64)
		if err != nil || numberErr != nil {
			return nil, "", status.Error(codes.InvalidArgument, "The page token is invalid.")
		}
		for len(items) > 0 && key(items[0]) >= last {
			items = items[1:]
		}
	}
	count := int(min(size, maxPage))
	if len(items) <= count {
		return items, "", nil
	}
	page := items[:count]
	return page, base64.RawURLEncoding.EncodeToString(strconv.AppendInt(nil, key(page[count-1]), 10)), nil
}
