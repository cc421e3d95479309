package agentctl

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// note prints a line for people: what happened, and what they can do next. Programs do not see it. Calls may be
// concurrent.
func (t *tool) note(format string, args ...any) {
	t.notes.Lock()
	defer t.notes.Unlock()
	fmt.Fprintln(t.app.Stderr, harmlessLines(fmt.Sprintf(format, args...)))
}

// confirm asks a question that the user must answer with y, unless yes is set.
func (t *tool) confirm(yes bool, question string, args ...any) error {
	if yes {
		return nil
	}
	if !t.app.Terminal.In {
		return usagef("this cannot be undone, and there is no terminal to ask on: add --yes to confirm")
	}
	fmt.Fprint(t.app.Stderr, harmlessLines(fmt.Sprintf(question, args...)), " [y/N] ")
	answer, err := t.answer()
	if err != nil {
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was changed, because the question was not answered with y")
}

// answer reads the line that the user types after a question.
func (t *tool) answer() (string, error) {
	line, err := bufio.NewReader(t.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(t.app.Stderr) // ends the line of the question
		return "", fmt.Errorf("the answer cannot be read: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// since shows how long ago a time was, or a word if there is none.
func (t *tool) since(at *time.Time, missing string) string {
	if at == nil {
		return missing
	}
	return t.age(*at) + " ago"
}

// day returns the date of a time.
func day(at *time.Time, missing string) string {
	if at == nil {
		return missing
	}
	return at.Local().Format(time.DateOnly)
}

// textOr returns the text at s, or another one if there is none.
func textOr[T ~string](s *T, missing string) string {
	if s == nil || *s == "" {
		return missing
	}
	return string(*s)
}

// textOf is the table of a result that people read as one line.
func textOf(line string) func(w io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, line)
		return err
	}
}
