package agentctl

import (
	"fmt"
	"io"
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

// printTable prints items as rows. On a terminal it cuts values so that a row fits a line.
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
	widths := s.columnWidths(rows)
	for i, row := range rows {
		var b strings.Builder
		for j, cell := range row {
			text := s.fit(cell, widths[j])
			padding := strings.Repeat(" ", max(0, widths[j]-ansi.StringWidth(text))+gap)
			switch {
			case i == 0:
				text = s.in(bold, text)
			case titles[j] == "STATUS":
				text = s.status(text)
			}
			b.WriteString(text)
			if j < len(row)-1 {
				b.WriteString(padding)
			}
		}
		if _, err := fmt.Fprintln(s, strings.TrimRight(b.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// columnWidths returns the widths of columns. If they do not fit the screen, the widest ones become narrower, except
// ids, which users copy, and the status.
func (s screen) columnWidths(rows [][]string) []int {
	widths := make([]int, len(rows[0]))
	total := gap * (len(widths) - 1)
	for j := range widths {
		for _, row := range rows {
			widths[j] = max(widths[j], ansi.StringWidth(row[j]))
		}
		total += widths[j]
	}
	for ; s.width > 0 && total > s.width; total-- {
		widest := -1
		for j, title := range rows[0] {
			least := max(minColumn, ansi.StringWidth(title))
			isKept := strings.HasSuffix(title, "ID") || title == "STATUS"
			if !isKept && widths[j] > least && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			break // lines wrap
		}
		widths[widest]--
	}
	return widths
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
