package agentctl

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// harmless makes text from outside safe to show on a terminal: characters that control the terminal or the direction of
// writing become visible. Otherwise the name of an agent or a line of a log could rewrite what the user sees.
func harmless(text string) string {
	if strings.IndexFunc(text, isControl) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r < 0x100 && isControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case isControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

// isControl reports whether a character changes how others are shown.
func isControl(r rune) bool {
	return unicode.IsControl(r) && r != '\t' || r == '\u2028' || r == '\u2029' ||
		unicode.Is(unicode.Bidi_Control, r) && r != '\u200e' && r != '\u200f'
}

// harmlessLines is harmless for text with several lines.
func harmlessLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = harmless(lines[i])
	}
	return strings.Join(lines, "\n")
}

// escaped makes JSON and YAML safe to show on a terminal. In JSON, only texts have such characters, and the escapes
// mean the same.
func escaped(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r != '\n' && isControl(r) || r == '\ufffe' || r == '\uffff' {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// harmlessWriter makes a stream safe to show on a terminal.
type harmlessWriter struct {
	io.Writer
	// rest is the beginning of a character whose other bytes have not come yet.
	rest []byte
}

// Write implements io.Writer.
func (w *harmlessWriter) Write(b []byte) (int, error) {
	text := append(w.rest, b...)
	end := len(text)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			end = i
		}
	}
	w.rest = append([]byte(nil), text[end:]...)
	if _, err := io.WriteString(w.Writer, harmlessLines(string(text[:end]))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// end writes the incomplete character at the end of the stream.
func (w *harmlessWriter) end() error {
	_, err := io.WriteString(w.Writer, harmlessLines(string(w.rest)))
	return err
}
