package agentctl

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is one column of a table.
type column[T any] struct {
	title string
	value func(T) string
}

// Columns of tables are separated by gap spaces, and are never narrower than minColumn on a terminal.
const (
	gap       = 2
	minColumn = 6
)

// printTable prints items as rows. On a terminal it cuts values so that a row fits a line. If that is not enough, it
// leaves the last columns out, except ids and the status.
func printTable[T any](w io.Writer, items []T, columns []column[T]) error {
	s := asScreen(w)
	rows := make([][]string, 0, len(items)+1)
	titles := make([]string, len(columns))
	for i, c := range columns {
		titles[i] = c.title
	}
	rows = append(rows, titles)
	for _, item := range items {
		row := make([]string, len(columns))
		for i, c := range columns {
			if row[i] = harmless(c.value(item)); row[i] == "" {
				row[i] = "-"
			}
		}
		rows = append(rows, row)
	}
	shown, widths := s.layout(rows)
	for i, row := range rows {
		if _, err := fmt.Fprintln(s, s.tableLine(i == 0, titles, row, shown, widths)); err != nil {
			return err
		}
	}
	return nil
}

// tableLine returns the shown cells of a row.
func (s screen) tableLine(isTitle bool, titles, row []string, shown, widths []int) string {
	var b strings.Builder
	for i, j := range shown {
		text := s.fit(row[j], widths[j])
		padding := strings.Repeat(" ", max(0, widths[j]-ansi.StringWidth(text))+gap)
		switch {
		case isTitle:
			text = s.in(bold, text)
		case titles[j] == "STATUS":
			text = s.in(statusStyle(row[j]), text) // a cut status keeps its color
		}
		b.WriteString(text)
		if i < len(shown)-1 {
			b.WriteString(padding)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// layout returns the columns that a screen has room for, and the widths of all columns. If even ids and the status do
// not fit, nothing is cut, because lines wrap anyway.
func (s screen) layout(rows [][]string) (shown, widths []int) {
	widths = make([]int, len(rows[0]))
	least := make([]int, len(widths))
	for j, title := range rows[0] {
		shown = append(shown, j)
		for _, row := range rows {
			widths[j] = max(widths[j], ansi.StringWidth(row[j]))
		}
		if least[j] = widths[j]; !isKept(title) {
			least[j] = min(widths[j], max(minColumn, ansi.StringWidth(title)))
		}
	}
	if s.width <= 0 {
		return shown, widths
	}
	for lineWidth(shown, least) > s.width {
		last := len(shown) - 1
		for last > 0 && (isKept(rows[0][shown[last]]) || shown[last] == nameColumn(rows[0])) {
			last--
		}
		if last <= 0 {
			return shown, widths
		}
		shown = slices.Delete(shown, last, last+1)
	}
	for lineWidth(shown, widths) > s.width {
		widest := -1
		for _, j := range shown {
			if widths[j] > least[j] && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		widths[widest]--
	}
	return shown, widths
}

// isKept reports whether a column is neither cut nor left out: users copy ids, and look for the status.
func isKept(title string) bool { return strings.HasSuffix(title, "ID") || title == "STATUS" }

// nameColumn returns the column that says to people what a row is about: the first one that is not an id.
func nameColumn(titles []string) int {
	return slices.IndexFunc(titles, func(title string) bool { return !isKept(title) })
}

// lineWidth returns the width of a line with some columns.
func lineWidth(shown, widths []int) int {
	total := gap * (len(shown) - 1)
	for _, j := range shown {
		total += widths[j]
	}
	return total
}

// printFields prints the fields of an object that have a value, one a line.
func printFields(s screen, fields []field) {
	width := 0
	for _, f := range fields {
		if f.value != "" {
			width = max(width, ansi.StringWidth(f.name)+1)
		}
	}
	for _, f := range fields {
		if f.value == "" {
			continue
		}
		value := harmless(f.value)
		if f.name == "Status" {
			word, rest, _ := strings.Cut(value, " ")
			value = strings.TrimRight(s.status(word)+" "+rest, " ")
		}
		fmt.Fprintf(s, "%s%s\n", s.in(bold, pad(f.name+":", width+gap-1)+" "), value)
	}
}
